"""Asserting plans: which actions an agent would take from given types, without running anything."""

from collections.abc import Iterable, Sequence

from goalport.platform import AgentPlatform
from goalport.tools import ToolGroup

__all__ = ["plan_of"]


def plan_of(
    agent: object,
    given: Sequence[object],
    *,
    goal: str = "",
    components: Iterable[object] = (),
    tool_groups: Iterable[ToolGroup] = (),
    services: Iterable[object] = (),
) -> list[str]:
    """The names of the methods that lead from objects of the given types to a goal, in order.

    `assert plan_of(StarNewsFinder(…), given=[UserInput]) == ["extract_star_person", …]`. `goal` is needed when the
    agent has several. Conditions count as satisfiable: the plan is the one in which they turn out well. Raises
    `AssertionError`, with the reason, when there is no plan.
    """
    platform = AgentPlatform([agent, *components], tool_groups=tool_groups, services=services)
    found = platform.agents.goal(goal)[1] if goal else next(goal for _, goal in platform.agents.goals)
    explanation = platform.explain(found, given)
    if explanation.plan is None:
        raise AssertionError(explanation.text())
    return [step.action.rpartition(".")[2] for step in explanation.plan.steps]
