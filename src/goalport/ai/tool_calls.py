"""The tool calls of a model's reply: made in order or at the same time, each within its time-out.

The failure of a tool is a result for the model. A `Signal`, which steers the process, ends the calls. Above:
`tool_loop`.
"""

import base64
import binascii
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic
from typing import Any, Final, cast

import anyio
from pydantic_core import from_json

from goalport.ai.engine import Engine, Operation, use_engine
from goalport.ai.interaction import LlmOperations
from goalport.ai.toolbox import Toolbox
from goalport.errors import GoalportError, TerminateAgent
from goalport.events import ToolCalled, ToolReturned
from goalport.llm import Image, ToolCall, ToolReply
from goalport.observe.spans import note_tool, tool_span
from goalport.tools import Interruption, Tool, ToolResult, current_call_site

__all__ = ["CompletedCall", "ToolCalls", "arguments_of"]

_SHOWN: Final = 2_000
"""Characters of a result that its event shows."""


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """One call of a tool and its result."""

    call: ToolCall
    tool: Tool | None
    """None: there is no such tool."""
    result: ToolResult

    @property
    def is_direct(self) -> bool:
        """Whether the result ends the loop instead of going back to the model."""
        return self.tool is not None and self.tool.return_direct and not self.result.is_error

    def reply(self, *, sees: bool) -> ToolReply:
        """The result for the model: images as images if it `sees` them, and words for what it cannot be shown."""
        texts = [self.result.text] if self.result.text else []
        images: list[Image] = []
        for block in self.result.blocks:
            shown = _shown(block)
            if not isinstance(shown, Image):
                texts.append(shown)
            elif sees:
                images.append(shown)
            else:
                texts.append(f"[an image of type {shown.media_type}, which you cannot see]")
        is_error = self.result.is_error
        return ToolReply(self.call.id, self.call.name, "\n".join(texts), tuple(images), is_error=is_error)


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Makes the tool calls of one request as part of an operation."""

    tools: Toolbox
    operation: Operation
    settings: LlmOperations
    engine: Engine
    """The engine for tools that ask models themselves."""

    async def run(self, calls: Sequence[ToolCall]) -> list[CompletedCall]:
        """The result of each call, in the order of the calls.

        A `Signal` from one call cancels the others and is raised; among several, one that ends the process. An
        `Interruption` is raised after all calls have ended.
        """
        if len(calls) == 1 or not self.settings.parallel_tools:
            return [await self._call(call) for call in calls]
        found: dict[int, CompletedCall] = {}
        ends: dict[int, GoalportError] = {}
        interruptions: list[Interruption] = []

        async def make(number: int, call: ToolCall) -> None:
            try:
                found[number] = await self._call(call)
            except GoalportError as error:
                ends[number] = error
                group.cancel_scope.cancel()
            except Interruption as interruption:
                interruptions.append(interruption)

        async with anyio.create_task_group() as group:
            for number, call in enumerate(calls):
                group.start_soon(make, number, call)
        if ends:
            raise next((each for each in ends.values() if isinstance(each, TerminateAgent)), ends[min(ends)])
        if interruptions:
            raise interruptions[0]
        return [found[number] for number in range(len(calls))]

    async def _call(self, call: ToolCall) -> CompletedCall:
        tool = self.tools.tools.get(call.name)
        if tool is not None:
            if (recorded := await self._recorded(tool, call)) is not None:
                return CompletedCall(call, tool, recorded)
            await self.operation.before_turn(call.name)
        process_id, action = self.operation.place
        self.operation.emit(ToolCalled(process_id=process_id, tool=call.name, arguments=call.arguments, action=action))
        started = monotonic()
        result = ToolResult.of_error(self.tools.correction(call.name)) if tool is None else await self._ask(tool, call)
        self.operation.emit(
            ToolReturned(
                process_id=process_id,
                tool=call.name,
                seconds=monotonic() - started,
                is_error=result.is_error,
                result=result.text[:_SHOWN],
                action=action,
            )
        )
        return CompletedCall(call, tool, result)

    async def _recorded(self, tool: Tool, call: ToolCall) -> ToolResult | None:
        """The result in the journal of an action that runs again; no event is sent, and the tool does no work."""
        site, arguments = current_call_site(), arguments_of(call)
        if site is None or isinstance(arguments, str) or not site.remembers(tool, arguments):
            return None
        return await tool.call(arguments)

    async def _ask(self, tool: Tool, call: ToolCall) -> ToolResult:
        with tool_span(call.name, call_id=call.id, description=tool.description) as span:
            result = await self._within_time(tool, call)
            note_tool(span, arguments=call.arguments, result=result.text, is_error=result.is_error)
        return result

    async def _within_time(self, tool: Tool, call: ToolCall) -> ToolResult:
        arguments = arguments_of(call)
        if isinstance(arguments, str):
            return ToolResult.of_error(arguments)
        seconds = self.settings.tool_timeout
        with use_engine(self.engine), anyio.move_on_after(seconds if tool.timed else None):
            return await tool.call(arguments)
        return ToolResult.of_error(
            f"The tool {tool.name!r} gave nothing within {seconds:g} seconds. Ask it for less, or do without it."
        )


def arguments_of(call: ToolCall) -> dict[str, object] | str:
    """The arguments that a model wrote, or a sentence about what is wrong with them."""
    written = call.arguments
    try:
        found: object = from_json(written) if written.strip() else {}
    except (TypeError, ValueError) as error:  # the former for half a surrogate pair
        return f"The arguments are no JSON ({error}). Send one JSON object, and all of it."
    if isinstance(found, dict):
        return cast("dict[str, object]", found)
    return f"The arguments are to be a JSON object, with a property for each of them, but came {written[:200]!r}."


def _shown(block: Any) -> Image | str:
    """An MCP content block as a model gets it."""
    match block.type:
        case "text":
            return block.text
        case "image":
            return _image(block.mime_type, block.data) or f"[an image of type {block.mime_type}]"
        case "resource_link":
            return f"[{block.name}: {block.uri}]"
        case "resource" if hasattr(block.resource, "text"):
            return block.resource.text
        case "resource":
            kind = block.resource.mime_type or ""
            return _image(kind, block.resource.blob) or f"[{block.resource.uri}, of type {kind or 'unknown'}]"
        case kind:
            return f"[{kind} of type {getattr(block, 'mime_type', 'unknown')}]"


def _image(media_type: str, data: str) -> Image | None:
    if not media_type.startswith("image/"):
        return None
    try:
        return Image(media_type, base64.b64decode(data, validate=True))
    except (binascii.Error, GoalportError):
        return None
