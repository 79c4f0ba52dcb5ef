"""Tool objects: objects whose `@tool` methods are tools, with a naming and a filter.

This module makes tools of objects; it does not offer them to models and does not publish them.
"""

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, cast

from goalport.base.errors import DeclarationError
from goalport.tools.definition import Tool
from goalport.tools.naming import Naming, composed, identity, prefixed


def everything(_: str) -> bool:
    """The filter that keeps every tool."""
    return True


@dataclass(frozen=True, init=False)
class ToolObject:
    """Tools of one or more objects: `ToolObject(Calculator(), naming=prefixed("calc_"), filter=lambda name: …)`.

    An object is anything with `@tool` methods, a function, a tool, or another tool object. The filter sees the original
    names of the tools; the naming is applied to the tools that it keeps, after the namings of inner tool objects.
    """

    objects: tuple[object, ...]
    naming: Naming
    filter: Callable[[str], bool]

    def __init__(
        self,
        *objects: object,
        naming: Naming = identity,
        filter: Callable[[str], bool] = everything,
    ) -> None:
        for each in objects:
            _refuse_collection(each)
        object.__setattr__(self, "objects", objects)
        object.__setattr__(self, "naming", naming)
        object.__setattr__(self, "filter", filter)

    def tools(self) -> tuple[Tool, ...]:
        """The tools, in source order; of several with one name only the first."""
        return distinct(each.tool for each in self.named())

    def named(self) -> "tuple[NamedTool, ...]":
        """The tools with their original names, including those whose names clash."""
        kept = (each for inner in self.objects for each in _named(inner) if self.filter(each.own_name))
        return tuple(each.renamed(self.naming) for each in kept)

    def duplicates(self) -> tuple[str, ...]:
        """The names that more than one tool has, so that the author can choose another naming."""
        return duplicate_names(each.tool for each in self.named())

    def with_prefix(self, prefix: str) -> "ToolObject":
        """A copy that puts `prefix` in front of all names, after the naming is applied."""
        return self.with_naming(prefixed(prefix))

    def with_naming(self, naming: Naming) -> "ToolObject":
        """A copy with one more naming, applied after the existing ones."""
        return ToolObject(*self.objects, naming=composed(self.naming, naming), filter=self.filter)

    def with_filter(self, keep: Callable[[str], bool]) -> "ToolObject":
        """A copy with one more filter: it keeps the tools whose original names pass both."""
        before = self.filter
        return ToolObject(*self.objects, naming=self.naming, filter=lambda name: before(name) and keep(name))


@dataclass(frozen=True, slots=True)
class NamedTool:
    """A tool, and its original name."""

    own_name: str
    tool: Tool

    def renamed(self, naming: Naming) -> "NamedTool":
        return NamedTool(self.own_name, self.tool.with_name(naming(self.tool.name)))


def tools_of(*objects: object) -> tuple[Tool, ...]:
    """The tools of functions, tool objects, tools and objects with `@tool` methods, in order."""
    return tuple(found for each in objects for found in _tools_of_one(each))


def distinct(tools: Iterable[Tool]) -> tuple[Tool, ...]:
    """The tools without those whose name an earlier one has."""
    found: dict[str, Tool] = {}
    for each in tools:
        found.setdefault(each.name, each)
    return tuple(found.values())


def duplicate_names(tools: Iterable[Tool]) -> tuple[str, ...]:
    """The names that more than one of the tools has."""
    counts = Counter(each.name for each in tools)
    return tuple(name for name, count in counts.items() if count > 1)


def _named(value: object) -> tuple[NamedTool, ...]:
    if isinstance(value, ToolObject):
        return value.named()
    return tuple(NamedTool(each.name, each) for each in _tools_of_one(value))


def _tools_of_one(value: object) -> tuple[Tool, ...]:
    if isinstance(value, Tool):
        return (value,)
    if isinstance(value, ToolObject):
        return value.tools()
    if inspect.isroutine(value) or isinstance(value, functools.partial):
        return (Tool.of(cast("Callable[..., Any]", value)),)
    _refuse_collection(value)
    return Tool.from_instance(value)


def _refuse_collection(value: object) -> None:
    """Refuse a list of objects where one object is expected; an iterable object that has tools is accepted."""
    if isinstance(value, type | Tool | ToolObject) or not hasattr(type(value), "__iter__"):
        return
    if Tool.safely_from_instance(value):
        return
    raise DeclarationError(
        "ToolObject",
        expected="objects with @tool methods, one by one",
        came=f"there is a {type(value).__name__} of them",
        fix="Unpack it: `ToolObject(*objects)`.",
    )
