"""The conversation that a request goes on with, found by its id or by what was said, and the turn that begins with it.

Clients send the whole history with each request. What is new is added; what was edited, or is answered anew, is another
branch of the conversation; a history that nobody knows here is taken over. Above: the handlers.
"""

from collections.abc import Sequence
from http import HTTPStatus
from typing import Final

from goalport.base.caller import Caller
from goalport.base.errors import BadInput
from goalport.models.llm import AssistantMessage, Message, SystemMessage, UserMessage
from goalport.runtime.chat import ChatSession, Turn
from goalport.runtime.chat.conversation import REPLY_SEPARATOR, ConversationMessage
from goalport.runtime.chat.history import compare
from goalport.runtime.platform import AgentPlatform
from goalport.server.doors.openai.identity import ResponseId
from goalport.server.doors.openai.models import ChatbotModel, Model
from goalport.server.publish.questions_in_words import TOO_LATE, asked_in
from goalport.server.web import Problem

_MOST_CHARACTERS: Final = 100
"""How much of the first message and of the last reply is searched for: not more words than a search may have."""
_MOST_LIKE_IT: Final = 10
"""How many stored conversations with the same words are compared with a history."""
_MOST_LATELY: Final = 10_000
"""How many requests are remembered by their histories."""


class Histories:
    """Finds the conversation that a request goes on with: by its id, or by what was said.

    Those that were answered lately are known by what people said in them. Any other is searched for in all messages of
    the caller, which takes the longer, the more these are.
    """

    def __init__(self, platform: AgentPlatform) -> None:
        self._platform = platform
        self._lately: dict[int, str] = {}

    async def find_session(
        self, model: ChatbotModel, caller: Caller, conversation_id: str, history: Sequence[Message]
    ) -> ChatSession:
        """The session of the caller's conversation that an id names, or else of the one in which the history was said.

        There may be a new one for both.
        """
        if conversation_id:
            return await model.chatbot.open_thread(conversation_id, caller)
        session = await self._with_history(model, caller, history) or await model.chatbot.create_session(caller)
        self._lately[_key(model, caller, history)] = session.conversation.id
        if len(self._lately) > _MOST_LATELY:
            del self._lately[next(iter(self._lately))]
        return session

    async def _with_history(
        self, model: ChatbotModel, caller: Caller, history: Sequence[Message]
    ) -> ChatSession | None:
        """The session of the conversation in which all up to the last reply of a history was said, if it is known."""
        last = next((at for at, each in reversed([*enumerate(history)]) if isinstance(each, AssistantMessage)), None)
        if last is None:
            return None
        said = history[: last + 1]
        lately = self._lately.get(_key(model, caller, said), "")
        session = await _where_said(model, caller, lately, said) if lately else None
        if session is not None:
            return session
        first = next((each.content for each in said if isinstance(each, UserMessage)), "")
        search = f"{first[:_MOST_CHARACTERS]} {said[-1].content[:_MOST_CHARACTERS]}"
        found = await self._platform.conversations.list(caller, chatbot=model.name, search=search, limit=_MOST_LIKE_IT)
        for record in found:
            session = await _where_said(model, caller, record.id, said) if caller.same_as(record.caller) else None
            if session is not None:
                return session
        return None


async def _where_said(
    model: ChatbotModel, caller: Caller, conversation_id: str, said: Sequence[Message]
) -> ChatSession | None:
    """The session of a conversation, if all this was said in it."""
    session = await model.chatbot.find_session(conversation_id, caller)
    if session is None or compare(session.conversation.entries, caught_up(session, said)).tail:
        return None
    return session


def _key(model: ChatbotModel, caller: Caller, history: Sequence[Message]) -> int:
    """What people said in a history; the rest is compared once the conversation is found."""
    said = (each.content for each in history if isinstance(each, UserMessage))
    return hash((model.name, caller.issuer, caller.id, *said))


async def continued(
    model: ChatbotModel, caller: Caller, conversation_id: str, previous_response_id: str
) -> tuple[ChatSession, Sequence[ConversationMessage]]:
    """The session that a request goes on with, and the messages of the response that it follows; empty: the last ones.

    Raises `Problem` (404) for a conversation or a response that the caller does not have with this chatbot.
    """
    previous = ResponseId.read(previous_response_id)
    if previous_response_id and previous is None:
        raise not_found(previous_response_id, model)
    named = conversation_id if previous is None else previous.conversation
    session = await model.chatbot.find_thread(named, caller)
    if session is None:
        raise not_found(named, model)
    if previous is None:
        return session, ()
    try:
        return session, session.conversation.reply_to(previous.said)
    except BadInput:
        raise not_found(previous_response_id, model) from None


