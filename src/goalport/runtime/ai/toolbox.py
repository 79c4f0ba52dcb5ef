"""The tools that a model is offered for one request: those of groups, of references, and those given with the call.

The groups of a role are looked up at each request. `UnfoldingTool` is a tool in front of others, which a model is
offered after it has called the one. Nothing here calls a tool. Above: `tool_loop`.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any, Final, Self

from goalport.base.errors import DeclarationError
from goalport.base.words import did_you_mean, listed, nearest, one_line
from goalport.models.llm import ToolSpec
from goalport.runtime.ai.interaction import Interaction
from goalport.tools import (
    Parameter,
    Tool,
    ToolGroupResolver,
    ToolResult,
    reference_prefix,
    tools_of,
)
from goalport.tools.functions import Arguments, FunctionHandler, listed_arguments

_WORD = re.compile(r"[A-Za-z0-9]{4,}")
_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64
_LEAST_OVERLAP: Final = 0.25
"""The share of their words that two similar names have in common at least."""
_DIGITS: Final = 8
"""Characters that are kept free for a number at the end of a name."""
_MOST_OFFERED: Final = 3
_CATEGORY: Final = "category"
_LONGEST_NOTE: Final = 1_000
"""Characters of what a model is told of missing tools."""
_DO_WITHOUT: Final = "Make nothing up in their place: say what you could not do without them."
_NOTHING: Final[Mapping[str, object]] = {"type": "object", "properties": {}}
Selector = Callable[[Mapping[str, Any], Sequence[Tool]], Iterable[Tool]]
"""Chooses tools by the arguments of a call, among all tools behind an unfolding tool."""


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
            name = next(each for each in _names(origin, tool) if each not in every or _same(every[each], tool))
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
        if similar := _similar_names(name, self.tools):
            return f"There is no tool {name!r}. {did_you_mean(similar)}"
        if not self.tools:
            return f"There is no tool {name!r}, nor any other. Answer without one."
        return f"There is no tool {name!r}. Known: {listed(self.tools)}."


def toolbox(interaction: Interaction, groups: ToolGroupResolver) -> Toolbox:
    """The tools that an interaction names, looked up now. Raises `DeclarationError` for two of one name."""
    found: dict[str, tuple[str, Tool]] = {}
    for origin, tool in _offered(interaction, groups):
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


def _offered(interaction: Interaction, groups: ToolGroupResolver) -> Iterator[tuple[str, Tool]]:
    """Each tool, with its origin in words."""
    for role, tool in groups.tools_of(interaction.tool_groups):
        yield f"the tool group {role!r}", tool
    for reference in interaction.references:
        prefix = reference_prefix(reference.name)
        for tool in reference.tools():
            yield f"the reference {reference.name!r}", tool.with_name(f"{prefix}{tool.name}")
    for tool in interaction.tools:
        yield "those given with `with_tools` or `with_tool_objects`", tool


def _portable(name: str) -> str:
    """The name with only what every provider accepts."""
    return _NOT_PORTABLE.sub("_", name)[:_LONGEST]


def _names(origin: str, tool: Tool) -> Iterator[str]:
    """The names that a tool may get, the best first."""
    yield _portable(tool.name)
    yield (longer := _portable(f"{origin}_{tool.name}"))
    yield from (f"{longer[: _LONGEST - _DIGITS]}_{number}" for number in count(2))


def _same(first: Tool, second: Tool) -> bool:
    """Whether two tools were made of the same function of the same object."""
    ours, theirs = first.handler, second.handler
    if isinstance(ours, FunctionHandler) and isinstance(theirs, FunctionHandler):
        return ours.function == theirs.function
    return ours is theirs


def _similar_names(name: str, names: Iterable[str]) -> list[str]:
    """The names that a model most probably meant: with its word in them, with words in common, or spelled alike."""
    known = list(names)
    wanted = name.lower()
    similar = [each for each in known if each.lower().endswith(wanted) or wanted.endswith(each.lower())]
    similar += [each for each in known if wanted and (wanted in each.lower() or each.lower() in wanted)]
    words = set(_WORD.findall(wanted))
    for each in known:
        others = set(_WORD.findall(each.lower()))
        if words and others and len(words & others) / len(words | others) >= _LEAST_OVERLAP:
            similar.append(each)
    similar += nearest(name, known)
    return list(dict.fromkeys(similar))[:_MOST_OFFERED]


@dataclass(frozen=True, slots=True)
class _Fold:
    """The handler of an unfolding tool: it lists the tools behind it."""

    notes: str = ""
    always: tuple[Tool, ...] = ()
    """The tools without a category."""
    categories: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict[str, tuple[Tool, ...]])
    selector: Selector | None = None
    signature: Arguments | None = None
    """Reads the arguments for the selector."""
    exclusive: bool = False
    """Whether all other tools are withdrawn when these appear."""

    def chosen(self, arguments: Mapping[str, object]) -> tuple[Tool, ...]:
        """The tools that a call asks for: those that the selector chooses, those of a category, or all.

        Raises `BadInput` for arguments that the selector does not take.
        """
        if self.selector is not None and self.signature is not None:
            everything = (*self.always, *(tool for tools in self.categories.values() for tool in tools))
            return tools_of(*self.selector(self.signature.bind(arguments)[1], everything))
        category = arguments.get(_CATEGORY)
        known = self.categories.get(category) if isinstance(category, str) else None
        wanted = [known] if known is not None else self.categories.values()
        return (*self.always, *(tool for tools in wanted for tool in tools))

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        tools = self.chosen(arguments)
        if not tools:
            wanted = "such tools" if self.selector else "tools"
            return ToolResult.of_error(f"There are no {wanted} behind this one. Do without them.")
        first_lines = ((each.name, each.description.strip().partition("\n")[0]) for each in tools)
        lines = "\n".join(f"- {name}: {line}" for name, line in first_lines)
        notes = f"\n\n{self.notes}" if self.notes else ""
        only = ", and no others but this one" if self.exclusive else ""
        return ToolResult.of_text(f"From now on you can call these tools{only}:\n{lines}{notes}")

    @property
    def schema(self) -> Mapping[str, object]:
        """The JSON Schema of the arguments: those of the selector, or the category where there are categories."""
        if self.signature is not None:
            return self.signature.schema({})
        if not self.categories:
            return _NOTHING
        described = "Which tools are wanted; all when it is left out."
        category = {"type": "string", "enum": list(self.categories), "description": described}
        return {"type": "object", "properties": {_CATEGORY: category}}


@dataclass(frozen=True)
class UnfoldingTool(Tool):
    """A tool in front of others: `UnfoldingTool("files", "Work with files").with_tools(read, write)`.

    It lets a model that may call hundreds of tools choose between a few first. A model sees only this tool. Once the
    model has called it, the tools behind it are offered too, from the next turn on; another call lists them again. They
    may be unfolding tools themselves. Outside of a conversation with a model, for example over MCP, the tool can only
    list. It is immutable: each `with_*` gives a copy.
    """

    input_schema: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    handler: Any = field(default_factory=_Fold)
    read_only: bool | None = True
    checks_arguments: bool = True
    fold: _Fold = field(default_factory=_Fold)

    def with_tools(self, *tools: Tool | Callable[..., Any]) -> Self:
        """Put these tools behind it too. A function is a tool, with or without `@tool`."""
        return self._but(replace(self.fold, always=(*self.fold.always, *tools_of(*tools))))

    def with_tool_objects(self, *objects: object) -> Self:
        """Put the `@tool` methods of these objects behind it too."""
        return self._but(replace(self.fold, always=(*self.fold.always, *tools_of(*objects))))

    def with_category(self, name: str, *objects: object) -> Self:
        """Put these tools and objects behind it too. They appear for this category, and when none is named."""
        of_it = (*self.fold.categories.get(name, ()), *tools_of(*objects))
        return self._but(replace(self.fold, categories={**self.fold.categories, name: of_it}))

    def with_selector(self, select: Selector, *parameters: Parameter) -> Self:
        """Let a function choose the tools that appear, instead of categories.

        The function gets the arguments of the call, which these parameters describe, and all tools behind this one. It
        must choose the same tools for the same arguments. The model is told of an error that the function raises.
        Raises `DeclarationError` for two parameters of one name.
        """
        signature = listed_arguments(f"UnfoldingTool {self.name!r}", parameters)
        return self._but(replace(self.fold, selector=select, signature=signature))

    def with_exclusive(self, exclusive: bool = True) -> Self:  # noqa: FBT001, FBT002 - reads as a sentence
        """Withdraw all other tools when these appear, for the rest of the conversation; this one stays."""
        return self._but(replace(self.fold, exclusive=exclusive))

    def with_usage_notes(self, text: str) -> Self:
        """Tell the model this about the tools when they appear."""
        return self._but(replace(self.fold, notes=text))

    def _but(self, fold: _Fold) -> Self:
        return replace(self, fold=fold, handler=fold, input_schema=fold.schema)
