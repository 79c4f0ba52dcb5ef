"""The tools that a model is offered for one request, and which of them in each turn of the conversation.

They are those of groups, of references, and those given with the call; the groups of a role are looked up at each
request. Calls of unfolding tools add the tools behind them; an object that a tool returns may add its own tools; tools
that may be called only once go; and the interaction may withhold some for a time. Nothing here calls a tool. Above:
`tool_loop`.
"""

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, count
from typing import Annotated, Any, Final, cast

from pydantic import Field
from pydantic_core import from_json

from goalport.base.errors import DeclarationError, GoalportError, ToolError
from goalport.base.words import did_you_mean, listed, nearest, one_line
from goalport.models.llm import Image, ToolCall, ToolReply, ToolSpec
from goalport.runtime.ai.engine import Interaction, ToolUse
from goalport.runtime.ai.guided_tools import UnfoldingTool
from goalport.tools import Tool, ToolGroupResolver, ToolResult, reference_prefix, snake
from goalport.tools.functions import FunctionHandler

_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64
_DIGITS: Final = 8
"""Characters that are kept free for a number at the end of a name."""
_MOST_OFFERED: Final = 3
_LONGEST_NOTE: Final = 1_000
"""Characters of what a model is told of missing tools."""
_DO_WITHOUT: Final = "Make nothing up in their place: say what you could not do without them."


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one request by the names that the model sees; every provider accepts these names."""

    tools: Mapping[str, Tool]
    withheld: frozenset[str] = frozenset()
    """The names of further tools, which cannot be called now."""

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return tuple(ToolSpec(name, each.description, each.input_schema) for name, each in self.tools.items())

    def plus(self, origin: str, tools: Iterable[Tool]) -> "tuple[Toolbox, list[tuple[str, str]]]":
        """A toolbox with these tools too, and the old and new names of those whose own name was taken.

        A new name begins with the name of the tool's origin.
        """
        every = dict(self.tools)
        renamed: list[tuple[str, str]] = []
        for tool in tools:
            longer = _portable(f"{origin}_{tool.name}")
            numbered = (f"{longer[: _LONGEST - _DIGITS]}_{number}" for number in count(2))
            names = chain((_portable(tool.name), longer), numbered)  # the best first
            name = next(each for each in names if each not in every or _same(every[each], tool))
            every[name] = tool
            if name != tool.name:
                renamed.append((tool.name, name))
        return Toolbox(every), renamed

    def known_as(self, name: str) -> str:
        """What authors call the tool that a model calls so: its own name, unless that was taken."""
        own = self.tools[name].name
        return own if name == _portable(own) else name

    def without(self, names: Collection[str]) -> "Toolbox":
        """A toolbox that withholds the tools that authors call so."""
        return self.only({name for name in self.tools if self.known_as(name) not in names}) if names else self

    def only(self, names: Collection[str]) -> "Toolbox":
        """A toolbox that withholds the tools that models do not call so."""
        kept = {name: tool for name, tool in self.tools.items() if name in names}
        return Toolbox(kept, self.withheld.union(self.tools.keys() - kept.keys()))

    def correction(self, name: str) -> str:
        """The answer to a model that called a tool which does not exist, or not now."""
        if name in self.withheld:
            others = f"You can call: {listed(self.tools)}." if self.tools else "Answer without it."
            return f"The tool {name!r} cannot be called now. {others}"
        wanted = name.lower()
        holding = [each for each in self.tools if wanted and (wanted in each.lower() or each.lower() in wanted)]
        if similar := list(dict.fromkeys((*holding, *nearest(name, self.tools))))[:_MOST_OFFERED]:
            return f"There is no tool {name!r}. {did_you_mean(similar)}"
        if not self.tools:
            return f"There is no tool {name!r}, nor any other. Answer without one."
        return f"There is no tool {name!r}. Known: {listed(self.tools)}."


def toolbox(interaction: Interaction, groups: ToolGroupResolver) -> Toolbox:
    """The tools that an interaction names, looked up now. Raises `DeclarationError` for two of one name."""
    offered = [(f"the tool group {role!r}", tool) for role, tool in groups.tools_of(interaction.tool_groups)]
    for each in interaction.references:
        prefix = reference_prefix(each.name)
        offered += ((f"the reference {each.name!r}", tool.with_name(f"{prefix}{tool.name}")) for tool in each.tools())
    offered += (("those given with `with_tools` or `with_tool_objects`", tool) for tool in interaction.tools)
    found: dict[str, tuple[str, Tool]] = {}
    for origin, tool in offered:
        name = _portable(tool.name)
        first, before = found.setdefault(name, (origin, tool))
        if not _same(before, tool):
            where = f"of {first}, and one of {origin}" if first != origin else f"of {first}, from different objects"
            raise DeclarationError(
                "The tools for a model",
                expected="tools with different names",
                came=f"two are called {name!r}: one {where}",
                fix="Rename one: give the reference another name, or the tool one by "
                "`ToolObject(thing, naming=prefixed('thing_'))` or `tool.with_name('…')`.",
            )
    return Toolbox({name: tool for name, (_, tool) in found.items()})


def missing_in_words(missing: Mapping[str, str], groups: ToolGroupResolver) -> str:
    """What a model is told of what groups lack, given by their roles; empty: nothing is missing.

    The advice for authors, for a role that nobody knows, is left out.
    """
    if not missing:
        return ""
    sentences = " ".join(
        why if groups.find(role) or groups.why_missing(role) else f"There is no tool group {role!r}."
        for role, why in missing.items()
    )
    return f"Some of your tools are missing now. {one_line(sentences, _LONGEST_NOTE)} {_DO_WITHOUT}"


def _portable(name: str) -> str:
    """The name with only what every provider accepts."""
    return _NOT_PORTABLE.sub("_", name)[:_LONGEST]


def _same(first: Tool, second: Tool) -> bool:
    """Whether two tools were made of the same function of the same object."""
    ours, theirs = first.handler, second.handler
    if isinstance(ours, FunctionHandler) and isinstance(theirs, FunctionHandler) and not ours.takes_mapping:
        return ours.function == theirs.function
    return ours is theirs


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
        named = [(self.box.known_as(name), tool) for name, tool in self.box.tools.items()]
        once = {name for name, tool in named if tool.once}
        done = {each.tool for each in uses if each.tool in once and not each.result.is_error}
        withheld = self.interaction.withholds(uses) if self.interaction.withholds is not None else ()
        locked = {name for name, tool in named if tool.withheld is not None and tool.withheld()}
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
        succeeded = ((each.call.name, each.tool) for each in called if not each.result.is_error)
        unfolded = {name: tool for name, tool in succeeded if isinstance(tool, UnfoldingTool)}
        if any(each.fold.exclusive for each in unfolded.values()):
            self.box = Toolbox({name: tool for name, tool in self.box.tools.items() if name in unfolded})
        told: list[CompletedCall] = []
        for each in called:
            one, tool, arguments = each, each.tool, arguments_of(each.call)
            if isinstance(tool, UnfoldingTool) and not each.result.is_error:
                chosen = tool.fold.chosen({} if isinstance(arguments, str) else arguments)
                one = self._plus(each, each.call.name, chosen)
            told.append(one if each.result.is_error else self._added(one))
        return told

    def replies(self, called: Sequence[CompletedCall], *, sees: bool) -> list[ToolReply]:
        """The results of a turn for the model; of a long one the beginning, and from then on a tool that reads on."""
        replies = [each.reply(sees=sees) for each in called]
        for place, reply in enumerate(replies):
            if called[place].tool is not self.long.tool and len(reply.content) > self.long.limit:
                self.box, _ = self.box.plus("result", [self.long.tool])
                reader = next(name for name, each in self.box.tools.items() if each is self.long.tool)
                replies[place] = replace(reply, content=self.long.beginning(reply.content, reader))
        return replies

    def _uses(self, called: Sequence[CompletedCall]) -> list[ToolUse]:
        return [ToolUse(self.box.known_as(each.call.name), each.result) for each in called if each.tool is not None]

    def _added(self, each: CompletedCall) -> CompletedCall:
        """The call, after the tools of the object that it gave were added; those of an earlier one of its class go."""
        artifact = each.result.artifact
        rule = next((rule for rule in self.interaction.chaining if isinstance(artifact, rule.kind)), None)
        if artifact is None or rule is None or isinstance(artifact, type):
            return each
        own = Tool.safely_from_instance(artifact)
        tools = tuple(tool for tool in own if rule.select is None or rule.select(artifact, tool))
        if not tools:
            return each
        kind = type(artifact)
        before, self._chained[kind] = self._chained.get(kind, ()), tools
        self.box = Toolbox({name: tool for name, tool in self.box.tools.items() if tool not in before})
        listed_tools = ", ".join(tool.name for tool in tools)
        note = f"\nFrom now on you can call tools of this {kind.__name__}: {listed_tools}."
        note += f" They replace those of the earlier {kind.__name__}." if before else ""
        return self._plus(each, snake(kind.__name__), tools, note)

    def _plus(self, each: CompletedCall, origin: str, tools: Iterable[Tool], note: str = "") -> CompletedCall:
        """Add tools. Where one gets another name because its own is taken, the result says so after the note."""
        self.box, renamed = self.box.plus(origin, tools)
        note += "".join(f"\nHere {own!r} is called {name!r}." for own, name in renamed)
        return replace(each, result=replace(each.result, text=each.result.text + note)) if note else each


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
    holder = block.resource if block.type == "resource" else block
    kind = getattr(holder, "mime_type", None) or ""
    data = getattr(holder, "blob", None) or getattr(holder, "data", None)
    if data and kind.startswith("image/"):
        with suppress(binascii.Error, GoalportError):
            return Image(kind, base64.b64decode(data, validate=True))
    match block.type:
        case "resource_link":
            return f"[{block.name}: {block.uri}]"
        case "text" | "resource" if hasattr(holder, "text"):
            return holder.text
        case "resource":
            return f"[{holder.uri}, of type {kind or 'unknown'}]"
        case "image":
            return f"[an image of type {kind}]"
        case other:
            return f"[{other} of type {getattr(block, 'mime_type', 'unknown')}]"
