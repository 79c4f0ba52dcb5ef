"""Explanations: why each step of a plan is there and what another plan would cost, or why there is no plan.

No condition is asked: an unknown fact counts as whatever suits the plan, and the explanation says so. Below: the
search, `missing`, and the reasons. Above: the platform and the command line, which show them to people and models.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from goalport.agents.plan.missing import Reach, first_clash, missing_for
from goalport.agents.plan.problem import Fact, GroupAvailable, Holds, Operator, PlanGoal, Problem, WorldState, total
from goalport.agents.plan.reasons import Missing, NoAnswer, Reliance, StepReason, Supply, Unproduced, UnreachableGoal
from goalport.agents.plan.search import NoPlan, Plan, best_plan, reliances


@dataclass(frozen=True)
class Alternative:
    """The best plan to the same goal that does without an action of the plan at hand."""

    without: str
    """The name of the action."""
    plan: Plan
    dearer_by: float
    """How much more it costs."""

    def __str__(self) -> str:
        names = ", ".join(step.name for step in self.plan.steps)
        more = f"{self.dearer_by:g} more" if self.dearer_by else "the same"
        return f"Next best, without {self.without}: {names} (cost {self.plan.cost:g}, {more})."


@dataclass(frozen=True)
class Branch:
    """How it goes on where something turns out otherwise than a plan takes it."""

    turn: str
    """What turns out, as a clause."""
    plan: Plan | NoPlan

    def __str__(self) -> str:
        if isinstance(self.plan, Plan):
            then = ", ".join(step.name for step in self.plan.steps) or "the goal is reached"
        else:
            then = "nothing was found in time" if self.plan.timed_out else "the goal cannot be reached"
        return f"If {self.turn}: {then}."


@dataclass(frozen=True)
class Explanation:
    """A plan with the reasons for its steps, or the reasons why there is none, goal by goal."""

    goals: tuple[PlanGoal, ...]
    plan: Plan | None = None
    steps: tuple[StepReason, ...] = ()
    relies_on: tuple[Reliance, ...] = ()
    failures: tuple[UnreachableGoal, ...] = ()
    """For each goal why it has no plan, those first that lack least; empty where there is a plan."""
    notes: tuple[str, ...] = ()
    """What else should be known of it, a sentence each."""
    unforeseen: bool = False
    """Whether other ways may open that cannot be seen before something has run."""
    problem: Problem | None = field(default=None, repr=False, compare=False)
    """What was explained."""

    @property
    def alternative(self) -> Alternative | None:
        """The next best plan, searched for when it is asked for; None where none was found."""
        found = [each for each in self._others if isinstance(each, Alternative)]
        return min(found, key=lambda each: (each.plan.cost, len(each.plan.steps)), default=None)

    @cached_property
    def _others(self) -> tuple[Alternative | NoPlan, ...]:
        """The best plan without each of the actions."""
        if self.problem is None or self.plan is None:
            return ()
        actions = dict.fromkeys(step.action for step in self.plan.steps)
        return tuple(_without(self.problem, self.plan, action, len(actions)) for action in actions)

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """How it goes on where a condition, or what an action gives, turns out otherwise."""
        if self.problem is None or self.plan is None:
            return ()
        turns = list(_turns(self.problem, self.plan, self.relies_on))
        deadline = None if self.problem.deadline is None else self.problem.deadline / max(len(turns), 1)
        asked = replace(self.problem, goals=(self.plan.goal,), deadline=deadline)
        found = ((Branch(turn, best_plan(replace(asked, start=start))), done) for turn, start, done in turns)
        return tuple(each for each, done in found if _steps_of(each.plan) != self.plan.steps[done:])

    def cost(self, operator: Operator) -> float:
        """What a step of the plan costs."""
        return operator.cost if self.problem is None else self.problem.cost(operator)

    @property
    def goal(self) -> PlanGoal | None:
        """The goal that the plan reaches, or else the one that lacks least; None where there are no goals."""
        if self.plan is not None:
            return self.plan.goal
        return self.failures[0].goal if self.failures else None

    @property
    def lacks_only_groups(self) -> bool:
        """Whether tool groups are all that is missing for the goal that lacks least: that is up to whoever deploys."""
        return bool(self.failures) and self.failures[0].lacks_only_groups

    def with_reasons(
        self, why_unmet: Callable[[GroupAvailable], str], why_no_answer: Callable[[str], str] = lambda _: ""
    ) -> "Explanation":
        """The same, with what is wrong with the tool groups and the conditions that are missing, by their names."""

        def reasoned(missing: Missing) -> Missing:
            match missing:
                case Missing(GroupAvailable() as group, value=True):
                    return replace(missing, why=Unproduced(why_unmet(group)))
                case Missing(Holds(condition), why=NoAnswer()):
                    return replace(missing, why=NoAnswer(why_no_answer(condition)))
                case _:
                    return missing

        failures = (replace(each, missing=tuple(map(reasoned, each.missing))) for each in self.failures)
        return replace(self, failures=tuple(failures))

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
        for branch in self.branches:
            yield f"  {branch}"
        if self.steps:
            yield f"  {self.alternative or self._no_other_way()}"
        for failure in self.failures:
            yield from failure.lines()
        for note in self.notes:
            yield f"  {note}"

    def _no_other_way(self) -> str:
        if self.unforeseen:
            return "No other way is known before something has run."
        if all(each.proven for each in self._others if isinstance(each, NoPlan)):
            return "There is no other way: each action is needed."
        return "No other way was found in time."


def explain(problem: Problem, found: Plan | NoPlan | None = None) -> Explanation:
    """Why the best plan is as it is, or what every goal lacks; `found` is that plan, where it is known already."""
    found = found or best_plan(problem)
    if isinstance(found, Plan):
        steps, relied_on = _step_reasons(problem, found), tuple(reliances(problem, found))
        return Explanation(problem.goals, found, steps, relied_on, problem=problem)
    reach = Reach(problem)
    failures = sorted(
        (_unreachable(reach, goal, timed_out=found.timed_out) for goal in problem.goals),
        key=lambda failure: len(failure.missing),
    )
    return Explanation(problem.goals, failures=tuple(failures), problem=problem)


def _without(problem: Problem, found: Plan, action: str, ways: int) -> Alternative | NoPlan:
    """The best plan without an action, in one of several equal parts of the time."""
    deadline = None if problem.deadline is None else problem.deadline / ways
    asked = replace(problem, goals=(found.goal,), excluded=problem.excluded | {action}, deadline=deadline)
    other = best_plan(asked)
    return other if isinstance(other, NoPlan) else Alternative(action, other, total((other.cost, -found.cost)))


def _how(plan: Plan) -> str:
    if not plan.steps:
        return f"The goal {plan.goal.name} is reached already."
    names = ", ".join(step.name for step in plan.steps)
    figures = f"cost {plan.cost:g}, net value {plan.net_value:g}{'' if plan.proven else ', perhaps not the cheapest'}"
    return f"The goal {plan.goal.name} is reached by {names} ({figures})."


def _turns(problem: Problem, plan: Plan, relied_on: Iterable[Reliance]) -> Iterator[tuple[str, WorldState, int]]:
    """What may turn out otherwise than a plan takes it: a clause, what is known then, and how many steps have run."""
    now = problem.start
    for each in relied_on:
        if isinstance(each.fact, Holds):
            yield f"the {each.fact} is {str(not each.value).lower()}", _after(now, {each.fact: not each.value}), 0
    for number, step in enumerate(plan.steps, start=1):
        others = {other.name: other for other in problem.system.operators if other.action == step.action}
        for other in others.values():
            if other.effects != step.effects:
                yield f"it is {other.name}", _after(now, other.effects), number
        for fact, value in step.effects.items():
            if isinstance(fact, Holds):
                known = _after(now, {**step.effects, fact: not value})
                yield f"the {fact} is {str(not value).lower()} after {step.name}", known, number
        now = _after(now, step.effects)


def _steps_of(found: Plan | NoPlan) -> tuple[Operator, ...] | None:
    return found.steps if isinstance(found, Plan) else None


def _after(before: WorldState, effects: Mapping[Fact, bool]) -> WorldState:
    true, unknown, undecidable = (
        each.difference(effects) for each in (before.true, before.unknown, before.undecidable)
    )
    return WorldState(true.union(fact for fact, value in effects.items() if value), unknown, undecidable)


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


def _unreachable(reach: Reach, goal: PlanGoal, *, timed_out: bool) -> UnreachableGoal:
    missing = missing_for(reach, goal)
    if missing or timed_out:
        return UnreachableGoal(goal, missing, timed_out=not missing)
    return UnreachableGoal(goal, clash=first_clash(reach, goal))
