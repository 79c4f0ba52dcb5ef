"""Shortens the conversation that a model is shown when it has become too long; all messages stay stored.

First the results of old tool calls are left out, then old messages are summarised by a cheap model. A call of a tool
and its result are never separated, and the newest turn is never shortened. An event reports each step. Below:
conversations. Above: the hooks of turns.
"""

import logging
from collections.abc import Collection, Sequence
from itertools import accumulate
from typing import Final, Literal, NamedTuple

from goalport.base.errors import ModelError, ModelNotReady
from goalport.base.events import ConversationCompacted
from goalport.models.llm import AssistantMessage, LlmOptions, Message, SystemMessage, ToolReply, UserMessage
from goalport.models.prompts import as_data
from goalport.runtime.ai import Ai
from goalport.runtime.chat.conversation import SUMMARY, Conversation, ConversationMessage, is_long_result
from goalport.runtime.chat.conversations import Conversations
from goalport.runtime.process import ActionContext, AgentProcess

_log = logging.getLogger(__name__)
_CHARACTERS: Final = 4
"""About how many characters a token has."""
_IMAGE: Final = 1_000
"""About how many tokens an image has."""
_MESSAGE: Final = 4
"""About how many tokens a message has in addition to its text."""
_KEPT: Final = 0.5
"""The share of the limit that the newest turns may fill, so that a summary is not needed before every turn."""
_MOST_OF_ONE: Final = 4_000
"""The most characters of one message in a request for a summary."""
_MOST_AT_ONCE: Final = 40_000
"""The most characters in one request for a summary; longer texts are summarised piece by piece."""
_HEADING: Final = "What was said before, in short:\n\n"
_MEMORY: Final = "Your notes of what was said still earlier; keep what they say:"
_MORE: Final = "What was said after that:"
_FORGOTTEN: Final = "The beginning of this conversation is left out, because it has become too long."
_INSTRUCTIONS: Final = (
    "You keep the memory of a conversation between a person and an assistant. Write down, in the language of the"
    " conversation and in at most 400 words, all that is needed to go on with it: who the person is and what they want,"
    " what was decided, found out and promised, names, numbers and links, and what is still open. Write only that."
)


CHEAPEST: Final = "cheapest"
"""The role of the cheap model in the settings."""


def cheapest(ai: Ai, roles: Collection[str]) -> Ai:
    """An `Ai` that asks the model with the role `cheapest`, if the settings name one among the `roles`.

    If there is none, or it cannot be asked or does not answer, the default model is asked.
    """
    return ai.with_llm_by_role(CHEAPEST).with_fallback(LlmOptions()) if CHEAPEST in roles else ai


class Compaction(NamedTuple):
    """The next step to shorten a conversation."""

    what: Literal["tool results", "summary"]
    up_to: int
    """How many of the visible messages it concerns, from the first on."""


def estimated_tokens(messages: Sequence[Message]) -> int:
    """About how many tokens a model reads in these messages: four characters are taken for one."""
    total = 0
    for each in messages:
        calls = each.calls if isinstance(each, AssistantMessage) else ()
        images = each.images if isinstance(each, UserMessage | ToolReply) else ()
        characters = len(each.content) + sum(len(call.name) + len(call.arguments) for call in calls)
        total += _MESSAGE + characters // _CHARACTERS + len(images) * _IMAGE
    return total


def next_compaction(messages: Sequence[Message], limit: int) -> Compaction | None:
    """The next step to shorten these messages if they have more than `limit` tokens; None: no need, or impossible.

    The messages are those that a model would be shown, with notes in place of results that were left out before. The
    newest turns stay as they are: as many as fit into their share of the limit.
    """
    sizes = [estimated_tokens([each]) for each in messages]
    left = sum(sizes)
    if left <= limit:
        return None
    before, starts, open_until = [0, *accumulate(sizes)], list[int](), -1
    replied = {each.call_id: place for place, each in enumerate(messages) if isinstance(each, ToolReply)}
    for place, each in enumerate(messages):  # a turn starts with a person, but not while a result of a tool is missing
        if isinstance(each, UserMessage) and place > open_until:
            starts.append(place)
        if isinstance(each, AssistantMessage):
            open_until = max(open_until, *(replied.get(call.id, -1) for call in each.calls), -1)
    fitting = (place for place in starts if left - before[place] <= round(limit * _KEPT))
    kept_from = next(fitting, starts[-1] if starts else 0)
    if any(map(is_long_result, messages[:kept_from])):
        return Compaction("tool results", kept_from)
    covers_any = any(not isinstance(each, SystemMessage) for each in messages[:kept_from])
    return Compaction("summary", kept_from) if covers_any else None


async def compact(
    process: AgentProcess, conversation: Conversation, conversations: Conversations, limit: int, roles: Collection[str]
) -> None:
    """Shorten the conversation that a model is shown until it has at most `limit` tokens, if that is possible.

    If the model that summarises fails, the turn goes on without a summary; if none is ready, old messages are left out.
    """
    while (wanted := next_compaction(messages := conversation.messages, limit)) is not None:
        before, old = estimated_tokens(messages), messages[: wanted.up_to]
        last = conversation.visible[wanted.up_to - 1].id
        if wanted.what == "tool results":
            concerned = sum(map(is_long_result, old))
            entry = ConversationMessage(role=SUMMARY, message=SystemMessage(""), clears=last)
        else:
            concerned = sum(not isinstance(each, SystemMessage) for each in old)
            try:
                text = await _summary(process, conversation.visible[: wanted.up_to], roles)
            except ModelError as error:
                _log.warning("Conversation %s was not made shorter: %s", conversation.id, error)
                return
            entry = ConversationMessage(role=SUMMARY, message=SystemMessage(text), covers=last)
        await conversations.append(conversation, entry)
        after = estimated_tokens(conversation.messages)
        process.emit(
            ConversationCompacted(conversation.id, wanted.what, concerned, before, after, process_id=process.id)
        )
        if after >= before:
            return


async def _summary(process: AgentProcess, visible: Sequence[ConversationMessage], roles: Collection[str]) -> str:
    """The summary of old messages and of an earlier summary, made in pieces that a model of any size can read.

    Raises `ModelError`.
    """
    earlier = before = next((each.text for each in visible if each.role == SUMMARY), "")
    pieces = [""]
    for each in visible:
        if each.role in {"system", SUMMARY}:
            continue
        text, half = each.text, _MOST_OF_ONE // 2
        said = f"{each.name or each.role}: {text if len(text) <= _MOST_OF_ONE else f'{text[:half]} … {text[-half:]}'}"
        if pieces[-1] and len(pieces[-1]) + len(said) > _MOST_AT_ONCE:
            pieces.append("")
        pieces[-1] += f"\n\n{said}" if pieces[-1] else said
    context = ActionContext(process)
    context.progress("The older part of the conversation is summarised.")
    ai = cheapest(context.ai, roles).with_id("summary").with_system_prompt(_INSTRUCTIONS)
    try:
        for piece in pieces:
            told = f"{_MEMORY}\n\n{before}\n\n{_MORE}\n\n" if before else ""
            before = await ai.generate_text(told + as_data(piece, "the conversation"))
    except ModelNotReady:
        return f"{earlier.removesuffix(_FORGOTTEN)}\n\n{_FORGOTTEN}".strip()
    return f"{_HEADING}{before.removeprefix(_HEADING)}"
