"""Tool groups: an action asks for a role, `web`, and whoever deploys decides which tools play it.

A group is data. What its permissions allow is declared for people to read; nothing here enforces it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Protocol

from goalport.errors import DeclarationError
from goalport.tools.definition import Tool
from goalport.tools.objects import duplicate_names, tools_of

__all__ = ["Permission", "ToolGroup", "ToolGroupRequirement", "ToolGroupResolver"]


class Permission(StrEnum):
    """What the tools of a group may reach."""

    INTERNET_ACCESS = "internet_access"
    HOST_ACCESS = "host_access"


@dataclass(frozen=True)
class ToolGroup:
    """Tools that together play a role."""

    role: str
    """What actions ask for."""
    tools: tuple[Tool, ...]
    description: str = ""
    name: str = ""
    """What this group is called among others that could play the role; the role where it has no name."""
    provider: str = ""
    version: str = "0.1.0"
    permissions: frozenset[Permission] = frozenset()

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", _only_tools(self.role, self.tools))
        object.__setattr__(self, "permissions", frozenset(self.permissions))
        object.__setattr__(self, "name", self.name or self.role)
        if clashes := duplicate_names(self.tools):
            raise DeclarationError(
                f"ToolGroup {self.role!r}",
                expected="tools with different names",
                came=f"there are several called {', '.join(clashes)}",
                fix="Rename them: `tools_of(ToolObject(first), ToolObject(second, naming=prefixed('second_')))`.",
            )

    @classmethod
    def of(
        cls, role: str, *objects: object, description: str = "", permissions: Iterable[Permission] = ()
    ) -> "ToolGroup":
        """A group of functions, tools, tool objects and objects with `@tool` methods."""
        return cls(role, tools_of(*objects), description, permissions=frozenset(permissions))


class Requirement(Protocol):
    """What asks for a group: a `ToolGroupRequirement`, or the planner's fact that one is met."""

    @property
    def role(self) -> str: ...
    @property
    def tools(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class ToolGroupRequirement:
    """A group that an action cannot do without, and tools that must be in it."""

    role: str
    tools: tuple[str, ...] = ()


class ToolGroupResolver:
    """Finds the group that plays a role. The first group of a role plays it."""

    def __init__(self, groups: Iterable[ToolGroup] = ()) -> None:
        given = tuple(groups)
        self._groups: Mapping[str, ToolGroup] = {each.role: each for each in reversed(given)}
        passed_over = [each for each in given if self._groups[each.role] is not each]
        self.clashes = tuple(_clash(each, self._groups[each.role]) for each in passed_over)
        """A sentence for each group whose role another one plays already."""

    @property
    def groups(self) -> tuple[ToolGroup, ...]:
        """The groups that play a role, by role."""
        return tuple(self._groups[role] for role in sorted(self._groups))

    def find(self, role: str) -> ToolGroup | None:
        return self._groups.get(role)

    def unmet(self, requirement: Requirement) -> str | None:
        """Why a requirement does not hold, in a sentence; None: it holds."""
        group = self.find(requirement.role)
        if group is None:
            return f"No tool group plays the role {requirement.role!r}. {self._offer(requirement.role)}"
        has = [tool.name for tool in group.tools]
        missing = [name for name in requirement.tools if name not in has]
        if not missing:
            return None
        return (
            f"The tool group {requirement.role!r} lacks {_and(missing)}. It has {_and(sorted(has)) or 'no tools'}: "
            "add the missing ones to the group, or require others."
        )

    def _offer(self, role: str) -> str:
        roles = sorted(self._groups)
        if near := get_close_matches(role, roles, n=1):
            return f"Did you mean {near[0]!r}?"
        known = f"The roles are {_and(roles)}." if roles else "There are no tool groups."
        return f"{known} Groups are ToolGroup values in tools/."


def _only_tools(role: str, tools: Iterable[object]) -> tuple[Tool, ...]:
    given = tuple(tools)
    strange = [each for each in given if not isinstance(each, Tool)]
    if strange:
        raise DeclarationError(
            f"ToolGroup {role!r}",
            expected="tools",
            came=f"there is {strange[0]!r}",
            fix=f"Write `ToolGroup.of({role!r}, …)`, which takes functions and objects too.",
        )
    return tuple(each for each in given if isinstance(each, Tool))


def _clash(passed_over: ToolGroup, playing: ToolGroup) -> str:
    return (
        f"Two tool groups play the role {playing.role!r}: {playing.name!r} is used, {passed_over.name!r} is not. "
        "Give one of them another role."
    )


def _and(names: Iterable[str]) -> str:
    return ", ".join(names)
