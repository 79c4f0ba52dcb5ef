"""Putting questions to people: noting them, telling of them, and forms that a JSON Schema describes.

The answers are settled by `answering`; `context` and `call_site` ask in the middle of an action, `invoke` at its end.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import WithJsonSchema

from goalport.domain import WaitFor
from goalport.errors import AlreadyAnswered
from goalport.events import QuestionAsked, QuestionSettled
from goalport.process.agent_process import AgentProcess
from goalport.process.questions import Question
from goalport.tools import schema_fault, schema_problems

__all__ = ["SchemaSubmission", "pose", "withdraw"]


def pose(process: AgentProcess, action: str, wait: WaitFor[Any], *, in_action: bool = False) -> Question:
    """Note a question of an action, and tell of it."""
    question = process.questions.ask(action, wait, in_action=in_action)
    process.emit(QuestionAsked(question.id, action, question.message, process_id=process.id))
    return question


def withdraw(process: AgentProcess, question: Question) -> bool:
    """Settle a question that nobody needs the answer to any more; whether there was none yet."""
    if question.status != "open":
        return False
    try:
        process.questions.settle(question, "withdrawn", reason="Nobody needs the answer any more.")
    except AlreadyAnswered:  # by another thread, just now
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
