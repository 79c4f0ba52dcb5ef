"""Tool groups: an action asks for a role, such as `web`, and the deployment decides which tools fill it.

A group is data. Its permissions are declared for people to read; nothing here enforces them. Groups that come and go,
such as groups of other servers, are requested from a source at each look-up. The module also has the default group of
the core role `math`, which any group of that role replaces. User guide, section 3.9.2.
"""

import logging
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cache
from statistics import fmean
from typing import Annotated, Final, Protocol

from pydantic import Field

from goalport.base.errors import DeclarationError
from goalport.base.words import did_you_mean, listed, nearest, offer
from goalport.tools.definition import CALL_SITE, Approval, Tool, duplicate_names, tool, tools_of

_log = logging.getLogger(__name__)
_MOST_NAMED: Final = 10


class CoreToolGroups:
    """The roles that most agents ask for, with the descriptions of their default groups."""

    WEB: Final = "web"
    WEB_DESCRIPTION: Final = "Search the web, read pages, and look things up in Wikipedia"
    MAPS: Final = "maps"
    MAPS_DESCRIPTION: Final = "Find places, coordinates, distances and directions"
    BROWSER_AUTOMATION: Final = "browser_automation"
    BROWSER_AUTOMATION_DESCRIPTION: Final = "Open pages in a browser, look at them, fill forms and click"
    GITHUB: Final = "github"
    GITHUB_DESCRIPTION: Final = "Work with the issues and pull requests of GitHub"
    MATH: Final = "math"
    MATH_DESCRIPTION: Final = "Arithmetic, means and rounding"


class Permission(StrEnum):
    """What the tools of a group can access."""

    INTERNET_ACCESS = "internet_access"
    HOST_ACCESS = "host_access"


@dataclass(frozen=True)
class ToolGroup:
    """The tools that together fill a role."""

    role: str
    """The role that actions name to get the group."""
    tools: tuple[Tool, ...]
    description: str = ""
    name: str = ""
    """The name of this group, to tell it from other groups with the role; empty: the role is its name."""
    provider: str = ""
    version: str = "0.1.0"
    permissions: frozenset[Permission] = frozenset()
    approve: Approval = "never"
    """Which calls need a person's approval, for tools that have no rule of their own."""
    exports: bool = False
    """Whether the tools are published over MCP too."""
    is_default: bool = False
    """Whether any other group of the role replaces this one, without a warning."""

    def __post_init__(self) -> None:
        if not self.role.strip():
            raise DeclarationError(
                "ToolGroup",
                expected="a role that actions can ask for",
                came=f"it is {self.role!r}",
                fix='Give it a name: `ToolGroup.of("stock", …)`.',
            )
        given = tuple[object, ...](self.tools)
        if strange := [each for each in given if not isinstance(each, Tool)]:
            raise DeclarationError(
                f"ToolGroup {self.role!r}",
                expected="tools",
                came=f"there is {strange[0]!r}",
                fix=f"Write `ToolGroup.of({self.role!r}, …)`, which takes functions and objects too.",
            )
        # An unchanged tool stays the same object, so that publishing can reuse what it made for it.
        tools = (
            replace(each, approval=self.approve) if each.approval == "never" != self.approve else each
            for each in self.tools
        )
        object.__setattr__(self, "tools", tuple(tools))
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
        cls,
        role: str,
        *objects: object,
        description: str = "",
        permissions: Iterable[Permission] = (),
        approve: Approval = "never",
        exports: bool = False,
    ) -> "ToolGroup":
        """A group of functions, tools, tool objects and objects with `@tool` methods."""
        return cls(
            role,
            tools_of(*objects),
            description,
            permissions=frozenset(permissions),
            approve=approve,
            exports=exports,
        )


class Requirement(Protocol):
    """A requirement of a group: a `ToolGroupRequirement`, or the planner's fact that a requirement is met."""

    @property
    def role(self) -> str: ...
    @property
    def tools(self) -> Sequence[str]: ...


@dataclass(frozen=True)
class ToolGroupRequirement:
    """A group that an action needs, and the names of tools that must be in it."""

    role: str
    tools: tuple[str, ...] = ()


