"""Makes what a model is shown of a conversation shorter, when it has become too long; what was said stays stored.

First the results of old tools are left out, then what is old is summarised by a cheap model. Nothing is cut between the
call of a tool and its result, and the newest turn always stays as it was said. Each time an event says so. Below:
conversations. Above: the hooks of turns.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from goalport.base.errors import ModelError, ModelNotReady
from goalport.base.events import ConversationCompacted
from goalport.models.llm import AssistantMessage, LlmOptions, Message, SystemMessage, ToolReply, UserMessage
from goalport.models.prompts import as_data
from goalport.runtime.ai import Ai
from goalport.runtime.chat.conversation import LEFT_OUT, SUMMARY, Conversation, ConversationMessage
from goalport.runtime.chat.conversations import Conversations
from goalport.runtime.process import ActionContext, AgentProcess

_log = logging.getLogger(__name__)
_CHARACTERS: Final = 4
"""How many characters a token has, about."""
_IMAGE: Final = 1_000
"""How many tokens an image has, about."""
_MESSAGE: Final = 4
"""How many tokens a message has besides its text, about."""
_KEPT: Final = 0.5
"""The share of the limit that the newest turns may fill, so that not every turn has to be preceded by a summary."""
_MOST_OF_ONE: Final = 4_000
"""The most characters of a message that the model is shown which summarises."""
_MOST_AT_ONCE: Final = 40_000
"""The most characters that it is shown in one request; more is summarised piece by piece."""
_HEADING: Final = "What was said before, in short:\n\n"
_MEMORY: Final = "Your notes of what was said still earlier; keep what they say:"
_MORE: Final = "What was said after that:"
_FORGOTTEN: Final = "The beginning of this conversation is left out, because it has become too long."
_INSTRUCTIONS: Final = (
    "You keep the memory of a conversation between a person and an assistant. Write down, in the language of the"
    " conversation and in at most 400 words, all that is needed to go on with it: who the person is and what they want,"
    " what was decided, found out and promised, names, numbers and links, and what is still open. Write only that."
)


class Compaction(NamedTuple):
    """What is to be done next to make a conversation shorter."""

    what: Literal["tool results", "summary"]
    up_to: int
    """How many of the visible messages it concerns, from the first on."""


def estimated_tokens(messages: Sequence[Message]) -> int:
    """About how many tokens a model reads in these messages: four characters are taken for one."""
    return sum(map(_tokens, messages))


def _tokens(message: Message) -> int:
    characters = len(message.content)
    if isinstance(message, AssistantMessage):
        characters += sum(len(each.name) + len(each.arguments) for each in message.calls)
    images = len(message.images) if isinstance(message, UserMessage | ToolReply) else 0
    return _MESSAGE + characters // _CHARACTERS + images * _IMAGE


def next_compaction(messages: Sequence[Message], limit: int) -> Compaction | None:
    """What makes these messages shorter, if they have more than `limit` tokens; None: nothing can, or need.

    The messages are those that a model would be shown, results of tools that were left out before among them.
    """
    sizes = [_tokens(each) for each in messages]
    if sum(sizes) <= limit:
        return None
    kept_from = _kept_from(messages, sizes, round(limit * _KEPT))
    old = messages[:kept_from]
    if any(map(_is_long_result, old)):
        return Compaction("tool results", kept_from)
    covered = [each for each in old if not isinstance(each, SystemMessage)]
    return Compaction("summary", kept_from) if covered else None


def _is_long_result(message: Message) -> bool:
    return isinstance(message, ToolReply) and (len(message.content) > len(LEFT_OUT) or bool(message.images))


def _kept_from(messages: Sequence[Message], sizes: Sequence[int], most: int) -> int:
    """The place of the message of a person from which on all stays: as early as `most` tokens allow."""
    starts = [*_turn_starts(messages)]
    if not starts:
        return 0
    before, size = [0, *accumulate(sizes)], sum(sizes)
    return next((place for place in starts if size - before[place] <= most), starts[-1])


def _turn_starts(messages: Sequence[Message]) -> Iterator[int]:
    """The places of the messages of people, but for those that came while a tool had not given its result yet."""
    replied = {each.call_id: place for place, each in enumerate(messages) if isinstance(each, ToolReply)}
    open_until = -1
    for place, each in enumerate(messages):
        if isinstance(each, UserMessage) and place > open_until:
            yield place
        if isinstance(each, AssistantMessage):
            open_until = max(open_until, *(replied.get(call.id, -1) for call in each.calls), -1)


async def compact(
    process: AgentProcess, conversation: Conversation, conversations: Conversations, limit: int, roles: Collection[str]
) -> None:
    """Make what a model is shown of a conversation shorter until it has at most `limit` tokens, if that is possible.

    If the model that summarises fails, the turn goes on with what there is; if there is none, what is old is left out.
    """
    while (wanted := next_compaction(conversation.messages, limit)) is not None:
        before, messages = estimated_tokens(conversation.messages), _concerned(conversation.messages, wanted)
        entry = await _entry(process, conversation, wanted, roles)
        if entry is None:
            return
        await conversations.append(conversation, entry)
        after = estimated_tokens(conversation.messages)
        process.emit(
            ConversationCompacted(conversation.id, wanted.what, messages, before, after, process_id=process.id)
        )
        if after >= before:
            return


def _concerned(messages: Sequence[Message], wanted: Compaction) -> int:
    """How many messages are changed, or put together in a summary."""
    if wanted.what == "tool results":
        return sum(map(_is_long_result, messages[: wanted.up_to]))
    return sum(not isinstance(each, SystemMessage) for each in messages[: wanted.up_to])


async def _entry(
    process: AgentProcess, conversation: Conversation, wanted: Compaction, roles: Collection[str]
) -> ConversationMessage | None:
    """The entry that is shown in place of what is old; None: it could not be made."""
    visible = conversation.visible[: wanted.up_to]
    last = visible[-1].id
    if wanted.what == "tool results":
        return ConversationMessage(role=SUMMARY, message=SystemMessage(""), clears=last)
    old = [each for each in visible if each.role not in {"system", SUMMARY}]
    before = next((each.text for each in visible if each.role == SUMMARY), "")
    context = ActionContext(process)
    context.progress("The older part of the conversation is summarised.")
    try:
        text = await _summary(cheapest(context.ai, roles), old, before)
    except ModelNotReady:
        text = f"{before.removesuffix(_FORGOTTEN)}\n\n{_FORGOTTEN}".strip()
    except ModelError as error:
        _log.warning("Conversation %s was not made shorter: %s", conversation.id, error)
        return None
    return ConversationMessage(role=SUMMARY, message=SystemMessage(text), covers=last)


async def _summary(ai: Ai, old: Sequence[ConversationMessage], before: str) -> str:
    """The summary of old messages and of what an earlier summary says, made piece by piece. Raises `ModelError`."""
    asked = ai.with_id("summary").with_system_prompt(_INSTRUCTIONS)
    for piece in _pieces(old):
        told = f"{_MEMORY}\n\n{before}\n\n{_MORE}\n\n" if before else ""
        before = await asked.generate_text(told + as_data(piece, "the conversation"))
    return f"{_HEADING}{before.removeprefix(_HEADING)}"


def _pieces(old: Iterable[ConversationMessage]) -> Iterator[str]:
    """What was said, in pieces that a model of any size can read."""
    piece: list[str] = []
    for each in old:
        said = f"{each.name or each.role}: {_shortened(each.text)}"
        if piece and sum(map(len, piece)) + len(said) > _MOST_AT_ONCE:
            yield "\n\n".join(piece)
            piece = []
        piece.append(said)
    yield "\n\n".join(piece)


def _shortened(text: str) -> str:
    return text if len(text) <= _MOST_OF_ONE else f"{text[: _MOST_OF_ONE // 2]} … {text[-_MOST_OF_ONE // 2 :]}"


CHEAPEST: Final = "cheapest"
"""The role of that model in the settings."""


def cheapest(ai: Ai, roles: Collection[str]) -> Ai:
    """An `Ai` that asks the model with the role `cheapest`, if the settings name one among the `roles`.

    The default model is asked where there is none, or where that one cannot be asked or does not answer.
    """
    return ai.with_llm_by_role(CHEAPEST).with_fallback(LlmOptions()) if CHEAPEST in roles else ai
