"""The questions of a process to people, and the reading of answers. Only the first answer to a question counts.

An answer is validated against the type that was asked for. `execution` decides what it changes in the process. (User
guide, "Human in the loop".)
"""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from threading import Lock
from typing import Annotated, Any, Literal, cast

from pydantic import TypeAdapter, ValidationError, WithJsonSchema
from pydantic.errors import PydanticUserError

from goalport.agents.blackboard import matcher
from goalport.agents.domain import WaitFor
from goalport.base.errors import AlreadyAnswered, BadInput
from goalport.base.words import corrections, type_name, validation_problems
from goalport.tools import schema_fault, schema_problems
from goalport.tools.schemas import may_hold_secret

QuestionStatus = Literal["open", "answered", "declined", "expired", "withdrawn"]
"""The states of a question. Withdrawn: the action that asked no longer needs the answer."""
_settling = Lock()


@dataclass(slots=True)
class Question:
    """A question of an action to a person."""

    id: str
    process_id: str
    action: str
    """The name of the action that asked."""
    wait: WaitFor[Any]
    in_action: bool = False
    """Whether the action waits in its middle and continues with the answer; otherwise the answer is its result."""
    asked_at: datetime = field(default_factory=lambda: datetime.now(UTC))
    status: QuestionStatus = "open"
    answer: object = None
    """The validated answer, once there is one."""
    reason: str = ""
    """Why there will be no answer."""

    @classmethod
    def of(cls, process_id: str, action: str, wait: WaitFor[Any], *, in_action: bool = False) -> "Question":
        """A new question."""
        identity = f"q-{secrets.token_hex(6)}"
        return cls(identity, process_id, action, wait.asked_as(identity, process_id), in_action)

    @property
    def message(self) -> str:
        """The text of the question."""
        return self.wait.message

    @property
    def response_type(self) -> object:
        """The type of the answer; `bool` for a yes or no."""
        return self.wait.response_type

    @property
    def expires_at(self) -> datetime | None:
        """The time at which an unanswered question counts as declined; None: never."""
        seconds = self.wait.expires_in
        return None if seconds is None else self.asked_at + timedelta(seconds=seconds)

    @property
    def expired(self) -> bool:
        """Whether it is still open after its time."""
        return self.status == "open" and self.expires_at is not None and self.expires_at <= datetime.now(UTC)

    def validated(self, response: object) -> object:
        """The validated answer from a response: an object of the wanted type, its JSON form, or None for a no.

        Raises `BadInput` for a response of another type, or one that the question does not accept.
        """
        kind, read = self.response_type, cast("Any", response)
        try:
            if not matcher(kind)(response):
                read = TypeAdapter[Any](cast("type", kind)).validate_python(response)
        except ValidationError as error:
            problems = validation_problems(error, response, root="answer", repeated=not may_hold_secret(kind))
            raise BadInput(corrections(problems, of="answer"), problems) from None
        except PydanticUserError:
            raise BadInput(f"A {type_name(kind)} cannot be read from JSON: a program must give the object.") from None
        try:
            return self.wait.accept(read)
        except ValueError as error:
            problems = str(error).split("\n") if isinstance(self.wait, SchemaSubmission) else [f"answer: {error}"]
            raise BadInput(corrections(problems, of="answer"), problems) from error

    def settle(self, status: QuestionStatus, *, answer: object = None, reason: str = "") -> None:
        """Settle it. Raises `AlreadyAnswered` if it was settled before; check and change are atomic."""
        with _settling:
            if self.status != "open":
                raise AlreadyAnswered(self.id, self.status)
            self.answer, self.reason = answer, reason
            self.status = status


class Questions(list[Question]):
    """The questions of one process, in the order in which they were asked."""

    @property
    def open(self) -> tuple[Question, ...]:
        """The questions that wait for an answer."""
        return tuple(each for each in self if each.status == "open") if self else ()


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
            raise ValueError("\n".join(problems))
        return response