class ToolGroupSource(Protocol):
    """A source of groups that come and go."""

    def groups(self) -> Iterable[ToolGroup]:
        """The groups that can be used now, in order."""
        ...

    def absent(self) -> Mapping[str, tuple[Tool, ...]]:
        """The tools of this source's groups that cannot be called now, by role."""
        ...

    def why_missing(self, role: str, *, unasked: bool = True) -> str:
        """Why this source cannot fill a role, or only in part, in sentences without secrets; empty if nothing is wrong.

        With `unasked=False`, nothing is said of what the configuration disables, or of servers that only need a person
        to sign in at a call.
        """
        ...

    def sign_ins(self, role: str) -> Iterable[Tool]:
        """Tools that ask a person to sign in, so that a role's tools can be listed. Models are not offered them."""
        ...


class ToolGroupResolver:
    """Finds the group that fills a role: the first group that has the role.

    `groups` precede groups of `sources`, because the author of an agent has tested with groups written in code.
    Default groups come last. Sources are asked at each look-up.
    """

    def __init__(self, groups: Iterable[ToolGroup] = (), sources: Iterable[ToolGroupSource] = ()) -> None:
        self._given = tuple(groups)
        self._sources = tuple(sources)

    def _by_role(self) -> Mapping[str, Sequence[ToolGroup]]:
        """The current groups of each role; the first of them fills the role."""
        every = (*self._given, *(group for source in self._sources for group in source.groups()))
        found: dict[str, list[ToolGroup]] = {}
        for each in sorted(every, key=lambda group: group.is_default):
            found.setdefault(each.role, []).append(each)
        return found

    @property
    def groups(self) -> tuple[ToolGroup, ...]:
        """The groups that fill the roles now, one for each role."""
        return tuple(first for _, (first, *_) in sorted(self._by_role().items()))

    @property
    def clashes(self) -> tuple[str, ...]:
        """A sentence for each group that is not used because another group fills its role."""
        return tuple(
            f"Two tool groups play the role {role!r}: {first.name!r} is used, {each.name!r} is not. "
            "Give one of them another role."
            for role, (first, *others) in self._by_role().items()
            for each in others
            if not each.is_default
        )

    def find(self, role: str) -> ToolGroup | None:
        return next(iter(self._by_role().get(role, ())), None)

    def _sources_of(self, role: str) -> Iterator[ToolGroupSource]:
        """The sources that have the group that fills a role; all sources if no group fills it."""
        group = self.find(role)
        return (each for each in self._sources if group is None or group in each.groups())

    def absent(self, role: str) -> tuple[Tool, ...]:
        """The tools that cannot be called now, of the group that fills a role or would fill it."""
        return next((tools for each in self._sources_of(role) if (tools := each.absent().get(role))), ())

    def tools_of(self, roles: Iterable[str]) -> Iterator[tuple[str, Tool]]:
        """The tools of these roles that can be called now, each with its role.

        A tool that is absent for a while keeps its name: no tool of the same name in a later role replaces it.
        """
        kept: dict[str, str] = {}
        for role in roles:
            group = self.find(role)
            for each in group.tools if group else ():
                if each.name not in kept:
                    yield role, each
                else:
                    text = "The tool %r of the group %r is left out: its name is that of a tool of %r, which is absent."
                    _log.info(text, each.name, role, kept[each.name])
            kept |= {each.name: role for each in self.absent(role) if each.name not in kept}

    async def obtain(self, requirement: Requirement) -> None:
        """Ask the person behind the running action to sign in, if a requirement is not met otherwise.

        If nobody can be asked, nothing happens. Raises what the call site raises while it waits for an answer.
        """
        site = CALL_SITE.get()
        for each in self._sign_ins(requirement):
            if self.missing(requirement) is not None:
                result = await (each.run({}) if site is None else site.call_once(each))
                if result.is_error:
                    _log.info("The tool group %r stays without tools: %s", requirement.role, result.text)

    def _sign_ins(self, requirement: Requirement) -> tuple[Tool, ...]:
        """Tools that ask a person to sign in, after which the group of a requirement may have the missing tools."""
        role = requirement.role
        return tuple(tool for source in self._sources_of(role) for tool in source.sign_ins(role))

    def unmet(self, requirement: Requirement) -> str | None:
        """Why a requirement is not met, in a sentence; None if it is met, or may be once somebody has signed in."""
        why = self.missing(requirement)
        return None if why is not None and self._sign_ins(requirement) else why

    def missing(self, requirement: Requirement) -> str | None:
        """Why a requirement is not met at this moment, in a sentence; None when it is met."""
        role, group = requirement.role, self.find(requirement.role)
        if group is None:
            if why := self.why_missing(role):
                return f"The tool group {role!r} cannot be used now. {why}"
            roles = sorted(self._by_role())
            hint = did_you_mean(nearest(role, roles)) or (
                f"{offer(role, roles, none='There are no tool groups.')} "
                "Groups are ToolGroup values in tools/, and toolGroups in mcp_config.json."
            )
            return f"No tool group plays the role {role!r}. {hint}"
        has = sorted(tool.name for tool in group.tools)
        if not (missing := [name for name in requirement.tools if name not in has]):
            return None
        why = self.why_missing(role)
        why = why or f"It has {listed(has) or 'no tools'}: add the missing ones to the group, or require others."
        return f"The tool group {role!r} lacks {listed(missing)}. {why}"

    def why_unmet(self, requirement: Requirement) -> str:
        """Why a requirement is not met, by its group or a source; empty: it is met, or neither knows the role."""
        role = requirement.role
        return self.why_missing(role) if self.find(role) is None else self.missing(requirement) or ""

    def why_missing(self, role: str) -> str:
        """What sources say is wrong with a role, in sentences; empty when they report nothing."""
        return " ".join(filter(None, (each.why_missing(role) for each in self._sources)))

    def lacking(self, role: str) -> str:
        """Which tools of a role cannot be used now and why, in sentences for models and people; empty: all can be."""
        names = listed((each.name for each in self.absent(role)), _MOST_NAMED)
        if (missing := self.missing(ToolGroupRequirement(role))) is not None:
            return f"{missing} Its tools are {names}." if names else missing
        why = " ".join(filter(None, (each.why_missing(role, unasked=False) for each in self._sources_of(role))))
        return f"The tool group {role!r} lacks {names or 'a part of its tools'}. {why}" if names or why else ""


