"""Explanations: why each step of a plan is there and what another plan would cost, or why there is no plan.

No condition is evaluated: an unknown fact counts as whatever suits the plan, and the explanation says so. If a goal has
no plan, its requirements are traced back to facts that no action gives, along the way with the fewest missing facts. If
each requirement can be met but not all together, a relaxed plan (in which no effect is ever undone) shows the step at
which it fails: an example, not a proof. Below: the search and the reasons. Above: the platform and the command line.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from heapq import heapify, heappop, heappush
from typing import NamedTuple

from goalport.agents.plan.problem import (
    Fact,
    GroupAvailable,
    HasRun,
    Holds,
    Operator,
    PlanGoal,
    Problem,
    WorldState,
    total,
)
from goalport.agents.plan.reasons import (
    Circular,
    Clash,
    Consumer,
    Excluded,
    Missing,
    NoAnswer,
    Reliance,
    StepReason,
    Supply,
    Unproduced,
    UnreachableGoal,
    Why,
)
from goalport.agents.plan.search import NoPlan, Plan, best_plan, reliances
from goalport.agents.plan.task import task_for, wanted_literals


class Reach:
    """The literals that are true at the start or reachable, and for each reachable one the first move that gives it."""

    def __init__(self, problem: Problem) -> None:
        self.system = problem.system
        self.problem = problem
        self.obtainable = problem.system.literals_allowed_by(problem.start)
        self.givers: dict[int, int] = {}
        """The first move that gives each reachable literal, in the order in which the literals become reachable."""
        moves = self.system.moves
        waiting = [len(self.lacking(index)) for index in range(len(moves))]
        ready = deque(index for index, count in enumerate(waiting) if not count)
        while ready:
            giver = ready.popleft()
            for literal in () if self.excluded(giver) else moves[giver].gives:
                if not self.obtainable[literal]:
                    self.obtainable[literal] = 1
                    self.givers[literal] = giver
                    for index in self.system.consumers[literal]:
                        waiting[index] -= 1
                        if not waiting[index]:
                            ready.append(index)

    def excluded(self, index: int) -> bool:
        """Whether no plan may use a move."""
        return self.system.moves[index].operator.action in self.problem.excluded

    def lacking(self, index: int) -> list[int]:
        """The unreachable preconditions of a move."""
        return [literal for literal in self.system.moves[index].needs if not self.obtainable[literal]]


def unusable(problem: Problem) -> Mapping[str, tuple[tuple[Fact, bool], ...]]:
    """The actions that no sequence of steps can reach, each with its unreachable preconditions."""
    reach = Reach(problem)
    lacks: dict[str, tuple[tuple[Fact, bool], ...]] = {}
    for index, move in enumerate(problem.system.moves):
        found = tuple(map(problem.system.fact, reach.lacking(index)))
        # An action with several exits can be taken if one of them can.
        lacks[move.operator.action] = found if lacks.get(move.operator.action, found) else ()
    return {action: found for action, found in lacks.items() if found}


def prune(problem: Problem) -> frozenset[str]:
    """The names of the actions that can occur on a way to a goal; unknown facts may be true or false."""
    reach = Reach(problem)
    useful = set[str]()
    for goal in problem.goals:
        wanted = wanted_literals(problem, goal)
        if wanted is None or not all(map(reach.obtainable.__getitem__, wanted)):
            continue
        task = task_for(problem, wanted, reach.system.literals_allowed_by(problem.start))
        steps = (each for each in task.steps if all(reach.obtainable[task.literals[need]] for need in each.needs))
        useful.update(step.operator.action for step in steps)
    return frozenset(useful)


NO_MOVE = -1


def missing_for(reach: Reach, goal: PlanGoal) -> tuple[Missing, ...]:
    """The missing facts without which no plan can reach the goal; empty if each requirement is reachable by itself."""
    wanted: list[int] = []
    missing: list[Missing] = []
    for fact, value in goal.requires.items():
        literal = reach.system.literal(fact, value=value)
        if literal is None:
            if not reach.problem.start.allows(fact, value=value):
                missing.append(Missing(fact, value, unproduced(reach.problem, fact), ()))
        elif not reach.obtainable[literal]:
            wanted.append(literal)
    # An action's output explains more than the fact that it has run, so the latter comes last.
    wanted.sort(key=lambda literal: isinstance(reach.system.fact(literal)[0], HasRun))
    return (*missing, *Lacks(reach).missing(wanted))


class Lack(NamedTuple):
    """A way to an unreachable literal. Ways compare by the number of missing facts."""

    size: int
    """The number of missing facts; a fact that two preconditions share counts twice."""
    by: int
    """The move that would give the literal, or NO_MOVE if the literal itself is the missing fact."""
    literal: int


class Lacks:
    """The missing facts of every unreachable literal."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._system = reach.system
        self._lacks: dict[int, Lack] = {}
        """For each unreachable literal the way with the fewest missing facts."""
        self._circular: set[int] = set()

    def missing(self, wanted: Sequence[int]) -> Iterator[Missing]:
        """The missing facts for unreachable literals, each once."""
        found = dict.fromkeys(wanted)
        queue = deque(found)
        while queue:
            for index in self._system.achievers[queue.popleft()]:
                fresh = [literal for literal in self._reach.lacking(index) if literal not in found]
                found.update(dict.fromkeys(fresh))
                queue += fresh
        blocked = list(found)
        self._count(blocked)
        while endless := [literal for literal in wanted if literal not in self._lacks]:
            self._circular.add(self._on_a_circle(endless[0]))
            self._count(blocked)
        yield from self._roots(wanted)

    def _count(self, blocked: Sequence[int]) -> None:
        """Count the missing facts of each literal, beginning with those that lack only themselves."""
        self._lacks.clear()
        producers = {index for literal in blocked for index in self._system.achievers[literal]}
        waiting = {index: len(self._reach.lacking(index)) for index in producers}
        itself = (each for each in blocked if each in self._circular or not self._system.achievers[each])
        queue = [Lack(1, NO_MOVE, literal) for literal in itself]
        for index in producers:
            if not waiting[index]:
                queue += self._gifts(index)
        heapify(queue)
        while queue:
            lack = heappop(queue)
            if lack.literal not in self._lacks:
                self._lacks[lack.literal] = lack
                for index in producers.intersection(self._system.consumers[lack.literal]):
                    waiting[index] -= 1
                    if not waiting[index]:
                        for gift in self._gifts(index):
                            heappush(queue, gift)

    def _gifts(self, index: int) -> list["Lack"]:
        """The unreachable literals that a move would give, with the number of facts that it lacks."""
        count = self._reach.excluded(index) + sum(self._lacks[literal].size for literal in self._reach.lacking(index))
        return [
            Lack(count, index, literal)
            for literal in self._system.moves[index].gives
            if not self._reach.obtainable[literal]
        ]

    def _on_a_circle(self, literal: int) -> int:
        """A literal on a cycle of preconditions, found from one whose every producer depends on a cycle."""
        passed: set[int] = set()
        while literal not in passed:
            passed.add(literal)
            index = self._system.achievers[literal][0]
            literal = next(each for each in self._reach.lacking(index) if each not in self._lacks)
        return literal

    def _roots(self, wanted: Sequence[int]) -> Iterator[Missing]:
        """The missing facts on the way that lacks fewest."""
        chains: dict[int, tuple[Consumer, ...]] = dict.fromkeys(wanted, ())
        queue = deque(wanted)
        while queue:
            literal = queue.popleft()
            chain = chains[literal]
            fact, value = self._system.fact(literal)
            by = self._lacks[literal].by
            if by == NO_MOVE or self._reach.excluded(by):
                achievers = self._system.achievers[literal]
                is_circular = literal in self._circular
                blocked = achievers if is_circular else [each for each in achievers if self._reach.excluded(each)]
                actions = tuple(dict.fromkeys(self._system.moves[each].operator.action for each in blocked))
                why = Circular(actions) if is_circular else Excluded(actions)
                yield Missing(fact, value, why if achievers else unproduced(self._reach.problem, fact), chain)
            if by != NO_MOVE:
                consumer = Consumer(self._system.moves[by].operator, fact, value)
                fresh = [each for each in self._reach.lacking(by) if each not in chains]
                chains.update(dict.fromkeys(fresh, (consumer, *chain)))
                queue += fresh


