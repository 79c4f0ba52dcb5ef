"""Questions to people: asking, withdrawing, answering and declining them.

An answer is validated against the type that was asked for, settles the question once, and becomes the result of the
action. Below: the record of a process's questions. Above: the context, which asks in the middle of an action,
`execution`, which asks at its end, and the platform, which receives answers. (User guide, "Human in the loop".)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, cast

from pydantic import TypeAdapter, ValidationError, WithJsonSchema
from pydantic.errors import PydanticUserError

from goalport.blackboard import matcher
from goalport.domain import WaitFor, awaited
from goalport.errors import AlreadyAnswered, BadInput, NonRetryable, UnknownName
from goalport.events import QuestionAsked, QuestionSettled
from goalport.process.agent_process import AgentProcess
from goalport.process.effects import as_declared, leave_out, take
from goalport.process.questions import Question, Status
from goalport.tools import schema_fault, schema_problems
from goalport.words import corrections, type_name, validation_problems

__all__ = ["SchemaSubmission", "answer", "decline", "find_question", "put_question", "withdraw_question"]


def put_question(process: AgentProcess, action: str, wait: WaitFor[Any], *, in_action: bool = False) -> Question:
    """Add a question of an action to the process, and emit an event."""
    question = process.questions.ask(action, wait, in_action=in_action)
    process.emit(QuestionAsked(question.id, action, question.message, process_id=process.id))
    return question


def withdraw_question(process: AgentProcess, question: Question) -> bool:
    """Settle a question whose answer is no longer needed. Returns False if it was settled already."""
    if question.status != "open":
        return False
    try:
        process.questions.settle(question, "withdrawn", reason="Nobody needs the answer any more.")
    except AlreadyAnswered:  # another thread has just settled it
        return False
    process.emit(QuestionSettled(question.id, "withdrawn", process_id=process.id))
    return True


@dataclass(frozen=True)
class SchemaSubmission(WaitFor[dict[str, Any]]):
    """Ask for a JSON object that is valid against a schema."""

    schema: Mapping[str, object]
    expires_in: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.schema.get("type") != "object":
            raise TypeError(f"Expected the JSON Schema of an object, but got {self.schema!r}. Name a type for others.")
        if problem := schema_fault(self.schema):
            raise TypeError(f"Expected a JSON Schema, but it is none: {problem}")

    @property
    def response_type(self) -> object:
        return Annotated[dict[str, Any], WithJsonSchema(dict(self.schema))]

    def accept(self, response: dict[str, Any]) -> dict[str, Any]:
        if problems := schema_problems(self.schema, response):
            raise ValueError("; ".join(problems))
        return response


def find_question(process: AgentProcess, question_id: str | None) -> tuple[AgentProcess, Question]:
    """A question and the process that asked it, which may be one that an action of `process` started.

    None stands for the only open question. Raises `UnknownName`, and `BadInput` if there is no open one or several.
    """
    everywhere = _questions(process)
    if question_id is None:
        return _only([pair for pair in everywhere if pair[1].status == "open"])
    found = next((pair for pair in everywhere if pair[1].id == question_id), None)
    if found is None:
        raise UnknownName("question", question_id, [question.id for _, question in everywhere])
    return found


def _only(open_: Sequence[tuple[AgentProcess, Question]]) -> tuple[AgentProcess, Question]:
    if not open_:
        raise BadInput("No question is open, so nothing can be answered.")
    if len(open_) > 1:
        listed = ", ".join(f"{question.id} ({question.message})" for _, question in open_)
        raise BadInput(f"{len(open_)} questions are open. Say which is answered: {listed}.")
    return open_[0]


def answer(process: AgentProcess, question: Question, response: object) -> None:
    """Settle a question and apply the answer to the process; a no declines the question.

    Raises `BadInput` for an answer of another type, which leaves the question open, and `AlreadyAnswered`.
    """
    accepted = _accepted(question, _read(question, response))
    if accepted is None:
        decline(process, question, "The answer was no.")
        return
    _settle(process, question, "answered", answer=accepted)
    if question.in_action:
        return
    action = process.scope.actions[question.action]
    try:
        take(process, action, as_declared(action, accepted), awaited(question.wait))
    except NonRetryable as failure:
        leave_out(process, action, process.words_for(failure), failure)


def decline(process: AgentProcess, question: Question, reason: str, status: Status = "declined") -> None:
    """Settle a question with a no. Raises `AlreadyAnswered` if it was settled before.

    An action that asked at its end is left out of later plans; one that asked in its middle continues and decides.
    """
    _settle(process, question, status, reason=reason)
    if not question.in_action:
        process.progress.leave_out(question.action, f"{question.action} was declined: {reason.rstrip('.')}")


def _settle(
    process: AgentProcess, question: Question, status: Status, *, answer: object = None, reason: str = ""
) -> None:
    process.questions.settle(question, status, answer=answer, reason=reason)
    process.emit(QuestionSettled(question.id, status, process_id=process.id))


def _read(question: Question, response: object) -> Any:
    if matcher(question.response_type)(response):
        return response
    try:
        return TypeAdapter[Any](cast("type", question.response_type)).validate_python(response)
    except ValidationError as error:
        raise BadInput(corrections(validation_problems(error, response, root="answer"), of="answer")) from None
    except PydanticUserError:
        wanted = type_name(question.response_type)
        raise BadInput(f"A {wanted} cannot be read from JSON: a program must give the object.") from None


def _accepted(question: Question, response: Any) -> object:
    try:
        return question.wait.accept(response)
    except ValueError as error:
        raise BadInput(corrections([f"answer: {error}"], of="answer")) from error


def _questions(process: AgentProcess) -> list[tuple[AgentProcess, Question]]:
    own = [(process, question) for question in process.questions]
    return own + [pair for child in process.children for pair in _questions(child)]
