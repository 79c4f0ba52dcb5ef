"""The conversation of a request, found by its id, and the turn that begins with the request.

Clients send the whole history with each request. New messages are added; an edited message, or another reply to the
same message, begins a new branch; a history without an id becomes a new conversation. While a question is open, the
next message is read as its answer, and the reply goes on from there. Questions and answers are stored as messages, so
that the stored history is the same as the client's. Above: the handlers.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from typing import Annotated, Final, Literal, NamedTuple

from pydantic import BaseModel, Field

from goalport.base.errors import BadInput, ModelError, Unreadable
from goalport.models.llm import AssistantMessage, Message, SystemMessage, UserMessage
from goalport.models.prompts import as_data
from goalport.runtime.chat import ChatSession, HistoryMatch, Turn, compare, conversation_of
from goalport.runtime.chat.compaction import CHEAPEST, cheapest
from goalport.runtime.chat.conversation import REPLY_SEPARATOR, ConversationMessage
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import process_of
from goalport.runtime.process import AgentProcess, Question
from goalport.server.auth import current_caller
from goalport.server.doors.openai.requests import (
    ChatbotModel,
    ChatRequest,
    GoalModel,
    Model,
    ResponseId,
    ResponseRequest,
)
from goalport.server.publish.forms import form_of
from goalport.server.publish.publisher import Publisher, answer_in_session, answer_question
from goalport.server.publish.questions_in_words import (
    TOO_LATE,
    Answer,
    Asked,
    Unclear,
    asked_in,
    in_words,
    process_named_in,
    read_answer,
    too_late,
)
from goalport.server.web.endpoint import Problem
from goalport.tools.schemas import UNREADABLE, holds_secret

_log = logging.getLogger(__name__)
_READ_FREELY: Final = frozenset({"form", "choice"})
"""The kinds of forms for which a model may find the answer in a message."""
BeginTurn = Callable[[], Awaitable[Turn]]


class Continuation(NamedTuple):
    """The conversation of a request, and how it continues."""

    session: ChatSession
    messages: Sequence[Message]
    """The history of the conversation, with the new messages."""
    begin: BeginTurn
    """Begins the turn that answers the last message."""
    asked: Asked | None
    """The question of the chatbot that the last message may answer."""
    answered: str = ""
    """The stored reply to a request that is sent again; empty if there is none."""


async def after_stored(model: ChatbotModel, asked: ChatRequest | ResponseRequest) -> Continuation:
    """Continue the conversation, or after the response, that a request names; its input is only the new messages.

    Raises `Problem` (404) for a conversation or a response that the caller does not have with this chatbot.
    """
    previous, follows = ResponseId.read(asked.previous_response_id), list[ConversationMessage]()
    if asked.previous_response_id and previous is None:
        raise not_found(asked.previous_response_id, model)
    named = asked.conversation if previous is None else previous.conversation
    session = await model.chatbot.find_thread(named, current_caller())
    if session is None:
        raise not_found(named, model)
    if previous is not None:
        try:
            follows += session.conversation.reply_to(previous.message_id)
        except BadInput:
            raise not_found(asked.previous_response_id, model) from None
    *before, last = given = asked.llm_messages
    assert isinstance(last, UserMessage)
    entries, after = session.conversation.entries, follows[-1].id if follows else None
    place = session.conversation.loaded.record.head if after is None else after
    earlier = [each for each in before if not isinstance(each, SystemMessage)]
    earlier = [*_new_instructions(session, given, place), *earlier]
    if after is None or (entries and entries[-1].id == after):
        given = [*(each.message for each in entries), *given]
    questions = [asked_in([each.message, last]) for each in reversed(follows)] if follows else [asked_in(given)]
    begin = partial(session.begin_turn, last, earlier=earlier, after=after)
    return Continuation(session, given, begin, next(filter(None, questions), None))


async def with_history(
    platform: AgentPlatform,
    model: ChatbotModel,
    asked: ChatRequest | ResponseRequest,
    conversation_id: str,
    *,
    sent_before: bool,
) -> Continuation:
    """Continue the conversation with an id, or the conversation whose question ends the history of the request.

    If there is none, a new conversation is created. Raises `StoreError`.
    """
    caller, given, session = current_caller(), asked.llm_messages, None
    if not asked.store:  # it is deleted after the answer, and continues no stored conversation
        pass
    elif conversation_id:
        session = await model.chatbot.open_thread(conversation_id, caller)
    elif named := process_named_in(given):
        with suppress(Unreadable):
            process = await process_of(platform, named, caller)
            conversation = None if process is None else conversation_of(process.root)
            if conversation is not None:
                session = await model.chatbot.find_session(conversation.id, caller)
    session = session or await model.chatbot.create_session(caller)
    given = _caught_up(session, given)
    text = _stored_reply(session, given) if sent_before else ""
    speaker = next(each.name for each in reversed(asked.messages) if each.role == "user")
    begin = partial(_begin_turn, session, given, name=speaker or "", again=bool(text))
    return Continuation(session, given, begin, None if text else asked_in(given), text if session.idle else "")


def _caught_up(session: ChatSession, given: Sequence[Message]) -> Sequence[Message]:
    """A client's history; if a reply says that an answer was too late, it has the stored messages up to there."""
    entries = [each for each in session.conversation.entries if each.role != "system"]
    late = [at for at, each in enumerate(given) if isinstance(each, AssistantMessage) and TOO_LATE.search(each.content)]
    stored = [at for at, each in enumerate(entries) if late and each.text == given[late[-1]].content]
    if not stored:
        return given
    instructions = [each for each in given[: late[-1]] if isinstance(each, SystemMessage)]
    return [*instructions, *(each.message for each in entries[: stored[-1] + 1]), *given[late[-1] + 1 :]]