def unproduced(problem: Problem, fact: Fact) -> Why:
    """Why a fact is missing that no action has as an effect."""
    return NoAnswer() if fact in problem.start.undecidable else Unproduced()


def first_clash(reach: Reach, goal: PlanGoal) -> Clash:
    """The step at which a relaxed plan fails, for a goal without a plan whose requirements are all reachable."""
    literals = (reach.system.literal(fact, value=value) for fact, value in goal.requires.items())
    wanted = [literal for literal in literals if literal is not None]
    holding = reach.system.literals_allowed_by(reach.problem.start)
    undone_by: dict[int, str] = {}
    for index in _steps(reach, wanted):
        move = reach.system.moves[index]
        if (broken := _first_absent(holding, move.needs)) is not None:
            return Clash(*reach.system.fact(broken), move.operator.name, undone_by[broken])
        undone_by.update((literal, move.operator.name) for literal in move.takes if holding[literal])
        for literal in move.takes:
            holding[literal] = 0
        for literal in move.gives:
            holding[literal] = 1
    broken = _first_absent(holding, wanted)
    assert broken is not None, "these steps are a plan"
    return Clash(*reach.system.fact(broken), goal.name, undone_by[broken])


def _steps(reach: Reach, wanted: Iterable[int]) -> list[int]:
    """The moves of a relaxed plan to the wanted literals, in an order in which they become possible."""
    needed = [literal for literal in wanted if literal in reach.givers]
    steps: set[int] = set()
    for literal in needed:  # grows while we walk
        index = reach.givers[literal]
        if index not in steps:
            steps.add(index)
            needed += (need for need in reach.system.moves[index].needs if need in reach.givers)
    return [index for index in dict.fromkeys(reach.givers.values()) if index in steps]