async def continue_after(session: ChatSession, given: Sequence[Message], after: str | None) -> Turn:
    """The turn in which the last message is answered, after a message that is stored, or after the last one.

    Raises what `ChatSession.begin_turn` raises.
    """
    *before, said = given
    assert isinstance(said, UserMessage)
    place = session.conversation.loaded.record.head if after is None else after
    earlier = [each for each in before if not isinstance(each, SystemMessage)]
    return await session.begin_turn(said, earlier=[*_new_instructions(session, given, place), *earlier], after=after)


def caught_up(session: ChatSession, given: Sequence[Message]) -> Sequence[Message]:
    """A history with what was said elsewhere, as far as a late answer has shown that its client lacks it."""
    entries = [each for each in session.conversation.entries if each.role != "system"]
    late = [at for at, each in enumerate(given) if isinstance(each, AssistantMessage) and TOO_LATE.search(each.content)]
    stored = [at for at, each in enumerate(entries) if late and each.text == given[late[-1]].content]
    if not stored:
        return given
    told = [each for each in given[: late[-1]] if isinstance(each, SystemMessage)]
    return [*told, *(each.message for each in entries[: stored[-1] + 1]), *given[late[-1] + 1 :]]


def with_history(session: ChatSession, given: Sequence[Message], after: str | None) -> Sequence[Message]:
    """Messages that follow what is stored, with that before them; those that follow an earlier message are as given."""
    entries = session.conversation.entries
    goes_on = after is None or (entries and entries[-1].id == after)
    return [*(each.message for each in entries), *given] if goes_on else given


def stored_reply(session: ChatSession, given: Sequence[Message]) -> str:
    """What was answered to the last message of a history, where it was sent before and nothing followed; else empty."""
    entries = session.conversation.entries
    match = compare(entries, given)
    if not match.regenerates:
        return ""
    place = next(at for at, each in enumerate(entries) if each.id == match.after)
    following = entries[place + 1 :]
    said = all(each.role == "assistant" for each in following)
    return REPLY_SEPARATOR.join(each.text for each in following) if said else ""


async def begin_turn(session: ChatSession, given: Sequence[Message], *, name: str = "", again: bool = False) -> Turn:
    """The turn in which the last message of a history is answered. `name` is that of the speaker.

    `again`: the request was sent before, so that a reply that has begun is the one that is wanted.
    Raises what `ChatSession.begin_turn` raises.
    """
    match = compare(session.conversation.entries, given)
    if not match.tail:
        known = None if match.forks and not again else await _known_turn(session)
        return known or await session.regenerate(match.after)
    *earlier, said = match.tail
    assert isinstance(said, UserMessage)
    if match.forks and not earlier and asked_in(given):  # it was answered elsewhere, and this client has not seen that
        return await session.begin_turn(said, name=name)
    earlier = [*_new_instructions(session, given, match.after), *earlier]
    return await session.begin_turn(said, earlier=earlier, name=name, after=match.after)


async def _known_turn(session: ChatSession) -> Turn | None:
    """The turn that runs, or that has ended with questions, which nobody may have read."""
    return await (session.last_turn() if session.questions else session.follow())


def _new_instructions(session: ChatSession, given: Sequence[Message], after: str) -> Sequence[SystemMessage]:
    """The instructions of a request, unless they are the last ones of the branch that it goes on with."""
    told = "\n\n".join(each.content for each in given if isinstance(each, SystemMessage))
    line = session.conversation.loaded.line_to(after)
    known = next((each.text for each in reversed(line) if each.role == "system"), "")
    return [SystemMessage(told)] if told and told != known else []


def not_found(conversation: str, model: Model) -> Problem:
    """The refusal of a conversation, or of a response, that the caller does not have with a model."""
    told = f"There is no conversation or response {conversation[:100]!r} of yours with {model.name}"
    return Problem(HTTPStatus.NOT_FOUND, "conversation-not-found", f"{told}. Give another id, or none.")
