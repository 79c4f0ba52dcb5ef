"""Known plans: what is left of a plan after some of its steps is the plan for what is left of the problem.

A process plans again after every action, and mostly things are as the last plan foresaw. Then nothing needs searching:
the steps that remain are exactly what the search would find, because it has one answer per problem. Only the literals
that could matter are compared, so that processes share this as long as they hold objects of the same types.
Below: operators. Above: the planning system, which keeps these, and the search, which adds to them.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from threading import Lock

from goalport.plan.operators import Operator

__all__ = ["KnownPlan", "KnownPlans"]

QUESTIONS, PLANS = 128, 8
"""How many questions are remembered, and how many plans to each."""

AS_DIGITS = bytes.maketrans(b"\0\1", b"01")


@dataclass(frozen=True, slots=True)
class KnownPlan:
    """A plan, the states that it passes through, and what it takes to hold throughout."""

    steps: tuple[Operator, ...]
    states: dict[int, int]
    """For each state before a step, as bits, how many steps came before it."""
    literals: tuple[int, ...]
    """What the bits of a state stand for."""
    held: tuple[int, ...]
    """Literals that matter and that no step of interest can take away."""

    def rest(self, holding: bytearray) -> tuple[Operator, ...] | None:
        """The remaining steps, if the plan foresaw a state in which just this holds."""
        if not all(map(holding.__getitem__, self.held)):
            return None
        digits = bytes(map(holding.__getitem__, reversed(self.literals))).translate(AS_DIGITS)
        taken = self.states.get(int(digits or b"0", 2))
        return None if taken is None else self.steps[taken:]


class KnownPlans:
    """The latest plans to the latest questions. A question is everything but the state that a plan depends on."""

    def __init__(self) -> None:
        self._plans: dict[Hashable, tuple[KnownPlan, ...]] = {}
        self._adding = Lock()

    def rest(self, question: Hashable, holding: bytearray) -> tuple[Operator, ...] | None:
        """What is left to do, if a known plan says it."""
        rests = (known.rest(holding) for known in self._plans.get(question, ()))
        return next((rest for rest in rests if rest is not None), None)

    def remember(self, question: Hashable, known: KnownPlan) -> None:
        """Keep a plan as the newest answer to a question; the oldest answers and questions are forgotten."""
        # A tuple is replaced, never changed, so that other threads may read meanwhile.
        with self._adding:
            others = self._plans.pop(question, ())
            self._plans[question] = (known, *others[: PLANS - 1])
            if len(self._plans) > QUESTIONS:
                del self._plans[next(iter(self._plans))]