def _first_absent(holding: bytearray, literals: Sequence[int]) -> int | None:
    return next((literal for literal in literals if not holding[literal]), None)


@dataclass(frozen=True)
class Alternative:
    """The best plan to the same goal without one of the plan's actions."""

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
    """The plan for the case that a fact or a result differs from what the original plan assumes."""

    turn: str
    """The difference, as a clause."""
    plan: Plan | NoPlan

    def __str__(self) -> str:
        if isinstance(self.plan, Plan):
            then = ", ".join(step.name for step in self.plan.steps) or "the goal is reached"
        else:
            then = "nothing was found in time" if self.plan.timed_out else "the goal cannot be reached"
        return f"If {self.turn}: {then}."


@dataclass(frozen=True)
class Explanation:
    """A plan with the reasons for its steps, or for each goal the reasons why there is none."""

    goals: tuple[PlanGoal, ...]
    plan: Plan | None = None
    steps: tuple[StepReason, ...] = ()
    relies_on: tuple[Reliance, ...] = ()
    failures: tuple[UnreachableGoal, ...] = ()
    """For each goal why it has no plan, those with the fewest missing facts first; empty if there is a plan."""
    notes: tuple[str, ...] = ()
    """Further remarks, a sentence each."""
    unforeseen: bool = False
    """Whether actions may open ways to the goal that cannot be seen before they have run."""
    problem: Problem | None = field(default=None, repr=False, compare=False)
    """The problem that was explained."""

    @property
    def alternative(self) -> Alternative | None:
        """The next best plan, searched for on first use; None if none was found."""
        found = [each for each in self._others if isinstance(each, Alternative)]
        return min(found, key=lambda each: (each.plan.cost, len(each.plan.steps)), default=None)

    @cached_property
    def _others(self) -> tuple[Alternative | NoPlan, ...]:
        """For each action of the plan, the best plan without it."""
        if self.problem is None or self.plan is None:
            return ()
        problem, plan = self.problem, self.plan
        actions = dict.fromkeys(step.action for step in plan.steps)
        deadline = None if problem.deadline is None else problem.deadline / max(len(actions), 1)
        asked = replace(problem, goals=(plan.goal,), deadline=deadline)
        plans = ((action, best_plan(replace(asked, excluded=problem.excluded | {action}))) for action in actions)
        return tuple(
            found if isinstance(found, NoPlan) else Alternative(action, found, total((found.cost, -plan.cost)))
            for action, found in plans
        )

    @cached_property
    def branches(self) -> tuple[Branch, ...]:
        """The plans for the cases that a condition or an action's output differs from what the plan assumes."""
        if self.problem is None or self.plan is None:
            return ()
        turns = list(_turns(self.problem, self.plan, self.relies_on))
        deadline = None if self.problem.deadline is None else self.problem.deadline / max(len(turns), 1)
        asked = replace(self.problem, goals=(self.plan.goal,), deadline=deadline)
        found = ((Branch(turn, best_plan(replace(asked, start=start))), done) for turn, start, done in turns)
        return tuple(
            each
            for each, done in found
            if (each.plan.steps if isinstance(each.plan, Plan) else None) != self.plan.steps[done:]
        )

    def cost(self, operator: Operator) -> float:
        """What a step of the plan costs."""
        return operator.cost if self.problem is None else self.problem.cost(operator)

    @property
    def goal(self) -> PlanGoal | None:
        """The goal that the plan reaches, else the goal with the fewest missing facts; None if there are no goals."""
        if self.plan is not None:
            return self.plan.goal
        return self.failures[0].goal if self.failures else None

    @property
    def lacks_only_groups(self) -> bool:
        """Whether the goal with the fewest missing facts lacks only tool groups, which whoever deploys can add."""
        return bool(self.failures) and self.failures[0].lacks_only_groups

    def with_reasons(
        self, why_unmet: Callable[[GroupAvailable], str], why_no_answer: Callable[[str], str] = lambda _: ""
    ) -> "Explanation":
        """The same explanation with reasons for missing tool groups and unknown conditions, by their names."""

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
        plan = self.plan
        if plan is None:
            return str(self.failures[0]) if self.failures else "There is no goal to plan for."
        if not plan.steps:
            return f"The goal {plan.goal.name} is reached already."
        names = ", ".join(step.name for step in plan.steps)
        figures = f"cost {plan.cost:g}, net value {plan.net_value:g}"
        doubt = "" if plan.proven else ", perhaps not the cheapest"
        return f"The goal {plan.goal.name} is reached by {names} ({figures}{doubt})."

    def text(self) -> str:
        """The whole explanation, as lines of text."""
        lines: list[str] = []
        if self.plan is not None or not self.failures:
            lines.append(self.summary())
        lines += (f"  {number}. {step}" for number, step in enumerate(self.steps, start=1))
        lines += (f"  {each}" for each in (*self.relies_on, *self.branches))
        if self.alternative:
            lines.append(f"  {self.alternative}")
        elif self.steps and self.unforeseen:
            lines.append("  No other way is known before something has run.")
        elif self.steps and all(each.proven for each in self._others if isinstance(each, NoPlan)):
            lines.append("  There is no other way: each action is needed.")
        elif self.steps:
            lines.append("  No other way was found in time.")
        for failure in self.failures:
            lines += failure.lines()
        return "\n".join((*lines, *(f"  {each}" for each in self.notes)))


