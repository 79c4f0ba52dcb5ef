"""The rules of `rules.toml`, read once and checked, and what they make of a ticket: its route, and how urgent it is.

Weighing is pure and says its reasons. What is then done with a ticket is in `handling`.
"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Literal, Self, get_args

from pydantic import BaseModel, ConfigDict, Field, model_validator

from .ticket import PRIORITIES, Priority, Ticket, Tier

__all__ = ["Article", "Finding", "Route", "Rules", "Urgency"]

RULES = Path(__file__).with_name("rules.toml")
_TIERS: set[str] = set(get_args(Tier))


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class Route(_Part):
    """Where tickets of one kind go, and which phrases speak for it."""

    name: str
    handling: Literal["escalate", "investigate", "account", "answer"]
    queue: str
    priority: Priority
    reply: str
    phrases: dict[str, float] = Field(default_factory=dict)


class Article(_Part):
    """Something that may answer a question."""

    title: str
    url: str
    words: tuple[str, ...]


class TierRule(_Part):
    """What a customer's tier changes."""

    hours_factor: float = Field(gt=0)
    priority: int = 0


class Phrases(_Part):
    """Phrases that count alike."""

    phrases: tuple[str, ...]


@dataclass(frozen=True)
class Finding:
    """The route that a ticket takes, and why."""

    route: Route
    reason: str


@dataclass(frozen=True)
class Urgency:
    """By how many steps a ticket is more urgent than others of its route, and why."""

    steps: int
    reason: str


class Rules(_Part):
    """Everything in the file."""

    least_score: float
    otherwise: str
    hours: dict[Priority, float]
    tiers: dict[Tier, TierRule]
    urgent: Phrases
    routes: tuple[Route, ...] = Field(alias="route")
    articles: tuple[Article, ...] = Field((), alias="article")

    @classmethod
    def read(cls, path: Path = RULES) -> Self:
        """The rules of a file. Raises `ValueError` that names the file and what is wrong in it."""
        try:
            return cls.model_validate(tomllib.loads(path.read_text(encoding="utf-8")))
        except ValueError as error:
            raise ValueError(f"The rules in {path} need correcting: {error}") from None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        names = [route.name for route in self.routes]
        if self.otherwise not in names:
            raise ValueError(f"otherwise = {self.otherwise!r} names no route. Routes: {', '.join(names)}.")
        if len(set(names)) < len(names):
            raise ValueError(f"Each route needs a name of its own, but they are: {', '.join(names)}.")
        for what, wanted, given in (("hours", set(PRIORITIES), self.hours), ("tiers", _TIERS, self.tiers)):
            if wanted - given.keys():
                raise ValueError(f"{what} says nothing of {', '.join(sorted(wanted - given.keys()))}.")
        return self

    def route(self, ticket: Ticket) -> Finding:
        """The route with the highest score; of equal ones the first."""
        scores = {each.name: _weigh(each.phrases, ticket) for each in self.routes}
        best = max(self.routes, key=lambda each: scores[each.name].total)
        score = scores[best.name]
        if score.total < self.least_score:
            fallback = next(each for each in self.routes if each.name == self.otherwise)
            return Finding(fallback, f"No rule speaks for another route, so it is taken as {fallback.name}.")
        rest = [f"{name} {each.total:g}" for name, each in scores.items() if each.total and name != best.name]
        others = f" Others: {', '.join(rest)}." if rest else ""
        return Finding(best, f"{best.name} has the highest score, {score.total:g}: {score.told}.{others}")

    def urgency(self, ticket: Ticket) -> Urgency:
        """How urgent the ticket is beside its route."""
        score = _weigh(dict.fromkeys(self.urgent.phrases, 1.0), ticket)
        tier = self.tiers[ticket.tier].priority
        reasons = [f"one step up for {', '.join(score.found)}"] if score.total else []
        reasons += [f"{tier:+d} for the tier {ticket.tier}"] if tier else []
        return Urgency(bool(score.total) + tier, "; ".join(reasons))

    def priority(self, route: Route, urgency: Urgency) -> Priority:
        """The route's priority, so many steps up or down."""
        place = PRIORITIES.index(route.priority) + urgency.steps
        return PRIORITIES[max(0, min(place, len(PRIORITIES) - 1))]

    def reply_within(self, priority: Priority, tier: Tier) -> float:
        """Hours until the first reply."""
        return self.hours[priority] * self.tiers[tier].hours_factor

    def articles_for(self, ticket: Ticket) -> list[Article]:
        """The articles whose words occur, the one with the most first."""
        found = [(len(_weigh(dict.fromkeys(each.words, 1.0), ticket).found), each) for each in self.articles]
        return [each for count, each in sorted(found, key=lambda pair: -pair[0]) if count]


@dataclass(frozen=True)
class _Score:
    found: Mapping[str, float]

    @property
    def total(self) -> float:
        return sum(self.found.values())

    @property
    def told(self) -> str:
        return ", ".join(f"{where} ({weight:g})" for where, weight in self.found.items())


def _weigh(phrases: Mapping[str, float], ticket: Ticket) -> _Score:
    found: dict[str, float] = {}
    for phrase, weight in phrases.items():
        pattern = _pattern(phrase)
        if pattern.search(ticket.subject):
            found[f"«{phrase}» in the subject"] = 2 * weight
        elif pattern.search(ticket.body):
            found[f"«{phrase}»"] = weight
    return _Score(found)


@cache
def _pattern(phrase: str) -> re.Pattern[str]:
    words = r"\s+".join(_word(word) for word in phrase.split())
    return re.compile(rf"(?<!\w){words}", re.IGNORECASE)


def _word(word: str) -> str:
    return rf"{re.escape(word[:-1])}\w*" if word.endswith("*") else rf"{re.escape(word)}(?!\w)"
