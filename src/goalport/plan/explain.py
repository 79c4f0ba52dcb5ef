"""Explanations: why each step of a plan is there, or why there is no plan.

Nothing is asked for: what is unknown is taken for whatever suits the plan, and the explanation says so. Below: the
search, the walk that finds what is missing, and the reasons. Above: whoever tells a person or a model.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from goalport.plan.clash import first_clash
from goalport.plan.facts import Fact
from goalport.plan.missing import missing_for
from goalport.plan.operators import Goal, Operator
from goalport.plan.problem import Problem
from goalport.plan.reach import Reach
from goalport.plan.reasons import Failure, Reliance, StepReason, Supply
from goalport.plan.search import Plan, best_plan, reliances

__all__ = ["Explanation", "explain"]


@dataclass(frozen=True, slots=True)
class Explanation:
    """A plan with the reasons for its steps, or the reasons why there is none, goal by goal."""

    goals: tuple[Goal, ...]
    plan: Plan | None = None
    steps: tuple[StepReason, ...] = ()
    relies_on: tuple[Reliance, ...] = ()
    failures: tuple[Failure, ...] = ()
    """For each goal why it has no plan, those first that lack least; empty where there is a plan."""

    @property
    def goal(self) -> Goal | None:
        """The goal that the plan reaches, or else the one that lacks least; None where there are no goals."""
        if self.plan is not None:
            return self.plan.goal
        return self.failures[0].goal if self.failures else None

    def summary(self) -> str:
        """One sentence."""
        if self.plan is not None:
            return _how(self.plan)
        return str(self.failures[0]) if self.failures else "There is no goal to plan for."

    def text(self) -> str:
        """All of it, in lines."""
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.plan is None and not self.failures:
            yield self.summary()
        if self.plan is not None:
            yield _how(self.plan)
        for number, step in enumerate(self.steps, start=1):
            yield f"  {number}. {step}"
        for reliance in self.relies_on:
            yield f"  {reliance}"
        for failure in self.failures:
            yield from failure.lines()


def explain(problem: Problem) -> Explanation:
    """Why the best plan is as it is, or what every goal lacks."""
    found = best_plan(problem)
    if isinstance(found, Plan):
        return Explanation(problem.goals, found, _step_reasons(problem, found), tuple(reliances(problem, found)))
    reach = Reach(problem)
    failures = [_failure(reach, goal, timed_out=found.timed_out) for goal in problem.goals]
    return Explanation(problem.goals, failures=tuple(sorted(failures, key=lambda failure: len(failure.missing))))


def _how(plan: Plan) -> str:
    if not plan.steps:
        return f"The goal {plan.goal.name} is reached already."
    names = ", ".join(step.name for step in plan.steps)
    figures = f"cost {plan.cost:g}, net value {plan.net_value:g}{'' if plan.proven else ', perhaps not the cheapest'}"
    return f"The goal {plan.goal.name} is reached by {names} ({figures})."


def _step_reasons(problem: Problem, plan: Plan) -> tuple[StepReason, ...]:
    """For each step the facts that it brought about and that a later step, or the goal, needed."""
    now = dict.fromkeys(problem.start.true, True) | dict.fromkeys(problem.start.undecidable | problem.start.unknown)
    changed_by: dict[Fact, int] = {}
    supplies: list[list[Supply]] = [[] for _ in plan.steps]
    for index, taker in enumerate((*plan.steps, plan.goal)):
        is_step = isinstance(taker, Operator)
        for fact, value in taker.requires.items():
            if fact in changed_by:
                supply = Supply(fact, value, taker.name, index + 1 if is_step else None)
                supplies[changed_by[fact]].append(supply)
        for fact, value in taker.effects.items() if is_step else ():
            if now.get(fact, False) is not value:
                changed_by[fact] = index
                now[fact] = value
    return tuple(StepReason(step, tuple(given)) for step, given in zip(plan.steps, supplies, strict=True))


def _failure(reach: Reach, goal: Goal, *, timed_out: bool) -> Failure:
    missing = missing_for(reach, goal)
    if missing or timed_out:
        return Failure(goal, missing, timed_out=not missing)
    return Failure(goal, clash=first_clash(reach, goal))
