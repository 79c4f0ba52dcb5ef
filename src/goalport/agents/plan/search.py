"""The search: the cheapest plan to a goal, and the best of the plans to several.

A* over states that are integers, forward from the start. Of plans of equal cost the shortest wins, and of those the one
whose steps come first in the order of the system, step by step: the same problem has the same answer every time, and
what is left of a plan after its first step is the answer to what is left of the problem. Where a relaxed plan is proven
to be a cheapest one, the search follows it as far as that settles the answer. Below: choices, relaxed plans, landmarks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from time import thread_time
from typing import NamedTuple

from goalport.agents.plan.choices import SearchStart, search_start
from goalport.agents.plan.landmarks import Bound
from goalport.agents.plan.problem import Fact, KnownPlan, Operator, PlanGoal, Problem, total
from goalport.agents.plan.reasons import Reliance
from goalport.agents.plan.relaxed_plans import relaxed_plan, settled_steps
from goalport.agents.plan.task import Task, fruitful, task_for, wanted_literals


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps to a goal, none where it holds already; if it is proven, no other plan to the goal costs less."""

    goal: PlanGoal
    steps: tuple[Operator, ...]
    cost: float
    value: float
    """What the goal and the steps are worth."""
    proven: bool = True
    """False where the time was up before a cheaper plan to the goal could be ruled out."""
    expansions: int = field(compare=False, default=0)
    """How many states the search looked beyond."""

    @property
    def net_value(self) -> float:
        """What the plan is worth less what it costs."""
        return total((self.value, -self.cost))


@dataclass(frozen=True, slots=True)
class Undecided:
    """The best plan depends on this fact. Find out, put the answer into the world state, and plan again."""

    fact: Fact
    expansions: int = field(compare=False, default=0)
    proven: bool = True
    """False where the time was up before the best plan was found, so that another may be better."""


@dataclass(frozen=True, slots=True)
class NoPlan:
    """None of the goals can be reached, or none was found in time."""

    goals: tuple[PlanGoal, ...]
    expansions: int = field(compare=False, default=0)
    timed_out: bool = False

    @property
    def proven(self) -> bool:
        """Whether more time could not bring one."""
        return not self.timed_out


def plan(problem: Problem) -> Plan | Undecided | NoPlan:
    """The best plan if it stands on nothing unknown, else an unknown fact that it stands on; or no plan.

    Of several such facts it is the one that takes least to find out, of equals the one that is needed first.
    """
    plans = _plans(problem)
    if isinstance(plans, NoPlan):
        return plans
    found = _best(plans)
    unknown = reliances(problem, found)
    if not unknown and (problem.system.has_values or any(problem.values.values())):
        # The answer to what another goal's plan stands on may lead that goal to a plan that costs more and brings more.
        unknown = [relied_on for other in plans for relied_on in reliances(problem, other)]
    asked = problem.system.cheapest(each.fact for each in unknown)
    return found if asked is None else Undecided(asked, found.expansions, found.proven)


def best_plan(problem: Problem) -> Plan | NoPlan:
    """The plan of greatest net value, taking each unknown fact for whatever suits it."""
    plans = _plans(problem)
    return plans if isinstance(plans, NoPlan) else _best(plans)


def _plans(problem: Problem) -> list[Plan] | NoPlan:
    """The cheapest plan to each goal that has one, in the order of the goals."""
    searches = [_searched(problem, goal, until) for goal, until in _with_times(problem)]
    expansions = sum(search.expansions for search in searches)
    plans = [
        _plan(problem, goal, search, expansions)
        for goal, search in zip(problem.goals, searches, strict=True)
        if search.steps is not None
    ]
    return plans or NoPlan(problem.goals, expansions, timed_out=any(search.timed_out for search in searches))


def _best(plans: Sequence[Plan]) -> Plan:
    return max(plans, key=lambda candidate: candidate.net_value)


def _with_times(problem: Problem) -> Iterator[tuple[PlanGoal, float | None]]:
    """The goals, each with the time until which it may be searched for: an equal part of what is left."""
    end = None if problem.deadline is None else thread_time() + problem.deadline
    for number, goal in enumerate(problem.goals):
        now = thread_time()
        yield goal, None if end is None else now + (end - now) / (len(problem.goals) - number)


def reliances(problem: Problem, found: Plan) -> list[Reliance]:
    """The unknown facts that a plan stands on, in the order in which it needs them."""
    unknown = set(problem.start.unknown)
    if not unknown:
        return []
    relied_on: list[Reliance] = []
    for taker in (*found.steps, found.goal):
        relied_on += [Reliance(fact, value, taker.name) for fact, value in taker.requires.items() if fact in unknown]
        unknown.difference_update(taker.requires, taker.effects if isinstance(taker, Operator) else ())
    return relied_on


