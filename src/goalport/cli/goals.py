"""Finds the goal that a command line names, by tool name, full name or method name, and the types it can start from.

Below the commands of this room; platform and publish are below it.
"""

from dataclasses import dataclass

from goalport.domain import Agent, Goal
from goalport.errors import UnknownName
from goalport.platform import AgentPlatform
from goalport.publish.goal_tools import Offer, offers_of

Starts = tuple[object, ...]
"""The types that together start a goal."""


@dataclass(frozen=True)
class GoalChoice:
    """A goal of an agent, or several goals that are published as one."""

    agent: Agent
    goals: tuple[Goal, ...]
    starts: tuple[Starts, ...]
    """The alternative sets of start types, the usual one first."""


def find_goal(platform: AgentPlatform, name: str) -> GoalChoice:
    """The goal of that name. Raises `UnknownName` with the names that exist."""
    offers = [each for each in offers_of(platform) if isinstance(each, Offer)]
    for offer in offers:
        if offer.name == name:
            ways = [each.starts for each in offers if each.name == name or _is_another_way(each, offer)]
            return GoalChoice(offer.agent, offer.goals, tuple(ways))
    return _unpublished(platform, name, offers)


def _is_another_way(offer: Offer, first: Offer) -> bool:
    return offer.agent is first.agent and offer.goals == first.goals and offer.name.startswith(f"{first.name}_from_")


def _unpublished(platform: AgentPlatform, name: str, offers: list[Offer]) -> GoalChoice:
    try:
        agent, goal = platform.agents.goal(name)
    except UnknownName:
        published = {goal.name for offer in offers for goal in offer.goals}
        others = [goal.name for _, goal in platform.agents.goals if goal.name not in published]
        raise UnknownName("goal", name, [*(offer.name for offer in offers), *others]) from None
    types = platform.starting_types(goal)
    return GoalChoice(
        agent, (goal,), tuple((each,) for each in types) if goal.export.starting_input_types else (types,)
    )
