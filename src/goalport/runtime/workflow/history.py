"""What the rounds of a repeated step have given so far: attempts, and the feedback to them.

A step gets them by a parameter `history: History[Report]`. At the end of a repetition, `best` is the attempt whose
result is that of the workflow.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Generic, TypeVar

from pydantic import Field

from goalport.base.errors import InvalidScore

T = TypeVar("T")


def is_number(value: object) -> bool:
    """Whether it is an int or a float, and neither NaN nor a bool."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and not math.isnan(value)


@dataclass(frozen=True, slots=True)
class Feedback:
    """An evaluation of an attempt."""  # models read it

    score: Annotated[float, Field(ge=0, le=1, description="How good it is: 0 is useless, 1 is perfect")]
    text: Annotated[str, Field(description="What is good, and what should become better")] = ""

    def __post_init__(self) -> None:
        """Raise `InvalidScore` for a score that is not from 0 to 1."""
        if not is_number(self.score) or not 0 <= self.score <= 1:
            raise InvalidScore(self.score)


@dataclass(frozen=True)  # not slots=True: on Python 3.11 `Attempt[T](…)` fails with it
class Attempt(Generic[T]):
    """An attempt, and what was said of it."""

    result: T
    feedback: Feedback | None = None
    """What the evaluator said of it; None where there is no evaluator."""
    accepted: Annotated[bool, Field(description="Whether it was good enough, so that no other was made")] = False

    @property
    def score(self) -> float:
        """The score of the feedback; 0 without one."""
        return 0.0 if self.feedback is None else self.feedback.score


@dataclass(frozen=True)  # as above
class History(Generic[T]):
    """Attempts, the oldest first."""  # models read it, too

    attempts: tuple[Attempt[T], ...] = ()

    @property
    def last(self) -> Attempt[T] | None:
        """The newest attempt; None in the first round."""
        return self.attempts[-1] if self.attempts else None

    @property
    def best(self) -> Attempt[T] | None:
        """The accepted attempt, or else that with the best score, of equal ones the newest; None in the first round."""
        return max(reversed(self.attempts), key=lambda each: (each.accepted, each.score), default=None)

    def __len__(self) -> int:
        return len(self.attempts)

    def __iter__(self) -> Iterator[Attempt[T]]:
        return iter(self.attempts)

    def with_attempt(self, attempt: Attempt[T]) -> "History[T]":
        """The history with one attempt more."""
        return History((*self.attempts, attempt))
