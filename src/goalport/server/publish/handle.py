"""What a caller gets in place of a result, and the companion tools by which it goes on from there.

The handle of an unfinished process and the link to a large result name the process and the next call of a companion
tool, which follows, answers or ends a process, or reads its result. `doors.mcp.calls` carries these out, and
`answers` has the texts. A companion tool is published when some goal may answer with a handle or with a link. It
publishes no output schema, since it answers with the output of any goal.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Final

from mcp_types import Tool, ToolAnnotations
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from goalport.runtime.chat import conversation_of
from goalport.runtime.process import AgentProcess, Question
from goalport.server.publish.forms import FORMS, Form, form_of
from goalport.server.publish.portability import Schema, split_definitions
from goalport.server.publish.published_arguments import PublishedArguments

STATUS: Final = "process_status"
ANSWER: Final = "process_answer"
CANCEL: Final = "process_cancel"
RESULT: Final = "process_result"

_LONGEST_WAIT: Final = 25.0
"""Seconds that a call of `process_status` may wait."""
_READ_ONLY: Final = ToolAnnotations(
    read_only_hint=True, destructive_hint=False, idempotent_hint=True, open_world_hint=False
)
_DESTRUCTIVE: Final = ToolAnnotations(
    read_only_hint=False, destructive_hint=True, idempotent_hint=True, open_world_hint=False
)


def _given(answer: object) -> object:
    if answer is None:
        raise ValueError("null stands for what the person says: ask them first")
    return answer


class CompanionCall(BaseModel):
    """The arguments of a call of a companion tool, which is always about one process."""

    model_config = ConfigDict(frozen=True)

    process_id: str = Field(alias="processId", description="The processId of the handle")


class StatusCall(CompanionCall):
    """The arguments of `process_status`."""

    wait_seconds: float = Field(
        0.0,
        alias="waitSeconds",
        ge=0,
        le=_LONGEST_WAIT,
        description="The most seconds to wait for the process to end or to ask something",
    )


class AnswerCall(CompanionCall):
    """The arguments of `process_answer`."""

    answer: Annotated[
        Any,
        AfterValidator(_given),
        WithJsonSchema(
            {"anyOf": [{"type": "object", "additionalProperties": True}, {"type": "boolean"}, {"type": "string"}]}
        ),
    ] = Field(
        description="What the person said: for a form an object that is valid against the JSON Schema of the question,"
        " for a confirmation or url true or false, for a choice or input a text"
    )
    question_id: str | None = Field(
        None, alias="questionId", description="The id of the question; needed only when several are open"
    )


class CancelCall(CompanionCall):
    """The arguments of `process_cancel`."""


class ResultCall(CompanionCall):
    """The arguments of `process_result`."""

    page: int = Field(1, ge=1, description="The number of the page, from 1")


@dataclass(frozen=True, slots=True)
class Companion:
    """One of the companion tools."""

    tool: Tool
    arguments: PublishedArguments

    @classmethod
    def of(
        cls, name: str, title: str, description: str, call: type[CompanionCall], hints: ToolAnnotations
    ) -> "Companion":
        """A companion tool whose arguments are the fields of the model `call`.

        The name and the docstring of the model do not reach clients, since the tool has a title and a description.
        """
        arguments = PublishedArguments.of([call])
        schema = {key: value for key, value in arguments.schema.items() if key not in {"title", "description"}}
        tool = Tool(name=name, title=title, description=description, input_schema=schema, annotations=hints)
        return cls(tool, arguments)


def handle_tools(goals: Iterable[ToolAnnotations | None]) -> tuple[Companion, ...]:
    """The tools for goals that may answer with a handle; `goals` are the hints of those goals.

    An answer resumes a goal, so the tool that takes answers is destructive or open-world if one of the goals is.
    """
    hints = [each or ToolAnnotations() for each in goals]
    answering = ToolAnnotations(
        read_only_hint=False,
        destructive_hint=any(each.destructive_hint is not False and not each.read_only_hint for each in hints),
        idempotent_hint=False,
        open_world_hint=any(each.open_world_hint is not False for each in hints),
    )
    return (
        Companion.of(
            STATUS,
            "Status of a process",
            "Get the status of a process for which another tool has answered with a handle (processId, status,"
            " questions). Gives its result once it has one, its open questions while it waits for a person, else the"
            " handle again.",
            StatusCall,
            _READ_ONLY,
        ),
        Companion.of(
            ANSWER,
            "Answer a question",
            "Answer a question that a process waits for with what the person said, and let the process go on. Ask the"
            " person; do not make up the answer. Gives the result, or the handle with what is asked next.",
            AnswerCall,
            answering,
        ),
        Companion.of(
            CANCEL,
            "Cancel a process",
            "End a process whose result nobody wants any more, whether it is running or waits for a person. What it has"
            " done stays done.",
            CancelCall,
            _DESTRUCTIVE,
        ),
    )


def result_tool() -> Companion:
    """The tool for results that are too large for one answer."""
    return Companion.of(
        RESULT,
        "Read a large result",
        "Read one page of the result of a process, when another tool has answered that it is too large for one answer"
        " (processId, pages). Gives a line about the page, then the page unchanged.",
        ResultCall,
        _READ_ONLY,
    )


_STATUS_SECONDS: Final = 25
"""How long the call of `process_status` that a handle names waits."""
_TEXT: Final[Schema] = {"type": "string"}


def _object(properties: Mapping[str, Schema], required: Sequence[str], **described: str) -> Schema:
    return {**described, "type": "object", "properties": {**properties}, "required": [*required]}


_NEXT: Final = _object(
    {
        "tool": _TEXT,
        "arguments": {"type": "object", "description": "Complete but for null, which stands for the person's answer"},
        "instruction": _TEXT,
    },
    ["tool", "arguments", "instruction"],
    description="The call to make next",
)
_QUESTION: Final = _object(
    {
        "id": _TEXT,
        "message": _TEXT,
        "schema": {"type": "object", "description": "The JSON Schema of the answer"},
        "kind": {"type": "string", "enum": [*FORMS]},
        "options": {
            "type": "array",
            "description": "What can be chosen: the answer is a key, the person reads the labels",
            "items": _object({"key": _TEXT, "label": _TEXT}, ["key", "label"]),
        },
        "url": {"type": "string", "description": "The address that the person opens"},
    },
    ["id", "message", "schema", "kind"],
)
HANDLE: Final = _object(
    {
        "processId": _TEXT,
        "status": {"type": "string", "enum": ["running", "waiting"]},
        "questions": {"type": "array", "items": _QUESTION},
        "next": _NEXT,
        "waitsFor": {
            "type": "array",
            "items": _TEXT,
            "description": "The models that did not answer and will be asked again: nothing to do about it but to know",
        },
    },
    ["processId", "status", "questions", "next"],
    title="Handle",
    description="Not the result yet: the process goes on, or waits for answers",
)
CHAT_HANDLE: Final[Schema] = {
    **HANDLE,
    "description": "Not the reply yet: the chatbot goes on, or waits for answers",
    "properties": {**HANDLE["properties"], "conversationId": _TEXT},
}
LARGE: Final = _object(
    {
        "processId": _TEXT,
        "status": {"type": "string", "const": "completed"},
        "uri": {"type": "string", "description": "The resource that holds the whole result"},
        "pages": {"type": "integer"},
        "next": _NEXT,
    },
    ["processId", "status", "uri", "pages", "next"],
    title="LargeResult",
    description="The goal is reached; its result is too large for one answer and is read in pages",
)


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
        conversation, families = conversation_of(process), [process]
        for each in families:  # and the processes that each has started
            families += [] if each.status.ended else each.children
        waits = [wait for each in families if not each.status.ended for wait in each.progress.waits.values()]
        conversation_id = "" if conversation is None else conversation.id
        return cls(process.id, goal, process.outcome is not None, questions, tuple(waits), conversation_id)

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
        call, when = self.status_call, "To get the result, make this call."
        if self.questions:
            call = self.answer_call(self.questions[0])
            when = "Ask the person the first question, then make this call with their answer in place of null."
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


def with_alternatives(schema: Schema | None, *others: Schema) -> Schema | None:
    """An output schema that allows the schemas `others` too; None stays None."""
    if schema is None or not others:
        return schema
    result, definitions = split_definitions(schema)
    return {"type": "object", "anyOf": [result, *others], **definitions}
