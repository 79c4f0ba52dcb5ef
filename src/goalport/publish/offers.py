"""Which goals are published as tools: under which names, from which start types, and why others are not.

This module reads the platform and decides; it makes no tools. `publication` is above.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from goalport.domain import Agent, Goal
from goalport.platform import AgentPlatform
from goalport.publish.faults import Fault, read_or_fault
from goalport.publish.names import published_name, snake_identifier
from goalport.words import type_label, type_name

__all__ = ["Broken", "Offer", "Refusal", "offers_of"]


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool to publish: the goals of one agent that share it, and their start types."""

    name: str
    agent: Agent
    goals: tuple[Goal, ...]
    starts: tuple[object, ...]
    prompt: str
    """The name of the prompt that goes with it."""
    apart: str
    """The beginning of its description, which tells it from other tools of its goals; empty if there are none."""

    @property
    def owner(self) -> str:
        """The goals and the agent of the tool, for messages."""
        return " and ".join(f"goal {goal.name} of agent {self.agent.name}" for goal in self.goals)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A goal that is not published, at all or from one of its start types, and why."""

    goal: Goal
    agent: Agent
    reason: str


@dataclass(frozen=True, slots=True)
class _StartingPoint:
    """One set of types that a goal can be started from."""

    goal: Goal
    group: tuple[str, str]
    """The published name and the output type: goals of one agent that share both become one tool."""
    starts: tuple[object, ...]
    kind: str
    """The start types as part of a name."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A goal whose export or types cannot be read, and why."""

    goal: Goal
    agent: Agent
    reason: str


def offers_of(platform: AgentPlatform) -> Iterator[Offer | Refusal | Broken]:
    """The offers, refusals and broken goals for every goal of every agent, in the order of declaration."""
    for agent in platform.agents:
        groups: dict[tuple[str, str], list[_StartingPoint]] = {}
        for goal in agent.goals:
            match read_or_fault(partial(_ways, platform, agent, goal)):
                case Fault(reason):
                    yield Broken(goal, agent, reason)
                case ways:
                    yield from (each for each in ways if isinstance(each, Refusal))
                    for way in (each for each in ways if isinstance(each, _StartingPoint)):
                        groups.setdefault(way.group, []).append(way)
        for ways in groups.values():
            yield from _offers(agent, ways)


def _ways(platform: AgentPlatform, agent: Agent, goal: Goal) -> list[_StartingPoint | Refusal]:
    """The starting points of a goal, and a refusal for each that does not work. Raises what the goal's types raise."""
    if not goal.export.remote:
        return [Refusal(goal, agent, "it is not remote; Export(remote=True) publishes it")]
    name = published_name(agent, goal)
    ways: list[_StartingPoint | Refusal] = []
    for starts in _starts(platform, goal):
        reason = _unreachable(platform, goal, starts)
        if reason is None:
            hash(starts)
            kind = "_".join(map(type_label, starts))
            ways.append(_StartingPoint(goal, (name, repr(goal.output)), starts, kind))
        else:
            ways.append(Refusal(goal, agent, f"{_from(starts)}it cannot be reached. {reason}"))
    return ways


def _offers(agent: Agent, ways: Sequence[_StartingPoint]) -> Iterator[Offer]:
    together: dict[tuple[object, ...], list[_StartingPoint]] = {}
    for way in ways:
        together.setdefault(way.starts, []).append(way)
    for number, same in enumerate(together.values()):
        name, kind = same[0].group[0], same[0].kind
        goals = tuple(way.goal for way in same)
        declared = any(goal.export.starting_input_types for goal in goals)
        own = name if number == 0 else f"{name}_from_{snake_identifier(kind) or 'nothing'}"
        apart = f"From {' and '.join(map(type_name, same[0].starts)) or 'nothing'}: " if len(together) > 1 else ""
        prompt = f"{kind}_{name}" if declared else own
        yield Offer(own, agent, goals, same[0].starts, prompt, apart)


def _starts(platform: AgentPlatform, goal: Goal) -> list[tuple[object, ...]]:
    """The sets of start types: each declared type is a set of its own; derived types form one set together."""
    types: Sequence[object] = platform.starting_types(goal)
    if goal.export.starting_input_types:
        return [(kind,) for kind in dict.fromkeys(types)]
    return [tuple(types)]


def _unreachable(platform: AgentPlatform, goal: Goal, starts: tuple[object, ...]) -> str | None:
    """Why a goal cannot be reached from these types; None if it can, or if only tool groups are missing."""
    explanation = platform.explain(goal, starts)
    if explanation.plan is not None or explanation.lacks_only_groups:
        return None
    return " ".join([explanation.summary(), *explanation.notes])


def _from(starts: tuple[object, ...]) -> str:
    return f"from {' and '.join(map(type_name, starts))} " if starts else ""