Numbers = Annotated[list[float], Field(description="The numbers.")]
_NOTHING = "There are no numbers. Call again with at least one."


@cache
def math_group() -> ToolGroup:
    """The default group of the role `math`; created once, because each platform has it."""
    return ToolGroup(
        CoreToolGroups.MATH,
        tools_of(_Arithmetic()),
        CoreToolGroups.MATH_DESCRIPTION,
        name="arithmetic",
        provider="goalport",
        is_default=True,
    )


class _Arithmetic:
    """Exact within floating point. Without a result, a sentence is returned, so that a model can correct its call."""

    @tool(title="Add", read_only=True, idempotent=True, open_world=False)
    def add(self, a: float, b: float) -> float:
        """Add two numbers and get their sum."""
        return a + b

    @tool(title="Subtract", read_only=True, idempotent=True, open_world=False)
    def subtract(self, a: float, b: float) -> float:
        """Subtract the second number from the first and get the difference."""
        return a - b

    @tool(title="Multiply", read_only=True, idempotent=True, open_world=False)
    def multiply(self, a: float, b: float) -> float:
        """Multiply two numbers and get their product."""
        return a * b

    @tool(title="Divide", read_only=True, idempotent=True, open_world=False)
    def divide(self, a: float, b: float) -> float | str:
        """Divide the first number by the second and get the quotient."""
        return a / b if b else "A number cannot be divided by zero. Call again with another divisor."

    @tool(title="Mean", read_only=True, idempotent=True, open_world=False)
    def mean(self, numbers: Numbers) -> float | str:
        """Get the arithmetic mean, also called the average, of numbers."""
        return fmean(numbers) if numbers else _NOTHING

    @tool(name="min", title="Smallest", read_only=True, idempotent=True, open_world=False)
    def smallest(self, numbers: Numbers) -> float | str:
        """Get the smallest of numbers."""
        return min(numbers, default=_NOTHING)

    @tool(name="max", title="Largest", read_only=True, idempotent=True, open_world=False)
    def largest(self, numbers: Numbers) -> float | str:
        """Get the largest of numbers."""
        return max(numbers, default=_NOTHING)

    @tool(title="Round down", read_only=True, idempotent=True, open_world=False)
    def floor(self, number: float) -> int:
        """Get the largest whole number that is not above a number."""
        return math.floor(number)

    @tool(title="Round up", read_only=True, idempotent=True, open_world=False)
    def ceiling(self, number: float) -> int:
        """Get the smallest whole number that is not below a number."""
        return math.ceil(number)

    @tool(name="round", title="Round", read_only=True, idempotent=True, open_world=False)
    def nearest(self, number: float) -> int:
        """Round a number to the nearest whole one; halves go to the even one."""
        return round(number)
