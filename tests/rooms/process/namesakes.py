"""Types that are called as those of the toy domain, and are others. No test is in here."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Person:
    age: int
