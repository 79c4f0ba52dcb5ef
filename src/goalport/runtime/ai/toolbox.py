"""The tools that a model is offered for one request, and which of them in each turn of the conversation.

They are the tools of groups, of references and of the call itself; the groups of a role are looked up at each request.
A call of an unfolding tool adds the tools behind it, and an object that a tool returns may add its own tools. A tool
that may be called only once is withdrawn after its call, and the interaction may withhold tools for a time. Nothing
here calls a tool. Above: `tool_loop`.
"""

import base64
import binascii
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain, count
from typing import Annotated, Any, Final, cast

from pydantic import Field
from pydantic_core import from_json

from goalport.base.errors import DeclarationError, GoalportError, ToolError
from goalport.base.words import did_you_mean, listed, nearest, one_line
from goalport.models.llm import Image, ToolCall, ToolReply
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
"""The most characters of the note to a model on missing tools."""
_DO_WITHOUT: Final = "Make nothing up in their place: say what you could not do without them."


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one request by the names that the model sees; every provider accepts these names."""

    tools: Mapping[str, Tool]
    withheld: frozenset[str] = frozenset()
    """The names of further tools, which cannot be called now."""

    def plus(self, origin: str, tools: Iterable[Tool]) -> "tuple[Toolbox, list[tuple[str, str]]]":
        """A toolbox with these tools too, and the old and new names of the tools whose own name was in use.

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

    def author_name(self, name: str) -> str:
        """The name of a tool for authors, by its name for models: its own name, unless that was in use."""
        own = self.tools[name].name
        return own if name == _portable(own) else name

    def only(self, names: Collection[str]) -> "Toolbox":
        """A toolbox that offers only the tools with these names, and withholds the others."""
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
    """The note to a model on missing tools, from the reasons by role; empty: nothing is missing.

    For an unknown role, the advice for authors is left out.
    """
    if not missing:
        return ""
    sentences = " ".join(
        why if groups.find(role) or groups.why_missing(role) else f"There is no tool group {role!r}."
        for role, why in missing.items()
    )
    return f"Some of your tools are missing now. {one_line(sentences, _LONGEST_NOTE)} {_DO_WITHOUT}"


def _portable(name: str) -> str:
    """The name, with only the characters that every provider accepts."""
    return _NOT_PORTABLE.sub("_", name)[:_LONGEST]


def _same(first: Tool, second: Tool) -> bool:
    """Whether two tools were made of the same function of the same object."""
    ours, theirs = first.handler, second.handler
    if isinstance(ours, FunctionHandler) and isinstance(theirs, FunctionHandler) and not ours.takes_mapping:
        return ours.function == theirs.function
    return first is second if ours is None else ours is theirs


@dataclass(frozen=True, slots=True)
class CompletedCall:
    """One call of a tool and its result."""

    call: ToolCall
    tool: Tool | None
    """None: there is no such tool."""
    result: ToolResult


