"""What a person is asked, as a form: the JSON Schema of the answer, and the answer read from JSON.

It neither asks nor settles anything. `handle` shows forms, `resuming` and the command line read what comes back.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from goalport.process import Question
from goalport.prompts import made_up
from goalport.publish.arguments import Arguments
from goalport.publish.schemas import Schema

__all__ = ["Form", "Kind"]

Kind = Literal["form", "confirmation"]
_BARE = "answer"
"""The one field of a form whose answer is no object."""


@dataclass(frozen=True, slots=True)
class Form:
    """What an answer to one question looks like."""

    kind: Kind
    schema: Schema
    """For a form an object with a property for each field; for a confirmation a boolean."""
    _arguments: Arguments | None = None

    @classmethod
    def of(cls, question: Question) -> "Form":
        """The form of a question. Raises one of `UNREADABLE` for a type that no JSON can be read as."""
        if question.response_type is bool:
            return cls("confirmation", {"type": "boolean"})
        arguments = Arguments.of_fields(question.response_type, _BARE)
        return cls("form", arguments.schema, arguments)

    @property
    def example(self) -> Any:
        """An answer of the form, for whoever has to see one; a yes for a confirmation."""
        return made_up(self.schema, brief=True)

    def read(self, data: Mapping[str, Any]) -> object:
        """The object that the fields come to. Raises `BadInput` with a line per field."""
        assert self._arguments is not None
        return self._arguments.read(data)[0]
