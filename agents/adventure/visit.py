"""What a visitor has with them: a name, a bag, the time that is left, and what has just happened. Data only."""

from dataclasses import dataclass, replace
from typing import Literal

from pydantic import BaseModel, Field

__all__ = ["Thing", "Visit", "Visitor"]

Thing = Literal["a key", "a pot of tea", "an umbrella"]

NIGHT = 12
"""Choices until dawn: the night ends, whatever one does."""


class Visitor(BaseModel):
    """Who plays."""

    name: str = Field("Robin", min_length=1, max_length=40, description="The name of the person who plays")


@dataclass(frozen=True)
class Visit:
    """How one visitor's night stands."""

    name: str
    choices: int = 0
    bag: tuple[Thing, ...] = ()
    news: str = ""
    """What has just happened."""
    refused_the_lid: bool = False

    @property
    def is_over(self) -> bool:
        """Whether it is morning."""
        return self.choices >= NIGHT

    def has(self, thing: Thing) -> bool:
        """Whether it is in the bag."""
        return thing in self.bag

    def on(self, news: str = "") -> "Visit":
        """One choice later."""
        return replace(self, choices=self.choices + 1, news=news)

    def taking(self, thing: Thing, news: str, otherwise: str) -> "Visit":
        """One choice later, with a thing in the bag that can be taken once."""
        if self.has(thing):
            return self.on(otherwise)
        return replace(self.on(news), bag=(*self.bag, thing))

    def told(self, place: str) -> str:
        """The question of a place, with what has happened before and what is in the bag."""
        hour = f"It is {self._hour}. {f'Your bag holds {self._contents}.' if self.bag else 'Your bag is empty.'}"
        return "\n\n".join(part for part in (self.news, place, hour, "What do you do?") if part)

    @property
    def _hour(self) -> str:
        minutes = 18 * 60 + 30 + self.choices * 60
        return f"{minutes // 60 % 24:02}:{minutes % 60:02}"

    @property
    def _contents(self) -> str:
        return ", ".join(self.bag[:-1]) + (" and " if self.bag[1:] else "") + self.bag[-1]
