"""A message that comes while a question is open: it is read as the answer, and the reply goes on from there.

What was asked and answered is stored in the conversation, so that the history of a client and the stored one are the
same. Below: questions and conversations. Above: the handlers.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Annotated, Final, Literal

from pydantic import BaseModel, Field

from goalport.base.errors import BadInput, ModelError, Unreadable
from goalport.models.llm import AssistantMessage, Message
from goalport.models.prompts.quotation import as_data
from goalport.runtime.chat import ChatSession, HistoryMatch, Turn, compare
from goalport.runtime.chat.cheapest import CHEAPEST, cheapest
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import process_of
from goalport.runtime.process import AgentProcess, Question
from goalport.server.auth import current_caller
from goalport.server.doors.openai.identity import ResponseId
from goalport.server.doors.openai.models import GoalModel
from goalport.server.publish.forms import Form, form_of
from goalport.server.publish.publisher import Publisher
from goalport.server.publish.questions_in_words import Answer, Asked, Unclear, asked_in, in_words, read_answer, too_late
from goalport.tools.schemas import UNREADABLE, holds_secret

_log = logging.getLogger(__name__)
_READ_FREELY: Final = frozenset({"form", "choice"})
"""The kinds of forms whose answers a model may find."""


class FoundAnswer(BaseModel):
    """What the message of a person is, after they were asked a question."""

    kind: Annotated[
        Literal["answer", "refusal", "something else"],
        Field(description="A refusal says that the person will not answer; something else is about another matter"),
    ]
    values: Annotated[
        str,
        Field(description="Of an answer: a JSON object by the JSON Schema, with nothing but what the person says"),
    ] = "{}"


class SomethingElse:
    """A message that is about another matter than the question."""


async def found_answer(
    platform: AgentPlatform, question: Question, text: str, otherwise: Unclear
) -> Answer | Unclear | SomethingElse:
    """What a model finds in a message that could not be read without one; `otherwise` if it finds nothing.

    If the answer lacks something, or is wrong, that is said, and asked again.
    """
    if CHEAPEST not in platform.models.roles:
        return otherwise
    try:
        form = form_of(question)
    except UNREADABLE:
        return otherwise
    if form.kind not in _READ_FREELY or holds_secret(form.schema):
        return otherwise
    ai = cheapest(platform.ai, platform.models.roles).with_id("answer")
    try:
        found = await ai.create_object(_prompt(question, form, text), FoundAnswer)
    except ModelError as error:
        _log.info("The answer to question %s is read without a model: %s", question.id, error)
        return otherwise
    match found.kind:
        case "something else":
            return SomethingElse()
        case "refusal":
            return Answer(declined=f"The person said: {text}")
        case "answer":
            return _read(form, question, found.values, otherwise)


def _read(form: Form, question: Question, values: str, otherwise: Unclear) -> Answer | Unclear:
    try:
        return Answer(form.read(json.loads(values)))
    except BadInput as error:
        return Unclear(f"{error}\n\n{in_words(question)}")
    except ValueError:
        return otherwise


def _prompt(question: Question, form: Form, text: str) -> str:
    schema = json.dumps(form.schema, ensure_ascii=False)
    options = "".join(f"\n- {each['key']}: {each['label']}" for each in form.options)
    return (
        f"A person was asked:\n{question.message}\n\nAn answer has this JSON Schema:\n{schema}{options}\n\nWhat is the"
        f" message that came next? Make up no values.\n{as_data(text, 'the person')}"
    )


BeginTurn = Callable[[], Awaitable[Turn]]


async def said_in(publisher: Publisher, session: ChatSession, *messages: Message) -> None:
    """Store what was said without a turn, unless the conversation ends with it already."""
    conversation = session.conversation
    entries = conversation.entries
    if not entries or entries[-1].message != messages[-1]:
        for each in messages:  # at once, so that another reader of the same turn does not say it too
            conversation.add_message(each)
    await publisher.platform.conversations.append(conversation)


async def answering_turn(
    publisher: Publisher, session: ChatSession, given: Sequence[Message], asked: Asked | None
) -> BeginTurn | Unclear | None:
    """What begins the turn in which the last message is the answer to `asked`, a question of the chatbot.

    None if it is no answer: the question was not asked here, so that nobody answers what they have not read; or the
    message is another branch, or asks something itself. `Unclear` if it should be an answer, and is none, or comes too
    late; both are stored then.
    """
    match = compare(session.conversation.entries, given)
    joins = not (match.tail or match.forks)
    if asked is None or joins or _asks(given[-1]):
        return None
    question = next((each for each in session.questions if each.id == asked.question), None)
    if question is None:
        return await _too_late(publisher, session, match, given[-1], asked)
    if match.forks:
        return None
    reading = await _reading(publisher, question, given[-1].content)
    if isinstance(reading, SomethingElse):
        return None
    if isinstance(reading, Unclear):
        await said_in(publisher, session, *match.tail, AssistantMessage(reading.words))
        return reading
    return partial(_answered_turn, publisher, session, match.tail, question, reading)


async def _too_late(
    publisher: Publisher, session: ChatSession, match: HistoryMatch, said: Message, asked: Asked
) -> Unclear | None:
    """What is said to an answer to a question that is closed by now; None if it is not, or this is no answer to it."""
    with suppress(Unreadable):
        process = await process_of(publisher.platform, asked.process, current_caller())
        questions = () if process is None else process.questions
        question = next((each for each in questions if each.id == asked.question), None)
        if process is None or question is None or (question.status == "open" and not process.status.ended):
            return None
        if isinstance(read_answer(question, said.content), Answer):
            running = await session.follow()
            if running is not None:
                await running.result()
            told = AssistantMessage(too_late(question))
            await said_in(publisher, session, *((said,) if match.forks else match.tail), told)
            return Unclear(told.content)
    return None


async def _answered_turn(
    publisher: Publisher, session: ChatSession, said: Sequence[Message], question: Question, answer: Answer
) -> Turn:
    await said_in(publisher, session, *said)
    turn = await session.answer(question.id, answer.response, declined=answer.declined)
    _note(publisher, question, answer)
    return turn


async def asking_process(
    publisher: Publisher, model: GoalModel, given: Sequence[Message], response_id: str = ""
) -> AgentProcess | None:
    """The process of a goal whose response has that id, or that has asked what a history ends with.

    None if there is none of the caller.
    """
    asked, response = asked_in(given), ResponseId.read(response_id)
    named = response.conversation if response else asked.process if asked else ""
    process = await process_of(publisher.platform, named, current_caller()) if named else None
    return process if process is not None and model.runs(process) else None


async def answered_process(publisher: Publisher, process: AgentProcess, given: Sequence[Message]) -> Unclear | None:
    """Answer the question of a process with the last message, if it is open; `Unclear` if that is no answer.

    Raises `AlreadyAnswered` if somebody else was faster.
    """
    asked, questions = asked_in(given), process.open_questions
    question = next((each for each in questions if asked is None or each.id == asked.question), None)
    if question is None:
        return None
    reading = await _reading(publisher, question, given[-1].content)
    if isinstance(reading, SomethingElse):
        return Unclear(in_words(question))
    if isinstance(reading, Unclear):
        return reading
    await publisher.platform.answer(process.id, question.id, reading.response, declined=reading.declined)
    _note(publisher, question, reading)
    return None


async def _reading(publisher: Publisher, question: Question, text: str) -> Answer | Unclear | SomethingElse:
    """What a message says to a question; a model is asked if it cannot be told without one."""
    reading = read_answer(question, text)
    if isinstance(reading, Unclear):
        return await found_answer(publisher.platform, question, text, reading)
    return reading


def _asks(message: Message) -> bool:
    return message.content.rstrip().endswith("?")


def _note(publisher: Publisher, question: Question, answer: Answer) -> None:
    trail = publisher.audit_trail
    trail.answered(current_caller(), question, answer.response, declined=bool(answer.declined))
