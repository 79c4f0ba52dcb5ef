"""The goals that are offered to clients: under which names, from which start types, and why some are not.

Reads the platform and decides; it makes no tools and knows no wire. `publication` is above it.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from goalport.domain import Agent, Goal
from goalport.platform import AgentPlatform
from goalport.serve.names import label, published_name, snake

__all__ = ["Offer", "Refusal", "offers_of"]


@dataclass(frozen=True, slots=True)
class Offer:
    """One tool to be: goals of one agent that share it, and what they start from."""

    name: str
    agent: Agent
    goals: tuple[Goal, ...]
    starts: tuple[object, ...]
    prompt: str
    """The name of the prompt that goes with it."""

    @property
    def owner(self) -> str:
        """What the tool stands for, in messages."""
        return " and ".join(f"goal {goal.name} of agent {self.agent.name}" for goal in self.goals)


@dataclass(frozen=True, slots=True)
class Refusal:
    """A goal, or one of its start types, that is not offered, and why."""

    goal: Goal
    agent: Agent
    reason: str


@dataclass(slots=True)
class _Group:
    """Goals of one agent with the same published name and the same output."""

    name: str
    agent: Agent
    goals: list[Goal] = field(default_factory=list[Goal])


def offers_of(platform: AgentPlatform) -> Iterator[Offer | Refusal]:
    """Every goal of every agent as offers or refusals, in the order of declaration."""
    for agent in platform.agents:
        for goal in agent.goals:
            if not goal.export.remote:
                yield Refusal(goal, agent, "it is not remote; Export(remote=True) publishes it")
        for group in _groups(agent):
            yield from _offers(platform, group)


def _groups(agent: Agent) -> list[_Group]:
    groups: dict[tuple[str, object], _Group] = {}
    for goal in agent.goals:
        if goal.export.remote:
            name = published_name(agent, goal)
            key = (name, repr(goal.output))
            groups.setdefault(key, _Group(name, agent)).goals.append(goal)
    return list(groups.values())


def _offers(platform: AgentPlatform, group: _Group) -> Iterator[Offer | Refusal]:
    ways: dict[tuple[object, ...], list[Goal]] = {}
    for goal in group.goals:
        for starts in _starts(platform, goal):
            reason = _unreachable(platform, goal, starts)
            if reason is None:
                ways.setdefault(starts, []).append(goal)
            else:
                yield Refusal(goal, group.agent, f"{_from(starts)}it cannot be reached. {reason}")
    for number, (starts, goals) in enumerate(ways.items()):
        declared = any(goal.export.starting_input_types for goal in goals)
        kind = "_".join(label(start) for start in starts)
        name = group.name if number == 0 else f"{group.name}_from_{snake(kind) or 'nothing'}"
        yield Offer(name, group.agent, tuple(goals), starts, f"{kind}_{group.name}" if declared else name)


def _starts(platform: AgentPlatform, goal: Goal) -> list[tuple[object, ...]]:
    """The sets of start types: each declared type is one, those that are derived are one together."""
    types: Sequence[object] = platform.starting_types(goal)
    if goal.export.starting_input_types:
        return [(kind,) for kind in dict.fromkeys(types)]
    return [tuple(types)]


def _unreachable(platform: AgentPlatform, goal: Goal, starts: tuple[object, ...]) -> str | None:
    explanation = platform.explain(goal, starts)
    return None if explanation.plan is not None else explanation.summary()


def _from(starts: tuple[object, ...]) -> str:
    return f"from {' and '.join(label(start) for start in starts)} " if starts else ""
