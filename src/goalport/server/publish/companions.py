"""The companion tools, which a client calls with a handle to follow, answer or end a process, or to read its result.

This module declares them; `doors.mcp.companion_calls` carries them out. What a question of each kind is answered with
is in `forms`. A companion tool is published when some goal may answer with a handle or with a link to a large result.
It publishes no output schema, since it answers with the output of any goal.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Final

from mcp_types import Tool, ToolAnnotations
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema

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
