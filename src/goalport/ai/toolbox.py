"""Which tools a model is offered for one request: of groups, of references and those given, under names of their own.

What plays a role is looked up at each request. Above: `loop`; it calls nothing.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from typing import Final

from goalport.ai.interaction import Interaction
from goalport.errors import DeclarationError
from goalport.llm import ToolSpec
from goalport.tools import Tool, ToolGroupRequirement, ToolGroupResolver, reference_prefix
from goalport.tools.functions import FunctionHandler
from goalport.words import did_you_mean, listed, nearest

__all__ = ["Toolbox", "toolbox"]

_log = logging.getLogger(__name__)
_WORD = re.compile(r"[A-Za-z0-9]{4,}")
_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 64
_ALIKE: Final = 0.25
"""The share of words that two names must have in common to be taken for alike."""
_DIGITS: Final = 8
_MOST_OFFERED: Final = 3


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of one request, by the names that the model sees: those that every provider takes."""

    tools: Mapping[str, Tool]

    @property
    def specs(self) -> tuple[ToolSpec, ...]:
        """The tools as a model sees them."""
        return tuple(ToolSpec(name, each.description, each.input_schema) for name, each in self.tools.items())

    def plus(self, origin: str, tools: Iterable[Tool]) -> "tuple[Toolbox, list[tuple[str, str]]]":
        """These tools too, and which of them got another name: their own is taken, and begins with the origin's now."""
        every = dict(self.tools)
        renamed: list[tuple[str, str]] = []
        for tool in tools:
            name = next(each for each in _names(origin, tool) if each not in every or _same(every[each], tool))
            every[name] = tool
            if name != tool.name:
                renamed.append((tool.name, name))
        return Toolbox(every), renamed

    def correction(self, name: str) -> str:
        """What a model is told that called a tool which is not there."""
        near = _near(name, self.tools)
        if near:
            return f"There is no tool {name!r}. {did_you_mean(near)}"
        if not self.tools:
            return f"There is no tool {name!r}, nor any other. Answer without one."
        return f"There is no tool {name!r}. Known: {listed(self.tools)}."


def toolbox(interaction: Interaction, groups: ToolGroupResolver) -> Toolbox:
    """The tools that an interaction names, found now. Raises `DeclarationError` for two of one name."""
    found: dict[str, tuple[str, Tool]] = {}
    for origin, tool in _offered(interaction, groups):
        name = _portable(tool.name)
        first, before = found.setdefault(name, (origin, tool))
        if not _same(before, tool):
            raise _clash(name, first, origin)
    return Toolbox({name: tool for name, (_, tool) in found.items()})


def _offered(interaction: Interaction, groups: ToolGroupResolver) -> Iterator[tuple[str, Tool]]:
    """Each tool, and in words where it is from."""
    for role in interaction.tool_groups:
        if groups.find(role) is None:
            _log.warning("%s Its tools are not offered.", groups.unmet(ToolGroupRequirement(role)))
    for role, tool in groups.tools_of(interaction.tool_groups):
        yield f"the tool group {role!r}", tool
    for reference in interaction.references:
        prefix = reference_prefix(reference.name)
        for tool in reference.tools():
            yield f"the reference {reference.name!r}", tool.with_name(f"{prefix}{tool.name}")
    for tool in interaction.tools:
        yield "those given with `with_tools` or `with_tool_objects`", tool


def _portable(name: str) -> str:
    """A name as every provider takes it."""
    return _NOT_PORTABLE.sub("_", name)[:_LONGEST]


def _names(origin: str, tool: Tool) -> Iterator[str]:
    """The names that a tool may have, each different, the best first."""
    yield _portable(tool.name)
    yield (longer := _portable(f"{origin}_{tool.name}"))
    yield from (f"{longer[: _LONGEST - _DIGITS]}_{number}" for number in count(2))


def _same(first: Tool, second: Tool) -> bool:
    """Whether two tools were made of the same function of the same object."""
    ours, theirs = first.handler, second.handler
    if isinstance(ours, FunctionHandler) and isinstance(theirs, FunctionHandler):
        return ours.function == theirs.function
    return ours is theirs


def _clash(name: str, first: str, second: str) -> DeclarationError:
    where = f"of {first}, and one of {second}" if first != second else f"of {first}, from different objects"
    return DeclarationError(
        "The tools for a model",
        expected="tools with different names",
        came=f"two are called {name!r}: one {where}",
        fix="Rename one: `ToolObject(thing, naming=prefixed('thing_'))`, or `tool.with_name('…')`.",
    )


def _near(name: str, names: Iterable[str]) -> list[str]:
    """The names that a model most probably meant: with its word in them, with words in common, or spelled alike."""
    known = list(names)
    wanted = name.lower()
    alike = [each for each in known if each.lower().endswith(wanted) or wanted.endswith(each.lower())]
    alike += [each for each in known if wanted and (wanted in each.lower() or each.lower() in wanted)]
    alike += [each for each in known if _overlap(wanted, each.lower()) >= _ALIKE]
    alike += nearest(name, known)
    return list(dict.fromkeys(alike))[:_MOST_OFFERED]


def _overlap(first: str, second: str) -> float:
    ours, theirs = set(_WORD.findall(first)), set(_WORD.findall(second))
    return len(ours & theirs) / len(ours | theirs) if ours and theirs else 0.0