def explain(problem: Problem, found: Plan | NoPlan | None = None) -> Explanation:
    """Explain the best plan, or what every goal lacks; `found` is the result of the search if it is known already."""
    found = found or best_plan(problem)
    if isinstance(found, Plan):
        steps, relied_on = _step_reasons(problem, found), tuple(reliances(problem, found))
        return Explanation(problem.goals, found, steps, relied_on, problem=problem)
    reach = Reach(problem)
    failures: list[UnreachableGoal] = []
    for goal in problem.goals:
        missing = missing_for(reach, goal)
        if missing or found.timed_out:
            failures.append(UnreachableGoal(goal, missing, timed_out=not missing))
        else:
            failures.append(UnreachableGoal(goal, clash=first_clash(reach, goal)))
    failures.sort(key=lambda failure: len(failure.missing))
    return Explanation(problem.goals, failures=tuple(failures), problem=problem)


def _turns(problem: Problem, plan: Plan, relied_on: Iterable[Reliance]) -> Iterator[tuple[str, WorldState, int]]:
    """What may differ from the plan's assumptions: a clause, the state then, and the number of steps that have run."""
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


def _after(before: WorldState, effects: Mapping[Fact, bool]) -> WorldState:
    true, unknown, undecidable = (
        each.difference(effects) for each in (before.true, before.unknown, before.undecidable)
    )
    return WorldState(true.union(fact for fact, value in effects.items() if value), unknown, undecidable)


def _step_reasons(problem: Problem, plan: Plan) -> tuple[StepReason, ...]:
    """For each step the facts that it changed and that a later step or the goal required."""
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
