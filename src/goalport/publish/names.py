"""How published things are called: tool names from agents, goals and start types, and what a name may be.

Pure text; it knows no tools. `publication` and `goal_tool` are above it.
"""

import re
from typing import Final

from goalport.domain import Agent, Goal

__all__ = ["LONG", "LONGEST", "fault_of", "published_name", "snake"]

LONGEST: Final = 64
"""No name may be longer: model APIs refuse it."""
LONG: Final = 48
"""Beyond this, hosts that prefix the server's name begin to drop tools."""

_ALLOWED: Final = re.compile(r"[A-Za-z0-9_-]+")
_BOUNDARY: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")


def snake(text: str) -> str:
    """`StarNewsFinder` as `star_news_finder`; what no name may hold becomes an underscore."""
    words = _BOUNDARY.sub("_", text)
    return re.sub(r"[^a-z0-9]+", "_", words.lower()).strip("_")


def published_name(agent: Agent, goal: Goal) -> str:
    """What a goal is offered as, from the first of its start types."""
    return goal.export.name or f"{snake(agent.name)}_{snake(goal.short_name)}"


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
