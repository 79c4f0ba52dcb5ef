"""The tools of exported groups: which are published, under which names, and which cannot be called at present.

A name that a tool of this server has is never given to a tool of a group. Of two groups that claim a name, the one
that had it before keeps it, even while its tool cannot be called. `publication` is above.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from goalport.platform import AgentPlatform
from goalport.publish.faults import Fault, read_or_fault
from goalport.publish.function_tool import FunctionTool
from goalport.publish.names import fault_of
from goalport.tools import Tool

__all__ = ["GroupTools", "PublishedGroups", "exported_groups", "publish_groups"]


@dataclass(frozen=True, slots=True)
class GroupTools:
    """The tools of one exported group at one moment."""

    present: tuple[Tool, ...] = ()
    absent: tuple[Tool, ...] = ()
    """Tools that belong to the group and cannot be called now."""


@dataclass(frozen=True, slots=True)
class PublishedGroups:
    """Which tools of exported groups are published, which are absent, and which could not be published."""

    groups: Mapping[str, GroupTools]
    """The tools from which this was made, by the role of their group."""
    present: dict[str, FunctionTool] = field(default_factory=dict[str, FunctionTool])
    absent: dict[str, FunctionTool] = field(default_factory=dict[str, FunctionTool])
    """Not listed, as the server is down or the tool is not trusted; a call of one is answered with that reason."""
    roles: dict[str, str] = field(default_factory=dict[str, str])
    """The role of the group that each name belongs to, even while its tool is absent."""
    problems: list[str] = field(default_factory=list[str])
    """Tools that are not published, and why."""

    def known(self, name: str, tool: Tool) -> FunctionTool | None:
        """What was published under this name for this same tool object; None if nothing was."""
        found = self.present.get(name) or self.absent.get(name)
        return found if found is not None and found.exported is tool else None


@dataclass(frozen=True, slots=True)
class _Claim:
    """A tool of a group that claims its name."""

    role: str
    tool: Tool
    is_absent: bool

    @property
    def owner(self) -> str:
        return f"the tool {self.tool.name} of the tool group {self.role}"


def exported_groups(platform: AgentPlatform) -> Mapping[str, GroupTools]:
    """The current tools of the groups that are exported, by role."""
    found = {each.role: GroupTools(each.tools) for each in platform.groups.groups if each.exports}
    for role, config in platform.upstream.groups.config.items():
        if config.exports and (absent := platform.groups.absent(role)):
            found[role] = GroupTools(found[role].present if role in found else (), absent)
    return dict(sorted(found.items()))


def publish_groups(
    groups: Mapping[str, GroupTools], taken: Mapping[str, str], before: PublishedGroups | None
) -> PublishedGroups:
    """Publish tools of groups under names that are not in `taken` (name to owner); reuse unchanged ones of `before`."""
    made = PublishedGroups(groups)
    roles = before.roles if before else {}
    for name, claims in _claims(groups).items():
        winner = next((each for each in claims if each.role == roles.get(name)), claims[0])
        owner = taken.get(name)
        for each in claims:
            if fault := _unfit(each.tool, owner or (None if each is winner else winner.owner)):
                made.problems.append(_problem(each, fault))
        if owner is None and _unfit(winner.tool, None) is None:
            _add(made, winner, before)
    return made


def _claims(groups: Mapping[str, GroupTools]) -> Mapping[str, Sequence[_Claim]]:
    found: dict[str, list[_Claim]] = {}
    for each in _each(groups):
        found.setdefault(each.tool.name, []).append(each)
    return found


def _each(groups: Mapping[str, GroupTools]) -> Iterator[_Claim]:
    for role, tools in groups.items():
        yield from (_Claim(role, each, is_absent=False) for each in tools.present)
        yield from (_Claim(role, each, is_absent=True) for each in tools.absent)


def _unfit(tool: Tool, owner: str | None) -> str | None:
    if owner is not None:
        return f"{owner} is called so too. Rename it in the naming of its group."
    if tool.may_ask:
        return "a person may have to be asked for its calls, which only a process can do, and a client's call has none."
    return fault_of(tool.name)


def _add(made: PublishedGroups, claim: _Claim, before: PublishedGroups | None) -> None:
    name = claim.tool.name
    known = before.known(name, claim.tool) if before else None
    match known or read_or_fault(partial(FunctionTool.of, claim.tool)):
        case Fault(reason):
            made.problems.append(_problem(claim, reason))
        case published:
            made.roles[name] = claim.role
            (made.absent if claim.is_absent else made.present)[name] = published


def _problem(claim: _Claim, reason: str) -> str:
    return f"T{claim.owner[1:]} is not published: {reason}"