def _stored_reply(session: ChatSession, given: Sequence[Message]) -> str:
    """The stored reply to the last message of a history; empty if there is none, or another message followed it."""
    entries = session.conversation.entries
    match = compare(entries, given)
    if not match.regenerates:
        return ""
    place = next(at for at, each in enumerate(entries) if each.id == match.after)
    following = entries[place + 1 :]
    is_reply = all(each.role == "assistant" for each in following)
    return REPLY_SEPARATOR.join(each.text for each in following) if is_reply else ""


async def _begin_turn(session: ChatSession, given: Sequence[Message], *, name: str, again: bool) -> Turn:
    """Begin the turn that answers the last message of a history. `name` is the name of the speaker.

    `again`: the request was sent before, so a turn that it has begun already is returned.
    Raises what `ChatSession.begin_turn` raises.
    """
    match = compare(session.conversation.entries, given)
    if not match.tail:
        known = None
        if again or not match.forks:  # the turn that runs, or that ended with questions, which nobody may have read
            known = await (session.last_turn() if session.questions else session.follow())
        return known or await session.regenerate(match.after)
    *earlier, message = match.tail
    assert isinstance(message, UserMessage)
    if match.forks and not earlier and asked_in(given):  # it was answered elsewhere, and this client has not seen that
        return await session.begin_turn(message, name=name)
    earlier = [*_new_instructions(session, given, match.after), *earlier]
    return await session.begin_turn(message, earlier=earlier, name=name, after=match.after)


def _new_instructions(session: ChatSession, given: Sequence[Message], after: str) -> Sequence[SystemMessage]:
    """The instructions of a request, unless they are the last ones of the branch that it goes on with."""
    instructions = "\n\n".join(each.content for each in given if isinstance(each, SystemMessage))
    line = session.conversation.loaded.line_to(after)
    known = next((each.text for each in reversed(line) if each.role == "system"), "")
    return [SystemMessage(instructions)] if instructions and instructions != known else []


def not_found(conversation: str, model: Model) -> Problem:
    """The refusal of a conversation, or of a response, that the caller does not have with a model."""
    detail = f"There is no conversation or response {conversation[:100]!r} of yours with {model.name}"
    return Problem(HTTPStatus.NOT_FOUND, "conversation-not-found", f"{detail}. Give another id, or none.")


class FoundAnswer(BaseModel, defer_build=True):
    """What the message of a person is, after they were asked a question."""

    kind: Annotated[
        Literal["answer", "refusal", "something else"],
        Field(description="A refusal says that the person will not answer; something else is about another matter"),
    ]
    values: Annotated[
        str,
        Field(description="Of an answer: a JSON object by the JSON Schema, with nothing but what the person says"),
    ] = "{}"


