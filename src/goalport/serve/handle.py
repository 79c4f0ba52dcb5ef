"""The handle: what a caller gets in place of a result that takes longer than a request may, or that needs a person.

It names the process, says how it stands and what it asks, so that the companion tools can finish it. Data for the wire;
`outcomes` has the words, `companions` the tools.
"""

from dataclasses import dataclass
from typing import Any, Final

from goalport.process import AgentProcess, Question
from goalport.serve.forms import Form, Kind
from goalport.serve.resting import resting
from goalport.serve.schemas import Schema

__all__ = ["HANDLE", "Asked", "Handle", "or_handle"]

HANDLE: Final[Schema] = {
    "title": "Handle",
    "description": "Not the result yet: the process goes on, or waits for answers",
    "type": "object",
    "properties": {
        "processId": {"type": "string"},
        "status": {"type": "string", "enum": ["running", "waiting"]},
        "questions": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "id": {"type": "string"},
                    "message": {"type": "string"},
                    "schema": {"type": "object", "description": "The JSON Schema of the answer"},
                    "kind": {"type": "string", "enum": ["form", "confirmation"]},
                },
                "required": ["id", "message", "schema", "kind"],
            },
        },
    },
    "required": ["processId", "status", "questions"],
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One open question as a client is shown it."""

    id: str
    message: str
    schema: Schema
    kind: Kind

    @classmethod
    def of(cls, question: Question) -> "Asked":
        """Raises one of `UNREADABLE` for an answer that no JSON can be read as."""
        form = Form.of(question)
        return cls(question.id, question.message, form.schema, form.kind)

    @property
    def structured(self) -> dict[str, Any]:
        """The question as JSON."""
        return {"id": self.id, "message": self.message, "schema": self.schema, "kind": self.kind}


@dataclass(frozen=True, slots=True)
class Handle:
    """How a process stands that has no result yet."""

    process_id: str
    waiting: bool
    """Whether nothing goes on until somebody answers."""
    questions: tuple[Asked, ...]

    @classmethod
    def of(cls, process: AgentProcess) -> "Handle":
        """Raises one of `UNREADABLE` for a question whose answer cannot be read from JSON."""
        return cls(process.id, resting(process) is not None, tuple(map(Asked.of, process.open_questions)))

    @property
    def structured(self) -> dict[str, Any]:
        """The handle as JSON, valid against `HANDLE`."""
        status = "waiting" if self.waiting else "running"
        return {
            "processId": self.process_id,
            "status": status,
            "questions": [each.structured for each in self.questions],
        }


def or_handle(schema: Schema | None) -> Schema | None:
    """The schema of an output in whose place a handle may come; what has no schema stays without."""
    if schema is None:
        return None
    definitions = {"$defs": schema["$defs"]} if "$defs" in schema else {}
    result = {key: value for key, value in schema.items() if key != "$defs"}
    return {"type": "object", "anyOf": [result, HANDLE], **definitions}
