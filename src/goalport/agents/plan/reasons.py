"""Reasons: why a step is in a plan, what a plan assumes, and what is missing if there is no plan.

They are plain data, worded for a person at a terminal and for a model that reads an error. Nothing is computed here.
Below: facts and problems. Above: the explanations.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from goalport.agents.plan.problem import Available, Fact, GroupAvailable, HasRun, Holds, LastResult, Operator, PlanGoal


def in_words(fact: Fact, *, value: bool) -> str:
    """A fact and its value as a label: "a Story", "no Story", "that write has not run"."""
    match fact:
        case HasRun(action):
            return f"that {action} has {'' if value else 'not '}run"
        case Holds():
            return f"{fact} to be {'true' if value else 'false'}"
        case Available() | LastResult():
            return str(fact) if value else f"no {str(fact).partition(' ')[2]}"
        case GroupAvailable():
            return f"{'the' if value else 'no'} {fact}"


def needed(fact: Fact, *, value: bool) -> str:
    """A fact and its value as the object of "needs": "a Story", "there to be no Story", "write not to have run"."""
    match fact:
        case HasRun(action):
            return f"{action} {'' if value else 'not '}to have run"
        case Available() | LastResult() if not value:
            return f"there to be {in_words(fact, value=value)}"
        case _:
            return in_words(fact, value=value)


@dataclass(frozen=True, slots=True)
class Supply:
    """A fact that a step gives, and the step or goal that requires it."""

    fact: Fact
    value: bool
    to: str
    """The name of a later step, or of the goal."""
    step: int | None
    """The number of that step, counted from 1; None for the goal."""

    @property
    def what(self) -> str:
        """The fact in words, as seen from the step that gives it."""
        is_its_run = isinstance(self.fact, HasRun) and self.value
        return "that it has run" if is_its_run else in_words(self.fact, value=self.value)


@dataclass(frozen=True, slots=True)
class StepReason:
    """A step of a plan and what it is there for."""

    operator: Operator
    supplies: tuple[Supply, ...]

    def __str__(self) -> str:
        needed: dict[str, list[str]] = {}
        for supply in sorted(self.supplies, key=lambda supply: isinstance(supply.fact, HasRun)):
            to = "the goal" if supply.step is None else f"step {supply.step}, {supply.to}"
            needed.setdefault(to, []).append(supply.what)
        return f"{self.operator.name}, for " + "; for ".join(f"{to}: {_listed(facts)}" for to, facts in needed.items())


@dataclass(frozen=True, slots=True)
class Reliance:
    """An unknown fact, and the value that a plan assumes for it."""

    fact: Fact
    value: bool
    wanted_by: str
    """The name of the step that relies on it, or of the goal."""

    def __str__(self) -> str:
        return f"{self.wanted_by} relies on what is not known yet: it needs {needed(self.fact, value=self.value)}."


@dataclass(frozen=True, slots=True)
class Consumer:
    """An operator that requires a missing fact, and the fact that it would then give."""

    operator: Operator
    gives: Fact
    value: bool

    @property
    def purpose(self) -> str:
        """What it needs the fact for: "to run", "to give a Story"."""
        match self.gives:
            case HasRun() if self.value:
                return "to run"
            case Holds():
                return f"to make {self.gives} {'true' if self.value else 'false'}"
            case Available() | LastResult():
                return f"to {'give' if self.value else 'leave'} {in_words(self.gives, value=self.value)}"
            case _:
                return f"to bring about {in_words(self.gives, value=self.value)}"


@dataclass(frozen=True, slots=True)
class Unproduced:
    """No operator gives the fact this value."""

    reason: str = ""
    """Why the tool group that could give it is not available; empty: nothing could give it."""


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """No operator gives the fact a value, and its evaluation gave no answer."""

    failure: str = ""
    """The error of the evaluation; empty: the answer was "unknown"."""


@dataclass(frozen=True, slots=True)
class Excluded:
    """Only excluded actions give the fact this value."""

    actions: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Circular:
    """The actions that give the fact this value require the same fact first, directly or indirectly."""

    actions: tuple[str, ...]


Why: TypeAlias = Unproduced | NoAnswer | Excluded | Circular


@dataclass(frozen=True, slots=True)
class Missing:
    """A fact that the goal requires, directly or indirectly, and that no available action gives."""

    fact: Fact
    value: bool
    why: Why
    chain: tuple[Consumer, ...]
    """The operator that requires the fact, then the operator that requires what the first one gives, and so on."""

    def __str__(self) -> str:
        if self.is_spent:
            consumer = self.chain[0]
            gives = "give one" if isinstance(consumer.gives, Available) and consumer.value else "bring that about"
            wanted = needed(consumer.gives, value=consumer.value)
            return f"it needs {wanted}, but {consumer.operator.action}, which would {gives}, has run already"
        return f"it needs {needed(self.fact, value=self.value)}, but {self.because}"

    @property
    def is_spent(self) -> bool:
        """Whether the only obstacle of an action is that it has run already."""
        return not self.value and self.fact in [HasRun(consumer.operator.action) for consumer in self.chain[:1]]

    @property
    def held_back(self) -> str:
        """The action that cannot run only because it has run or its output is there; empty: there is none."""
        consumer = self.chain[0].operator if self.chain else None
        is_guard = consumer is not None and not self.value and isinstance(self.why, Unproduced)
        if consumer is not None and is_guard and (self.is_spent or consumer.effects.get(self.fact)):
            return consumer.action
        return ""

    @property
    def because(self) -> str:
        """Why it is missing, as a clause without a full stop."""
        match self.why:
            case Unproduced(""):
                match self.fact:
                    case Available() | LastResult():
                        return "no action gives one" if self.value else "there is one, and no action clears it"
                    case HasRun():
                        return "there is no such action" if self.value else "it has run, and no action undoes that"
                    case Holds():
                        return f"no action makes it {'true' if self.value else 'false'}"
                    case GroupAvailable():
                        return "there is none: put such a ToolGroup into tools/"
            case Unproduced(reason):
                return f"it cannot be used now: {reason.rstrip('.')}"
            case NoAnswer(""):
                return "it was asked for and there was no answer"
            case NoAnswer(failure):
                return f"asking for it failed: {failure.rstrip('.')}"
            case Excluded(actions):
                are = "is" if len(actions) == 1 else "are"
                return f"{_listed(actions)}, which would bring that about, {are} left out"
            case Circular(actions):
                need = "needs" if len(actions) == 1 else "need"
                return f"{_listed(actions)}, which would bring that about, {need} the same first"

    @property
    def wanted_by(self) -> str:
        """The chain in words: "to give a Person, extract needs a UserInput; to run, write needs a Person"."""
        facts = [(self.fact, self.value), *((consumer.gives, consumer.value) for consumer in self.chain)]
        needs = [
            f"{consumer.purpose}, {consumer.operator.name} needs {needed(fact, value=value)}"
            for consumer, (fact, value) in zip(self.chain, facts, strict=False)
        ]
        return "; ".join(needs[self.is_spent :]) or "the goal itself needs that"


@dataclass(frozen=True, slots=True)
class Clash:
    """Two requirements that can each be met, but not one after the other."""

    fact: Fact
    value: bool
    wanted_by: str
    undone_by: str

    def __str__(self) -> str:
        return (
            f"each need can be met, but not all of them together: {self.wanted_by} needs "
            f"{needed(self.fact, value=self.value)}, and {self.undone_by} undoes that"
        )


@dataclass(frozen=True, slots=True)
class UnreachableGoal:
    """Why one goal has no plan. If nothing is missing, requirements clash or the time was too short."""

    goal: PlanGoal
    missing: tuple[Missing, ...] = ()
    clash: Clash | None = None
    timed_out: bool = False

    def __str__(self) -> str:
        if self.timed_out:
            return (
                f"No plan for the goal {self.goal.name} was found in the time that planning may take. "
                "There may be one: split the agent, or tell its actions apart by what they need."
            )
        return f"The goal {self.goal.name} cannot be reached: {self.because}."

    @property
    def lacks_only_groups(self) -> bool:
        """Whether tool groups are all that is missing."""
        return bool(self.missing) and all(isinstance(each.fact, GroupAvailable) for each in self.missing)

    @property
    def because(self) -> str:
        """The reasons, without the goal."""
        return "; ".join(map(str, self.missing or [self.clash]))

    def lines(self) -> Iterator[str]:
        """The reasons in detail, as lines: each missing fact with the operators that require it."""
        if not self.missing:
            yield str(self)
            return
        yield f"The goal {self.goal.name} cannot be reached."
        for missing in self.missing:
            yield f"  It{str(missing)[2:]}."
            yield f"    {missing.wanted_by[0].upper()}{missing.wanted_by[1:]}."


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
