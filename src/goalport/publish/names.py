"""How published things are called: tool names from agents, goals and start types, and what a name may be.

Pure text; it knows no tools. `publication` and `goal_tool` are above it.
"""

import re
from typing import Final

from goalport.domain import Agent, Goal
from goalport.tools import snake

__all__ = ["LONG", "LONGEST", "fault_of", "published_name", "snake_identifier"]

LONGEST: Final = 64
"""No name may be longer: model APIs refuse it."""
LONG: Final = 48
"""Beyond this, hosts that prefix the server's name begin to drop tools."""

_ALLOWED: Final = re.compile(r"[A-Za-z0-9_-]+")
_NOT_PORTABLE: Final = re.compile(r"[^a-z0-9]+")


def snake_identifier(text: str) -> str:
    """`StarNewsFinder` as `star_news_finder`; what no name may hold becomes an underscore."""
    return _NOT_PORTABLE.sub("_", snake(text)).strip("_")


def published_name(agent: Agent, goal: Goal) -> str:
    """What a goal is offered as, from the first of its start types."""
    return goal.export.name or f"{snake_identifier(agent.name)}_{snake_identifier(goal.short_name)}"


def fault_of(name: str) -> str | None:
    """Why a tool may not bear this name; None when it may."""
    if not name:
        return "it is empty"
    if len(name) > LONGEST:
        return f"it has {len(name)} characters and model APIs take {LONGEST}"
    if not _ALLOWED.fullmatch(name):
        strange = sorted({letter for letter in name if not _ALLOWED.fullmatch(letter)})
        return f"it holds {' '.join(map(repr, strange))}; letters, digits, _ and - are allowed"
    return None
