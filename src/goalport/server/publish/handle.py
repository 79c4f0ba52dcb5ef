"""What a caller gets in place of a result, and the companion tools that it can call next.

The handle of an unfinished process and the link to a large result name the process and the next call of a companion
tool, which follows, answers or ends a process, or reads its result. `doors.mcp.calls` carries these out, and
`answers` has the texts. A companion tool is published when some goal may answer with a handle or with a link. It
publishes no output schema, since it answers with the output of any goal.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

from goalport.runtime.chat import conversation_of
from goalport.runtime.process import AgentProcess, Question
from goalport.server.publish.forms import FORMS, Form, form_of
from goalport.server.publish.portability import Schema, split_definitions
from goalport.server.publish.published_arguments import PublishedArguments

if TYPE_CHECKING:
    from mcp_types import Tool, ToolAnnotations

STATUS: Final = "process_status"
ANSWER: Final = "process_answer"
CANCEL: Final = "process_cancel"
RESULT: Final = "process_result"

_LONGEST_WAIT: Final = 25.0
"""Seconds that a call of `process_status` may wait."""


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
            {
                "anyOf": [
                    {"type": "object", "additionalProperties": True},
                    *({"type": each} for each in ("boolean", "string", "number")),
                ]
            }
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

    tool: "Tool"
    arguments: PublishedArguments


_COMPANIONS: Final[Mapping[str, tuple[type[CompanionCall], str, str]]] = {
    STATUS: (
        StatusCall,
        "Status of a process",
        (
            "Get the status of a process for which another tool has answered with a handle (processId, status,"
            " questions). Gives its result once it has one, its open questions while it waits for a person, else the"
            " handle again."
        ),
    ),
    ANSWER: (
        AnswerCall,
        "Answer a question",
        (
            "Answer a question that a process waits for with what the person said, and let the process go on. Ask the"
            " person; do not make up the answer. Gives the result, or the handle with what is asked next."
        ),
    ),
    CANCEL: (
        CancelCall,
        "Cancel a process",
        (
            "End a process whose result nobody wants any more, whether it is running or waits for a person. What it has"
            " done stays done."
        ),
    ),
    RESULT: (
        ResultCall,
        "Read a large result",
        (
            "Read one page of the result of a process, when another tool has answered that it is too large for one"
            " answer (processId, pages). Gives a line about the page, then the page unchanged."
        ),
    ),
}
"""The model of the arguments, the title and the description of each companion tool."""


def companions(goals: Sequence["ToolAnnotations | None"], *, large: bool) -> Mapping[str, Companion]:
    """The companion tools by name: those for goals that may answer with a handle, and for `large` results.

    `goals` are the hints of those goals. An answer resumes a goal, so the tool that takes answers is destructive or
    open-world if one of the goals is.
    """
    from mcp_types import Tool, ToolAnnotations

    known = [each or ToolAnnotations() for each in goals]
    destroys = any(each.destructive_hint is not False and not each.read_only_hint for each in known)
    is_open = any(each.open_world_hint is not False for each in known)
    found: dict[str, Companion] = {}
    for name in (*((STATUS, ANSWER, CANCEL) if goals else ()), *([RESULT] if large else ())):
        call, title, description = _COMPANIONS[name]
        hints = ToolAnnotations(
            read_only_hint=name in {STATUS, RESULT},
            destructive_hint=name == CANCEL or (name == ANSWER and destroys),
            idempotent_hint=name != ANSWER,
            open_world_hint=name == ANSWER and is_open,
        )
        arguments = PublishedArguments.of_model(call)
        tool = Tool(name=name, title=title, description=description, input_schema=arguments.schema, annotations=hints)
        found[name] = Companion(tool, arguments)
    return found


_STATUS_SECONDS: Final = 25
"""The `waitSeconds` of the call of `process_status` that a handle suggests."""
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


def _call(tool: str, arguments: Mapping[str, Any]) -> str:
    """A call of a companion tool in words, with all its arguments."""
    return f"call {tool} with {json.dumps(arguments, ensure_ascii=False)}."


def page_call(process_id: str, page: int) -> str:
    """The call that reads one page of the result of a process, in words; pages count from 1."""
    return _call(RESULT, {"processId": process_id, "page": page})


def open_question(question: Question, form: Form | None = None) -> dict[str, Any]:
    """An open question as clients see it. Raises one of `UNREADABLE` if its answer's type cannot be read from JSON."""
    form = form or form_of(question)
    return {
        "id": question.id,
        "message": question.message,
        "schema": form.schema,
        "kind": form.kind,
        **({"options": [*form.options]} if form.options else {}),
        **({"url": form.url} if form.url else {}),
    }


def handle_of(process: AgentProcess, goal: str) -> tuple[str, dict[str, Any]]:
    """The state of an unfinished process and the calls that its caller can make next, as a text and as a `HANDLE`.

    `goal` is the name of the tool that was called. Raises one of `UNREADABLE` if the answer to a question cannot be
    read from JSON.
    """
    asked = [(each, form_of(each)) for each in process.open_questions]
    conversation, family = conversation_of(process), [process]
    for each in family:  # and the processes that each has started
        family += [] if each.status.ended else each.children
    waits = [wait for each in family if not each.status.ended for wait in each.progress.waits.values()]
    waiting, about = process.outcome is not None, {"processId": process.id}
    again = "start another" if conversation is None else "say the same again"
    not_again = f"Do not call {goal} again: that would {again}."

    def answering(question: Question) -> Mapping[str, Any]:
        """The arguments that answer a question; the answer is null, which no question accepts."""
        return {**about, "answer": None, **({"questionId": question.id} if len(asked) > 1 else {})}

    tool, arguments = STATUS, {**about, "waitSeconds": _STATUS_SECONDS}
    how = "" if waiting else f" To get the result, {_call(tool, arguments)}"
    status = "waits for a person's answer" if waiting else "is still running"
    lines = [f"{goal} is not done: process {process.id} {status}. {not_again}{how}", *waits]
    for question, form in asked:
        call = _call(ANSWER, answering(question))
        lines += ["", f"Question {question.id}: {question.message}", f"{form.ask_hint} {call} {form.answer_hint}"]
    lines += ["", f"To give it up, {_call(CANCEL, about)}"]
    when = "To get the result, make this call."
    if asked:
        tool, arguments = ANSWER, answering(asked[0][0])
        when = "Ask the person the first question, then make this call with their answer in place of null."
    structured = {
        **about,
        "status": "waiting" if waiting else "running",
        "questions": [open_question(*each) for each in asked],
        **({"waitsFor": waits} if waits else {}),
        **({} if conversation is None else {"conversationId": conversation.id}),
        "next": {"tool": tool, "arguments": arguments, "instruction": f"{when} {not_again}"},
    }
    return "\n".join(lines), structured


def large_result_of(process_id: str, uri: str, pages: int) -> dict[str, Any]:
    """The link to a result that does not fit into one answer, as a `LARGE`."""
    when = f"Read the result page by page, from 1 to {pages}. Do not call the goal again."
    first = {"tool": RESULT, "arguments": {"processId": process_id, "page": 1}, "instruction": when}
    return {"processId": process_id, "status": "completed", "uri": uri, "pages": pages, "next": first}


def with_alternatives(schema: Schema | None, *others: Schema) -> Schema | None:
    """An output schema that allows the schemas `others` too; None stays None."""
    if schema is None or not others:
        return schema
    result, definitions = split_definitions(schema)
    return {"type": "object", "anyOf": [result, *others], **definitions}
