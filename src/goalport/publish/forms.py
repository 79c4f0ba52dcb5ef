"""How questions are shown to clients and answered: one class for each kind of question, and one table of the kinds.

A form neither asks nor settles anything. `handle` shows forms; `serve` and the command line read what comes back.
"""

import json
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from goalport.process import Question
from goalport.prompts import made_up
from goalport.publish.arguments import Arguments
from goalport.publish.companions import CONFIRM, SUBMIT
from goalport.publish.schemas import Schema

__all__ = ["FORMS", "FieldsForm", "Form", "YesNoForm", "form_of"]

_BARE: Final = "answer"
"""The one field of a form whose answer is no object."""


@dataclass(frozen=True, slots=True)
class Form(ABC):
    """What an answer to one question looks like, and the companion tool that takes it."""

    kind: ClassVar[str]
    """What clients are told that the question is."""
    tool: ClassVar[str]
    """The companion tool."""
    argument: ClassVar[str]
    """Its argument that holds the answer."""

    schema: Schema
    """The JSON Schema of the answer."""

    @classmethod
    @abstractmethod
    def of(cls, answer_type: object) -> "Form | None":
        """The form of an answer of this type; None when questions of this kind have other answers.

        Raises one of `UNREADABLE` for a type that no JSON can be read as.
        """

    @property
    @abstractmethod
    def example(self) -> Any:
        """An answer of the form, for whoever has to see one."""

    @abstractmethod
    def read(self, answer: Any) -> object:
        """The object that an answer stands for. Raises `BadInput` with a line per field."""

    @abstractmethod
    def instruction(self, call: str) -> str:
        """What a model does to get the answer; `call` says how it is sent, with the example in it."""


@dataclass(frozen=True, slots=True)
class YesNoForm(Form):
    """A person says yes or no."""

    kind = "confirmation"
    tool = CONFIRM
    argument = "confirmed"

    @classmethod
    def of(cls, answer_type: object) -> "Form | None":
        return cls({"type": "boolean"}) if answer_type is bool else None

    @property
    def example(self) -> Any:
        return True

    def read(self, answer: Any) -> object:
        return answer

    def instruction(self, call: str) -> str:
        return f"Ask the person; for a yes, {call} For a no, with confirmed false."


@dataclass(frozen=True, slots=True)
class FieldsForm(Form):
    """A person fills in the fields of a type."""

    kind = "form"
    tool = SUBMIT
    argument = "formData"

    _arguments: Arguments

    @classmethod
    def of(cls, answer_type: object) -> "Form | None":
        arguments = Arguments.of_fields(answer_type, _BARE)
        return cls(arguments.schema, arguments)

    @property
    def example(self) -> Any:
        return made_up(self.schema, brief=True)

    def read(self, answer: Any) -> object:
        return self._arguments.read(answer)[0]

    def instruction(self, call: str) -> str:
        schema = json.dumps(self.schema, ensure_ascii=False)
        return f"Ask the person; then {call} formData is their answer, valid against this JSON Schema: {schema}"


FORMS: Final[Sequence[type[Form]]] = (YesNoForm, FieldsForm)
"""The kinds of questions. The first that takes the type of the answer is the form; the last takes every type."""


def form_of(question: Question) -> Form:
    """The form of a question. Raises one of `UNREADABLE` for an answer that no JSON can be read as."""
    return next(filter(None, (each.of(question.response_type) for each in FORMS)))
