"""Policies that end a process early, beside its budget: a limit of one's own, or an end where it would be stuck.

Pure: a policy looks and gives a reason; the process obeys. (User guide, section 3.14.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from goalport.blackboard import Blackboard
from goalport.llm import TokenUsage
from goalport.process.ledger import in_dollars

__all__ = ["EarlyTermination", "FirstOf", "MaxActions", "MaxCost", "MaxTokens", "OnStuck", "Underway"]


class Underway(Protocol):
    """What a policy sees of a process."""

    @property
    def history(self) -> Sequence[object]:
        """The actions that ran."""
        ...

    @property
    def usage(self) -> TokenUsage:
        """What it has cost, with the processes that it started."""
        ...

    @property
    def blackboard(self) -> Blackboard:
        """What it knows."""
        ...


class EarlyTermination(Protocol):
    """Whether a process should end before its goal. It is asked before each action, and when the process is stuck."""

    def reason_to_end(self, process: Underway, /, *, stuck: bool) -> str | None:
        """Why the process should end now, in a sentence; None: it may go on."""
        ...


@dataclass(frozen=True, slots=True)
class MaxActions:
    """End before more than so many actions have run."""

    limit: int

    def reason_to_end(self, process: Underway, /, *, stuck: bool) -> str | None:
        """A reason once so many have run."""
        return f"{self.limit} actions have run, and no more may." if len(process.history) >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxCost:
    """End once models have cost so much, in US dollars."""

    limit: float

    def reason_to_end(self, process: Underway, /, *, stuck: bool) -> str | None:
        """A reason once it is spent."""
        spent = process.usage.cost
        return f"{in_dollars(spent)} are spent, of {in_dollars(self.limit)} allowed." if spent >= self.limit else None


@dataclass(frozen=True, slots=True)
class MaxTokens:
    """End once models have read and written so many tokens."""

    limit: int

    def reason_to_end(self, process: Underway, /, *, stuck: bool) -> str | None:
        """A reason once they are used."""
        used = process.usage.tokens
        return f"{used:,} tokens are used, of {self.limit:,} allowed." if used >= self.limit else None


@dataclass(frozen=True, slots=True)
class OnStuck:
    """End where the process would be stuck: nobody is asked to help it on."""

    def reason_to_end(self, process: Underway, /, *, stuck: bool) -> str | None:
        """A reason when it is stuck."""
        return "It was stuck." if stuck else None


class FirstOf:
    """Several policies: the first that has a reason counts."""

    def __init__(self, *policies: EarlyTermination) -> None:
        self.policies = policies

    def reason_to_end(self, process: Underway, /, *, stuck: bool) -> str | None:
        """The first reason of any."""
        reasons = (each.reason_to_end(process, stuck=stuck) for each in self.policies)
        return next(filter(None, reasons), None)
