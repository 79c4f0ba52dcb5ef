"""The names of published tools: how they are made from agents, goals and start types, and which names are valid.

Pure functions over texts; `publication` and `goal_tool` are above.
"""

import re
from typing import Final

from goalport.domain import Agent, Goal
from goalport.tools import snake

__all__ = ["LONG", "LONGEST", "fault_of", "published_name", "snake_identifier"]

LONGEST: Final = 64
"""The most characters of a name: model APIs refuse longer ones."""
LONG: Final = 48
"""The most characters of a safe name: hosts that prefix the server's name drop tools with longer ones."""

_ALLOWED: Final = re.compile(r"[A-Za-z0-9_-]+")
_NOT_PORTABLE: Final = re.compile(r"[^a-z0-9]+")


def snake_identifier(text: str) -> str:
    """`StarNewsFinder` as `star_news_finder`; characters that a name may not have become underscores."""
    return _NOT_PORTABLE.sub("_", snake(text)).strip("_")


def published_name(agent: Agent, goal: Goal) -> str:
    """The name under which a goal is published, for the first of its sets of start types."""
    return goal.export.name or f"{snake_identifier(agent.name)}_{snake_identifier(goal.short_name)}"


def fault_of(name: str) -> str | None:
    """Why a tool may not have this name; None if it may."""
    if not name:
        return "it is empty"
    if len(name) > LONGEST:
        return f"it has {len(name)} characters and model APIs take {LONGEST}"
    if not _ALLOWED.fullmatch(name):
        strange = sorted({letter for letter in name if not _ALLOWED.fullmatch(letter)})
        return f"it holds {' '.join(map(repr, strange))}; letters, digits, _ and - are allowed"
    return None