class Found(NamedTuple):
    """What one search brought."""

    steps: tuple[Operator, ...] | None
    expansions: int = 0
    timed_out: bool = False


def _searched(problem: Problem, goal: PlanGoal, until: float | None) -> Found:
    wanted = wanted_literals(problem, goal)
    if wanted is None:
        return Found(None)
    holding = problem.system.literals_allowed_by(problem.start)
    question = (goal, problem.excluded, frozenset(problem.costs.items()))
    rest = problem.system.known_plans.rest(question, holding)
    if rest is not None:
        return Found(rest)
    task = task_for(problem, wanted, holding)
    start = search_start(task, lambda without: task_for(problem, wanted, holding, without), until)
    search = Search(start, until)
    path = search.run()
    if path is None:
        return Found(start.known_steps, search.expansions, search.timed_out)
    known = _known(task, [start.task.steps[index].move for index in path])
    problem.system.known_plans.remember(question, known)
    return Found(known.steps, search.expansions)


def _known(task: Task, moves: Sequence[int]) -> KnownPlan:
    """The plan with the states on its way, told by all that could matter and not only by what the search looked at."""
    steps = {step.move: step for step in task.steps}
    state, states = task.start, {task.start: 0}
    for number, move in enumerate(moves, start=1):
        state = steps[move].after(state)
        states[state] = number
    return KnownPlan(tuple(steps[move].operator for move in moves), states, task.literals, task.held)


def _plan(problem: Problem, goal: PlanGoal, found: Found, expansions: int) -> Plan:
    assert found.steps is not None
    cost = total(map(problem.cost, found.steps))
    value = total((goal.value, *map(problem.value, found.steps)))
    return Plan(goal, found.steps, cost, value, not found.timed_out, expansions)


class Node(NamedTuple):
    """A way to a state. Nodes compare by what a plan through them costs at least, then by their steps."""

    estimate: int
    path: tuple[int, ...]
    cost: int
    state: int
    bound: Bound
    """Of the state, or of one before it while nobody has looked: most nodes are never worth a closer look."""
    seen: int
    """How many steps led to the state that the bound is of."""


class Search:
    """One run of A* over a task."""

    def __init__(self, start: SearchStart, until: float | None) -> None:
        self.expansions = 0
        self.timed_out = False
        self._task = start.task
        self._limit = start.limit
        self._until = until
        self._landmarks = start.landmarks
        self._begin(Node(0, (), 0, start.task.start, start.bound, 0))

    def run(self) -> tuple[int, ...] | None:
        """The steps of the answer, by index; None where there is none, or no more time."""
        while self._open:
            node = heappop(self._open)
            if self._best[node.state] != (node.cost, node.path):
                continue
            if node.state & self._task.goal == self._task.goal:
                return node.path
            if self._until is not None and thread_time() > self._until:
                self.timed_out = True
                return None
            if node.seen < len(node.path) or not node.estimate:
                self._complete(node)
            elif not self._settle(node):
                self.expansions += 1
                self._expand(node)
        return None

    def _begin(self, node: Node) -> None:
        """Search on from this node alone."""
        self._open = [node]
        self._best: dict[int, tuple[int, tuple[int, ...]]] = {node.state: (node.cost, node.path)}

    def _complete(self, node: Node) -> None:
        """Put a node back with all that can be said of what is to come, or drop it if it leads nowhere."""
        known = node.bound.after(node.path[node.seen :])
        bound = self._landmarks.completed(node.state, known)
        if bound is not None:
            heappush(self._open, node._replace(estimate=node.cost + bound.total, bound=bound, seen=len(node.path)))

    def _settle(self, node: Node) -> bool:
        """Go as far as needs no search, where a relaxed plan from the first of the best nodes costs no more.

        Then the answer leads through that node, and all others can be forgotten.
        """
        found = relaxed_plan(self._task, self._landmarks.graph, node.state, node.bound)
        if found is None or found.weight > node.bound.total:
            return False
        self._limit = node.estimate
        settled = settled_steps(self._task, node.state, node.bound, found)
        if not settled:
            return False
        self.expansions += len(settled)
        state, cost = node.state, node.cost
        for index in settled:
            state = self._task.steps[index].after(state)
            cost += self._task.weights[index]
        self._begin(node._replace(path=(*node.path, *settled), state=state, cost=cost))
        return True

    def _expand(self, node: Node) -> None:
        task = self._task
        for index, step in fruitful(enumerate(task.steps), node.state):
            # The cuts that hold the step have paid for it, and are no cuts of what comes after it.
            estimate = node.estimate + node.bound.left[index]
            cost, path = node.cost + task.weights[index], (*node.path, index)
            after = step.after(node.state)
            known = self._best.get(after)
            if estimate <= self._limit and (known is None or (cost, path) < known):
                self._best[after] = cost, path
                heappush(self._open, Node(estimate, path, cost, after, node.bound, node.seen))