class ToolOffers:
    """The tools of one conversation, and which of them are offered now.

    Of a long result, the model gets at most `limit` characters at once, and a tool to read on.
    """

    def __init__(self, box: Toolbox, interaction: Interaction, limit: int) -> None:
        self.box, self._interaction, self._limit = box, interaction, limit
        self._uses: list[ToolUse] = []
        """The calls so far."""
        self._chained: dict[type, tuple[Tool, ...]] = {}
        self._long_results: list[str] = []
        self._reader = Tool.of(self._read_on, name="read_on")

    def offered(self, called: Sequence[CompletedCall] = ()) -> Toolbox:
        """The tools for the next turn or, within a turn, for the next call after the calls in `called`."""
        uses = [*self._uses, *self._uses_in(called)]
        withholds = self._interaction.withholds
        withheld = set(withholds(uses) if withholds is not None else ())
        done = {each.tool for each in uses if not each.result.is_error}
        for name, tool in self.box.tools.items():
            author_name = self.box.author_name(name)
            if (tool.once and author_name in done) or (tool.withheld is not None and tool.withheld()):
                withheld.add(author_name)
        return self.box.only({each for each in self.box.tools if self.box.author_name(each) not in withheld})

    def depend(self, calls: Sequence[ToolCall]) -> bool:
        """Whether one of these calls of a turn may make another one needless or forbidden."""
        tools = self.box.tools
        once = [each.name for each in calls if each.name in tools and tools[each.name].once]
        return len(once) > len(set(once)) or (self._interaction.withholds is not None and len(calls) > 1)

    def after(self, called: Sequence[CompletedCall]) -> list[CompletedCall]:
        """Record the calls of a turn; returns them, with notes for the model on new tools in their results.

        When one of the unfolding tools is exclusive, only the tools that were unfolded in this turn remain.
        """
        self._uses += self._uses_in(called)
        succeeded = [each for each in called if not each.result.is_error]
        unfolded = {each.call.name: each.tool for each in succeeded if isinstance(each.tool, UnfoldingTool)}
        if any(each.exclusive for each in unfolded.values()):
            self.box = Toolbox({name: tool for name, tool in self.box.tools.items() if name in unfolded})
        return [each if each.result.is_error else self._adding_tools_of(each) for each in called]

    def replies(self, called: Sequence[CompletedCall], *, sees: bool) -> list[ToolReply]:
        """The results of a turn for the model: images as images if it `sees` them, and words for what it cannot see."""
        replies: list[ToolReply] = []
        for each in called:
            texts, images = [each.result.text] if each.result.text else [], list[Image]()
            for block in each.result.blocks:
                shown = _block_content(block)
                if not isinstance(shown, Image):
                    texts.append(shown)
                elif sees:
                    images.append(shown)
                else:
                    texts.append(f"[an image of type {shown.media_type}, which you cannot see]")
            content = "\n".join(texts)
            if each.tool is not self._reader and len(content) > self._limit:
                self.box, _ = self.box.plus("result", [self._reader])
                reader = next(name for name, tool in self.box.tools.items() if tool is self._reader)
                self._long_results.append(content)
                content = self._piece(len(self._long_results), 0, f"call {reader} with")
            is_error = each.result.is_error
            replies.append(ToolReply(each.call.id, each.call.name, content, tuple(images), is_error=is_error))
        return replies

    def _uses_in(self, called: Sequence[CompletedCall]) -> list[ToolUse]:
        return [ToolUse(self.box.author_name(each.call.name), each.result) for each in called if each.tool is not None]

    def _adding_tools_of(self, each: CompletedCall) -> CompletedCall:
        """Add the tools that a call unfolds, and those of the object that it returned in place of an earlier one."""
        notes: list[str] = []
        if isinstance(each.tool, UnfoldingTool):
            arguments = arguments_of(each.call)
            chosen = each.tool.chosen({} if isinstance(arguments, str) else arguments)
            notes += self._plus(each.call.name, chosen)
        artifact = each.result.artifact
        rule = next((rule for rule in self._interaction.chaining if isinstance(artifact, rule.kind)), None)
        if artifact is not None and rule is not None and not isinstance(artifact, type):
            own = Tool.safely_from_instance(artifact)
            if tools := tuple(tool for tool in own if rule.select is None or rule.select(artifact, tool)):
                kind = type(artifact)
                before, self._chained[kind] = self._chained.get(kind, ()), tools
                self.box = Toolbox({name: tool for name, tool in self.box.tools.items() if tool not in before})
                names = ", ".join(tool.name for tool in tools)
                replaces = f" They replace those of the earlier {kind.__name__}." if before else ""
                notes.append(f"From now on you can call tools of this {kind.__name__}: {names}.{replaces}")
                notes += self._plus(snake(kind.__name__), tools)
        text = "\n".join((each.result.text, *notes))
        return replace(each, result=replace(each.result, text=text)) if notes else each

    def _plus(self, origin: str, tools: Iterable[Tool]) -> list[str]:
        """Add tools; returns a note for the model on each that gets another name, because its own is in use."""
        self.box, renamed = self.box.plus(origin, tools)
        return [f"Here {own!r} is called {name!r}." for own, name in renamed]

    def _read_on(
        self,
        result: Annotated[int, Field(ge=1, description="The number of the result, as it was told")],
        start: Annotated[int, Field(ge=0, description="How many characters to leave out at its beginning")],
    ) -> str:
        """Read on in a long result of a tool, of which only the beginning was given."""
        if result > len(self._long_results) or start >= len(self._long_results[result - 1]):
            raise ToolError("There is nothing there. Use the numbers that you were told.")
        return self._piece(result, start, "call it again with")

    def _piece(self, number: int, start: int, call: str) -> str:
        text, end = self._long_results[number - 1], start + self._limit
        if end >= len(text):
            return text[start:]
        arguments = json.dumps({"result": number, "start": end})
        return (
            f"{text[start:end]}\n[These are the characters from {start:,} to {end:,} of {len(text):,}. "
            f"To read on, {call} {arguments}.]"
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
