"""Which tools a model is offered in each turn of a conversation, by the calls that it has made.

Calls of unfolding tools add the tools behind them; an object that a tool returns may add its own tools; tools that may
be called only once go; and the interaction may withhold some for a time. Nothing here calls a tool. Above: `tool_loop`.
"""

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, cast

from pydantic import Field
from pydantic_core import from_json

from goalport.base.errors import GoalportError, ToolError
from goalport.models.llm import Image, ToolCall, ToolReply
from goalport.runtime.ai.interaction import Interaction, ToolChaining, ToolUse
from goalport.runtime.ai.toolbox import Toolbox, UnfoldingTool
from goalport.tools import Tool, ToolResult, snake


class LongResults:
    """The long results of one conversation, of which a model gets at most `limit` characters at once."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._texts: list[str] = []
        self.tool = Tool.of(self._read_on, name="read_on")

    def beginning(self, text: str, reader: str) -> str:
        """Keep a long text; its first piece, which says how to read on with the tool, of which `reader` is the name."""
        self._texts.append(text)
        return self._piece(len(self._texts), 0, f"call {reader} with")

    def _read_on(
        self,
        result: Annotated[int, Field(ge=1, description="The number of the result, as it was told")],
        start: Annotated[int, Field(ge=0, description="How many characters to leave out at its beginning")],
    ) -> str:
        """Read on in a long result of a tool, of which only the beginning was given."""
        if result > len(self._texts) or start >= len(self._texts[result - 1]):
            raise ToolError("There is nothing there. Use the numbers that you were told.")
        return self._piece(result, start, "call it again with")

    def _piece(self, number: int, start: int, call: str) -> str:
        text = self._texts[number - 1]
        end = start + self.limit
        if end >= len(text):
            return text[start:]
        arguments = json.dumps({"result": number, "start": end})
        return (
            f"{text[start:end]}\n[These are the characters from {start:,} to {end:,} of {len(text):,}. "
            f"To read on, {call} {arguments}.]"
        )


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
            shown = _block_content(block)
            if not isinstance(shown, Image):
                texts.append(shown)
            elif sees:
                images.append(shown)
            else:
                texts.append(f"[an image of type {shown.media_type}, which you cannot see]")
        is_error = self.result.is_error
        return ToolReply(self.call.id, self.call.name, "\n".join(texts), tuple(images), is_error=is_error)


@dataclass(slots=True)
class ToolOffers:
    """The tools of one conversation, and which of them are offered now."""

    box: Toolbox
    interaction: Interaction
    long: LongResults
    uses: list[ToolUse] = field(default_factory=list[ToolUse], init=False)
    """The calls so far."""
    _chained: dict[type, tuple[Tool, ...]] = field(default_factory=dict[type, tuple[Tool, ...]], init=False)

    def offered(self, called: Sequence[CompletedCall] = ()) -> Toolbox:
        """The tools for the next turn, or for the next call of a turn in which these calls were made."""
        uses = [*self.uses, *self._uses(called)]
        once = {self.box.known_as(name) for name, tool in self.box.tools.items() if tool.once}
        done = {each.tool for each in uses if each.tool in once and not each.result.is_error}
        withheld = self.interaction.withholds(uses) if self.interaction.withholds is not None else ()
        tools = self.box.tools.items()
        locked = {self.box.known_as(name) for name, tool in tools if tool.withheld is not None and tool.withheld()}
        return self.box.without(done.union(withheld, locked))

    def depend(self, calls: Sequence[ToolCall]) -> bool:
        """Whether one of these calls, of one turn, may be in vain or forbidden after another one."""
        tools = self.box.tools
        once = [each.name for each in calls if each.name in tools and tools[each.name].once]
        return len(once) > len(set(once)) or (self.interaction.withholds is not None and len(calls) > 1)

    def after(self, called: Sequence[CompletedCall]) -> list[CompletedCall]:
        """Note the calls of a turn; returns them with what the model has to know of their tools.

        When one of the unfolding tools is exclusive, only the tools that were unfolded in this turn remain.
        """
        self.uses += self._uses(called)
        unfolded = {each.call.name: each.tool for each in called if _unfolds(each)}
        if any(each.fold.exclusive for each in unfolded.values() if isinstance(each, UnfoldingTool)):
            self.box = Toolbox({name: tool for name, tool in self.box.tools.items() if name in unfolded})
        return [self._added(self._unfolded(each)) for each in called]

    def replies(self, called: Sequence[CompletedCall], *, sees: bool) -> list[ToolReply]:
        """The results of a turn for the model; of a long one the beginning, and from then on a tool that reads on."""
        return [self._shortened(each, each.reply(sees=sees)) for each in called]

    def _shortened(self, called: CompletedCall, reply: ToolReply) -> ToolReply:
        if called.tool is self.long.tool or len(reply.content) <= self.long.limit:
            return reply
        self.box, _ = self.box.plus("result", [self.long.tool])
        reader = next(name for name, each in self.box.tools.items() if each is self.long.tool)
        return replace(reply, content=self.long.beginning(reply.content, reader))

    def _uses(self, called: Sequence[CompletedCall]) -> list[ToolUse]:
        return [ToolUse(self.box.known_as(each.call.name), each.result) for each in called if each.tool is not None]

    def _unfolded(self, each: CompletedCall) -> CompletedCall:
        """The call, after the tools behind its tool were added."""
        if not isinstance(each.tool, UnfoldingTool) or not _unfolds(each):
            return each
        arguments = arguments_of(each.call)
        return self._plus(each, each.call.name, each.tool.fold.chosen({} if isinstance(arguments, str) else arguments))

    def _added(self, each: CompletedCall) -> CompletedCall:
        """The call, after the tools of the object that it gave were added; those of an earlier one of its class go."""
        artifact = each.result.artifact
        if each.result.is_error or artifact is None:
            return each
        tools = _tools_of(artifact, self.interaction.chaining)
        if not tools:
            return each
        kind = type(artifact)
        before = self._chained.get(kind, ())
        self.box = Toolbox({name: tool for name, tool in self.box.tools.items() if tool not in before})
        self._chained[kind] = tools
        listed = ", ".join(tool.name for tool in tools)
        note = f"\nFrom now on you can call tools of this {kind.__name__}: {listed}."
        note += f" They replace those of the earlier {kind.__name__}." if before else ""
        return self._plus(
            replace(each, result=replace(each.result, text=each.result.text + note)), snake(kind.__name__), tools
        )

    def _plus(self, each: CompletedCall, origin: str, tools: Iterable[Tool]) -> CompletedCall:
        """Add tools. Where one gets another name because its own is taken, the result says so."""
        self.box, renamed = self.box.plus(origin, tools)
        notes = "".join(f"\nHere {own!r} is called {name!r}." for own, name in renamed)
        return replace(each, result=replace(each.result, text=each.result.text + notes)) if notes else each


def _tools_of(artifact: object, chaining: Sequence[ToolChaining]) -> tuple[Tool, ...]:
    """The tools of an object, if those of its type are wanted."""
    rule = next((each for each in chaining if isinstance(artifact, each.kind)), None)
    if rule is None or isinstance(artifact, type):
        return ()
    select = rule.select
    tools = Tool.safely_from_instance(artifact)
    return tuple(tool for tool in tools if select is None or select(artifact, tool))


def _unfolds(called: CompletedCall) -> bool:
    return isinstance(called.tool, UnfoldingTool) and not called.result.is_error


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


def _block_content(block: Any) -> Image | str:
    """The image or the text of an MCP content block, as a model gets it."""
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