async def _reading(platform: AgentPlatform, question: Question, text: str) -> Answer | Unclear | None:
    """Read a message as the answer to a question; a model is asked if simple rules do not suffice.

    `Unclear` if the answer is incomplete or wrong: its words say so, and ask again. None if the message is about
    another matter.
    """
    otherwise = read_answer(question, text)
    if not isinstance(otherwise, Unclear) or CHEAPEST not in platform.models.roles:
        return otherwise
    try:
        form = form_of(question)
    except UNREADABLE:
        return otherwise
    if form.kind not in _READ_FREELY or holds_secret(form.schema):
        return otherwise
    schema = json.dumps(form.schema, ensure_ascii=False)
    options = "".join(f"\n- {each['key']}: {each['label']}" for each in form.options)
    prompt = (
        f"A person was asked:\n{question.message}\n\nAn answer has this JSON Schema:\n{schema}{options}\n\nWhat is the"
        f" message that came next? Make up no values.\n{as_data(text, 'the person')}"
    )
    try:
        ai = cheapest(platform.ai, platform.models.roles).with_id("answer")
        found = await ai.create_object(prompt, FoundAnswer)
        match found.kind:
            case "something else":
                return None
            case "refusal":
                return Answer(declined=f"The person said: {text}")
            case "answer":
                return Answer(form.read(json.loads(found.values)))
    except ModelError as error:
        _log.info("The answer to question %s is read without a model: %s", question.id, error)
    except BadInput as error:
        return Unclear(f"{error}\n\n{in_words(question)}")
    except ValueError:
        pass  # what the model has found is no JSON
    return otherwise


async def store_messages(publisher: Publisher, session: ChatSession, *messages: Message) -> None:
    """Store messages without a turn, unless the conversation ends with them already."""
    conversation = session.conversation
    entries = conversation.entries
    if not entries or entries[-1].message != messages[-1]:
        for each in messages:  # all before the next await, so that another reader of the turn does not add them too
            conversation.add_message(each)
    await publisher.platform.conversations.append(conversation)


async def answering_turn(publisher: Publisher, continuation: Continuation) -> BeginTurn | Unclear | None:
    """A function that begins the turn in which the last message answers a question of the chatbot.

    None if the message is no answer: the history does not have the question, so the person may not have read it; or the
    message begins another branch, or is a question. `Unclear` if it should be an answer, but is not valid or comes too
    late; message and reply are stored then.
    """
    session, asked, message = continuation.session, continuation.asked, continuation.messages[-1]
    match = compare(session.conversation.entries, continuation.messages)
    joins = not (match.tail or match.forks)
    if asked is None or joins or message.content.rstrip().endswith("?"):
        return None
    question = next((each for each in session.questions if each.id == asked.question), None)
    if question is None:
        return await _too_late(publisher, session, match, message, asked)
    reading = None if match.forks else await _reading(publisher.platform, question, message.content)
    if isinstance(reading, Unclear):
        await store_messages(publisher, session, *match.tail, AssistantMessage(reading.words))
    if not isinstance(reading, Answer):
        return reading

    async def begin() -> Turn:
        await store_messages(publisher, session, *match.tail)
        caller, response, declined = current_caller(), reading.response, reading.declined
        return await answer_in_session(publisher, caller, session, question, response, declined=declined)

    return begin


async def _too_late(
    publisher: Publisher, session: ChatSession, match: HistoryMatch, message: Message, asked: Asked
) -> Unclear | None:
    """The reply to an answer that is too late; None if the question is open, or the message is no answer to it."""
    with suppress(Unreadable):
        process = await process_of(publisher.platform, asked.process, current_caller())
        questions = () if process is None else process.questions
        question = next((each for each in questions if each.id == asked.question), None)
        if process is None or question is None or (question.status == "open" and not process.status.ended):
            return None
        if isinstance(read_answer(question, message.content), Answer):
            running = await session.follow()
            if running is not None:
                await running.result()
            reply = AssistantMessage(too_late(question))
            await store_messages(publisher, session, *((message,) if match.forks else match.tail), reply)
            return Unclear(reply.content)
    return None


async def asking_process(
    publisher: Publisher, model: GoalModel, given: Sequence[Message], response_id: str
) -> AgentProcess | None:
    """The process of a goal that a response id names, or whose question ends the history.

    None if the caller has no such process.
    """
    asked, response = asked_in(given), ResponseId.read(response_id)
    named = response.conversation if response else asked.process if asked else ""
    process = await process_of(publisher.platform, named, current_caller()) if named else None
    return process if process is not None and model.runs(process) else None


async def answered_process(publisher: Publisher, process: AgentProcess, given: Sequence[Message]) -> Unclear | None:
    """Answer the question of a process with the last message, if it is open; `Unclear` if the message is no answer.

    Raises `AlreadyAnswered` if somebody else was faster.
    """
    asked, questions = asked_in(given), process.open_questions
    question = next((each for each in questions if asked is None or each.id == asked.question), None)
    if question is None:
        return None
    reading = await _reading(publisher.platform, question, given[-1].content)
    if not isinstance(reading, Answer):
        return reading or Unclear(in_words(question))
    await answer_question(publisher, current_caller(), question, reading.response, declined=reading.declined)
    return None
