"""What a caller gets in place of a result: the handle of an unfinished process, or a link to a large result.

Both name the process and the next call of a companion tool. This module holds data only: `answers` has the texts,
`companions` the tools.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from goalport.runtime.chat import conversation_of
from goalport.runtime.process import AgentProcess, Question
from goalport.server.publish.companions import ANSWER, CANCEL, RESULT, STATUS
from goalport.server.publish.forms import FORMS, Form, form_of
from goalport.server.publish.portability import Schema, split_definitions

_STATUS_SECONDS: Final = 25
"""How long the call of `process_status` that a handle names waits."""
_NEXT: Final[Schema] = {
    "type": "object",
    "description": "The call to make next",
    "properties": {
        "tool": {"type": "string"},
        "arguments": {"type": "object", "description": "Complete but for null, which stands for the person's answer"},
        "instruction": {"type": "string"},
    },
    "required": ["tool", "arguments", "instruction"],
}
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
                    "kind": {"type": "string", "enum": [*FORMS]},
                    "options": {
                        "type": "array",
                        "description": "What can be chosen: the answer is a key, the person reads the labels",
                        "items": {
                            "type": "object",
                            "properties": {"key": {"type": "string"}, "label": {"type": "string"}},
                            "required": ["key", "label"],
                        },
                    },
                    "url": {"type": "string", "description": "The address that the person opens"},
                },
                "required": ["id", "message", "schema", "kind"],
            },
        },
        "next": _NEXT,
        "waitsFor": {
            "type": "array",
            "items": {"type": "string"},
            "description": "The models that did not answer and will be asked again: nothing to do about it but to know",
        },
    },
    "required": ["processId", "status", "questions", "next"],
}
CHAT_HANDLE: Final[Schema] = {
    **HANDLE,
    "description": "Not the reply yet: the chatbot goes on, or waits for answers",
    "properties": {**HANDLE["properties"], "conversationId": {"type": "string"}},
}
LARGE: Final[Schema] = {
    "title": "LargeResult",
    "description": "The goal is reached; its result is too large for one answer and is read in pages",
    "type": "object",
    "properties": {
        "processId": {"type": "string"},
        "status": {"type": "string", "const": "completed"},
        "uri": {"type": "string", "description": "The resource that holds the whole result"},
        "pages": {"type": "integer"},
        "next": _NEXT,
    },
    "required": ["processId", "status", "uri", "pages", "next"],
}


@dataclass(frozen=True, slots=True)
class NextCall:
    """A call of a companion tool, with all its arguments."""

    tool: str
    arguments: Mapping[str, Any]

    def __str__(self) -> str:
        return f"call {self.tool} with {json.dumps(self.arguments, ensure_ascii=False)}."

    def structured(self, instruction: str) -> dict[str, Any]:
        """The call as JSON, with a sentence about when to make it."""
        return {"tool": self.tool, "arguments": self.arguments, "instruction": instruction}


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """One open question, as clients see it."""

    id: str
    message: str
    form: Form

    @classmethod
    def of(cls, question: Question) -> "OpenQuestion":
        """The question with its form. Raises one of `UNREADABLE` if its answer's type cannot be read from JSON."""
        return cls(question.id, question.message, form_of(question))

    @property
    def structured(self) -> dict[str, Any]:
        """The question as JSON."""
        form = self.form
        return {
            "id": self.id,
            "message": self.message,
            "schema": form.schema,
            "kind": form.kind,
            **({"options": [*form.options]} if form.options else {}),
            **({"url": form.url} if form.url else {}),
        }


@dataclass(frozen=True, slots=True)
class Handle:
    """The state of a process that has no result yet, and the calls by which its caller goes on."""

    process_id: str
    goal: str
    """The name of the tool that was called."""
    waiting: bool
    """Whether the process is paused until a person answers."""
    questions: tuple[OpenQuestion, ...]
    waits_for: tuple[str, ...] = ()
    """What the process waits for, such as a model provider that will be asked again; one sentence each."""
    conversation_id: str = ""
    """The conversation whose turn this is; empty if the process is none of a chatbot."""

    @classmethod
    def of(cls, process: AgentProcess, goal: str) -> "Handle":
        """The handle of a process. Raises one of `UNREADABLE` if the answer to a question cannot be read from JSON."""
        questions = tuple(map(OpenQuestion.of, process.open_questions))
        conversation = conversation_of(process)
        waiting, waits = process.outcome is not None, tuple(_waits_of(process))
        return cls(process.id, goal, waiting, questions, waits, conversation.id if conversation is not None else "")

    @property
    def not_again(self) -> str:
        """Why the tool is not to be called again, in a sentence."""
        told = "say the same again" if self.conversation_id else "start another"
        return f"Do not call {self.goal} again: that would {told}."

    def answer_call(self, question: OpenQuestion) -> NextCall:
        """The call that answers a question, with null for the answer, which no question takes."""
        which = {"questionId": question.id} if len(self.questions) > 1 else {}
        return NextCall(ANSWER, {"processId": self.process_id, "answer": None, **which})

    @property
    def status_call(self) -> NextCall:
        """The call that waits until the process has ended or asks something."""
        return NextCall(STATUS, {"processId": self.process_id, "waitSeconds": _STATUS_SECONDS})

    @property
    def cancel_call(self) -> NextCall:
        """The call that ends the process."""
        return NextCall(CANCEL, {"processId": self.process_id})

    @property
    def structured(self) -> dict[str, Any]:
        """The handle as JSON, valid against `HANDLE`."""
        if self.questions:
            first = self.questions[0]
            call = self.answer_call(first)
            when = "Ask the person the first question, then make this call with their answer in place of null."
        else:
            call, when = self.status_call, "To get the result, make this call."
        return {
            "processId": self.process_id,
            "status": "waiting" if self.waiting else "running",
            "questions": [each.structured for each in self.questions],
            **({"waitsFor": [*self.waits_for]} if self.waits_for else {}),
            **({"conversationId": self.conversation_id} if self.conversation_id else {}),
            "next": call.structured(f"{when} {self.not_again}"),
        }


@dataclass(frozen=True, slots=True)
class LargeResult:
    """A link to a result that does not fit into one answer."""

    process_id: str
    uri: str
    pages: int

    def page_call(self, page: int) -> NextCall:
        """The call that reads one page of the result; pages count from 1."""
        return NextCall(RESULT, {"processId": self.process_id, "page": page})

    @property
    def structured(self) -> dict[str, Any]:
        """The link as JSON, valid against `LARGE`."""
        when = f"Read the result page by page, from 1 to {self.pages}. Do not call the goal again."
        return {
            "processId": self.process_id,
            "status": "completed",
            "uri": self.uri,
            "pages": self.pages,
            "next": self.page_call(1).structured(when),
        }


def _waits_of(process: AgentProcess) -> Iterator[str]:
    """What a process and its child processes wait for, one sentence each."""
    if not process.status.ended:
        yield from process.progress.waits.values()
        for child in process.children:
            yield from _waits_of(child)


def with_alternatives(schema: Schema | None, *others: Schema) -> Schema | None:
    """An output schema that allows the schemas `others` too; None stays None."""
    if schema is None or not others:
        return schema
    result, definitions = split_definitions(schema)
    return {"type": "object", "anyOf": [result, *others], **definitions}
