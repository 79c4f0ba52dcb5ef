"""The search for the cheapest plan to a goal, and the choice of a utility planner, which looks one step ahead.

A* over states that are integers, forward from the start. Of plans of equal cost the shortest wins, then the plan whose
steps come first in the system's order. So the same problem always has the same answer, and after a plan's first step,
its remaining steps are the answer to the remaining problem. Where a relaxed plan is proven to be a cheapest one, the
search follows it as far as it determines the answer. A utility planner takes the possible step of highest net value,
until a goal is reached. Below: the task and its landmarks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import inf
from time import thread_time
from typing import NamedTuple, TypeVar

from goalport.agents.plan.problem import Fact, HasRun, Holds, KnownPlan, Operator, PlanGoal, Problem, total
from goalport.agents.plan.reasons import Reliance, needed
from goalport.agents.plan.task import Bound, Graph, Landmarks, Task, numbers, task_for, useful_steps, wanted_literals


class RelaxedPlan(NamedTuple):
    """The steps of a relaxed plan that can be executed as they are; another plan may be cheaper."""

    weight: int
    path: tuple[int, ...]
    """The steps, by index."""


def relaxed_plan(task: Task, graph: Graph, state: int, bound: Bound) -> RelaxedPlan | None:
    """The cheapest executable relaxed plan from a state, if there is one; `bound` is the bound of the state."""
    cheap = _executable_plan(task, graph, state, task.weights, bound.total)
    if cheap is not None and cheap.weight == bound.total:
        return cheap
    return min(filter(None, (cheap, guided_plan(task, graph, state, bound))), default=None)


def guided_plan(task: Task, graph: Graph, state: int, bound: Bound) -> RelaxedPlan | None:
    """The executable relaxed plan that is cheapest by the costs that the cuts left: low for steps worth taking."""
    # A small part of the original costs breaks ties.
    costs = [left + (weight >> 12) for left, weight in zip(bound.left, task.weights, strict=True)]
    return _executable_plan(task, graph, state, costs, bound.total)


def settled_steps(task: Task, state: int, bound: Bound, relaxed: RelaxedPlan) -> list[int]:
    """The first steps of the answer, if the relaxed plan weighs no more than the bound.

    Of all plans of that weight, the answer begins with the first step in the order that breaks ties. If that is a step
    of the relaxed plan that disturbs none of its other steps, it is settled. Any other step has to be searched, unless
    the cuts left some of its cost: then every plan with it is more expensive.
    """
    steps = [(index, step) for index, step in enumerate(task.steps) if not bound.left[index]]
    others, settled = _others(task, relaxed.path), list[int]()
    while state & task.goal != task.goal:
        possible = useful_steps(steps, state)
        index, step = next(possible)
        needed, taken = others.pop(index, (-1, -1))
        disturbs = state & ~step.kept & needed or step.given & taken
        # If it is the only possible step, every plan of that weight begins with it.
        if disturbs and next(possible, None) is not None:
            break
        settled.append(index)
        state = step.after(state)
    return settled


def _others(task: Task, path: Sequence[int]) -> dict[int, tuple[int, int]]:
    """For each step of a plan the literals that its other steps need, and the literals that they take away, as bits."""
    others: dict[int, tuple[int, int]] = dict.fromkeys(path, (0, 0))
    for way in (path, path[::-1]):
        needed = taken = 0
        for index in way:
            step = task.steps[index]
            others[index] = others[index][0] | needed, others[index][1] | taken
            needed, taken = needed | step.required, taken | ~step.kept
    return others


def _executable_plan(task: Task, graph: Graph, state: int, costs: Sequence[int], least: int) -> RelaxedPlan | None:
    """The relaxed plan that is cheapest by these costs; None if its steps cannot be executed in order.

    If it weighs more than `least`, superfluous steps are removed, the most expensive first.
    """
    # The cheapest way to each literal by itself, joined: the result may not be executable.
    givers = _givers(graph, state, costs)
    needed = [literal for literal in task.goal_literals if literal in givers]
    steps: set[int] = set()
    for literal in needed:  # grows while we walk
        if givers[literal] not in steps:
            steps.add(givers[literal])
            needed += (need for need in graph.needs[givers[literal]] if need in givers)
    path = [index for index in dict.fromkeys(givers.values()) if index in steps]
    if not _reaches_goal(task, state, path):
        return None
    weight = sum(task.weights[index] for index in path)
    for index in sorted(path, key=task.weights.__getitem__, reverse=True) if weight > least else ():
        shorter = [each for each in path if each != index]
        if _reaches_goal(task, state, shorter):
            path = shorter
            weight -= task.weights[index]
    return RelaxedPlan(weight, tuple(path))


def _givers(graph: Graph, state: int, costs: Sequence[int]) -> dict[int, int]:
    """For each literal the step that gives it most cheaply, including the costs of its needs; in the order of cost."""
    givers: dict[int, int] = {}
    waiting, spent = list(graph.counts), list(costs)
    initial = {*numbers(state & graph.valued), graph.nothing}
    queue = [(0, -1, literal) for literal in initial]
    offers: dict[int, tuple[int, int]] = dict.fromkeys(initial, (0, -1))
    done: set[int] = set()
    while queue:
        cost, giver, literal = heappop(queue)
        if literal in done:
            continue
        done.add(literal)
        if literal not in initial:
            givers[literal] = giver
        for index in graph.consumers[literal]:
            spent[index] += cost
            waiting[index] -= 1
            if not waiting[index]:
                offer = (spent[index], index)
                for given in graph.gives[index]:
                    if given not in offers or offer < offers[given]:
                        offers[given] = offer
                        heappush(queue, (*offer, given))
    return givers


def _reaches_goal(task: Task, state: int, path: Sequence[int]) -> bool:
    for index in path:
        step = task.steps[index]
        if not step.applicable(state):
            return False
        state = step.after(state)
    return state & task.goal == task.goal


LARGE = 16
"""The number of steps from which on it pays to remove useless steps."""

WORTHWHILE = 0.25
"""The share of steps too expensive for the known plan from which on a smaller task is created without them."""

ENOUGH = 3000
"""The most branches that are examined before the search takes over."""


@dataclass(frozen=True, slots=True)
class SearchStart:
    """A task, the bound of its start state, and an upper limit for the weight of its cheapest plan."""

    task: Task
    landmarks: Landmarks
    bound: Bound
    limit: float = inf
    known_steps: tuple[Operator, ...] | None = None
    """For a large task, the steps of a plan of that weight; `task` may lack some of them."""

    def with_plan(self, task: Task, plan: RelaxedPlan) -> "SearchStart":
        """The same start with a plan of a larger task as the limit; this task may lack some of its steps."""
        return replace(self, limit=plan.weight, known_steps=tuple(task.steps[index].operator for index in plan.path))


def search_start(task: Task, without: Callable[[frozenset[int]], Task], until: float | None) -> SearchStart:
    """The start of a search; a large task is reduced by the steps that provably no cheapest plan takes.

    `without` creates the task without some moves. Choices are examined until the time `until` (`thread_time`).
    """
    landmarks = Landmarks(task)
    known = landmarks.unavoidable(task.start)
    bound = landmarks.completed(task.start, known) if len(task.steps) >= LARGE else None
    if bound is None:
        return SearchStart(task, landmarks, known)
    plan, fitting = relaxed_plan(task, landmarks.graph, task.start, bound), None
    if plan is None:
        return SearchStart(task, landmarks, bound)
    if plan.weight > bound.total:
        gain = plan.weight - bound.total
        too_dear = frozenset(step.move for step, left in zip(task.steps, bound.left, strict=True) if left > gain)
        if len(too_dear) >= len(task.steps) * WORTHWHILE:
            smaller = search_start(without(too_dear), lambda moves: without(too_dear | moves), until)
            return smaller if smaller.limit <= plan.weight else smaller.with_plan(task, plan)
        plan, fitting = _Choices(task, landmarks, bound).decided(plan, until)
    start = SearchStart(task, landmarks, bound)
    if fitting is not None:
        smaller = without(frozenset(step.move for index, step in enumerate(task.steps) if index not in fitting))
        landmarks = Landmarks(smaller)
        start = SearchStart(smaller, landmarks, landmarks.unavoidable(smaller.start))
    return start.with_plan(task, plan)


class _Branch(NamedTuple):
    """Some choices made. Branches compare by the least weight of a plan that agrees with them, the latest first."""

    total: int
    order: int
    bound: Bound
    goals: tuple[int, ...]
    """The literals that such a plan has to reach: those of the goal, and the needs of the chosen steps."""


class _Choices:
    """The branches of one task, from its start."""

    def __init__(self, task: Task, landmarks: Landmarks, bound: Bound) -> None:
        self._task = task
        self._landmarks = landmarks
        self._most = sum(task.weights)
        """The largest weight that a plan without superfluous steps can have."""
        self._open = [_Branch(bound.total, 0, bound, landmarks.graph.goals)]
        self._looked = 0

    def decided(self, plan: RelaxedPlan, until: float | None) -> tuple[RelaxedPlan, frozenset[int] | None]:
        """The cheapest relaxed plan, and the indexes of all steps that plans of the same weight can have.

        The indexes are None if a cheaper plan may exist.
        """
        while self._open and self._open[0].total < plan.weight:
            branch = heappop(self._open)
            # The cut of the highest weight per branch, without the barred steps.
            cuts = [
                (cut.weight, [index for index in cut.steps if branch.bound.left[index] <= self._most])
                for cut in branch.bound.cuts
            ]
            promises = [(weight / (len(steps) - 1), steps) for weight, steps in cuts if len(steps) > 1]
            cut = max(promises, default=(0.0, list[int]()))[1]
            if not cut or self._looked > ENOUGH or (until is not None and thread_time() > until):
                # With no choice left, the steps are in conflict: that takes a search, which regards their order.
                return plan, None
            for made in self._branches(branch, cut, plan.weight):
                if made.total < plan.weight:
                    found = guided_plan(self._task, self._landmarks.graph, self._task.start, made.bound)
                    plan = found if found is not None and found.weight < plan.weight else plan
                if made.total <= plan.weight:
                    heappush(self._open, made)
        fitting = [branch.bound.left for branch in self._open if branch.total == plan.weight]
        return plan, frozenset(index for left in fitting for index, cost in enumerate(left) if not cost)

    def _branches(self, branch: _Branch, cut: list[int], most: int) -> Iterator[_Branch]:
        """For each step of a cut the branch in which it is taken, and no earlier step of the cut is."""
        for number, index in enumerate(cut):
            self._looked += 1
            goals = tuple({*branch.goals, *self._landmarks.graph.needs[index]})
            known = self._with(branch.bound, index, cut[:number])
            bound = self._landmarks.completed(self._task.start, known, goals, most) if known.total <= most else None
            if bound is not None:
                yield _Branch(bound.total, -self._looked, bound, goals)

    def _with(self, bound: Bound, taken: int, barred: Iterable[int]) -> Bound:
        known = bound.after((taken,))
        left = list(known.left)
        left[taken] = 0
        for index in barred:
            left[index] += 2 * self._most
        return Bound(known.cuts, left, known.total + self._task.weights[taken])


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps to a goal, empty if it holds already. If the plan is proven, no plan to the goal costs less."""

    goal: PlanGoal
    steps: tuple[Operator, ...]
    cost: float
    value: float
    """The sum of the values of the goal and the steps."""
    proven: bool = True
    """False where the time was up before a cheaper plan to the goal could be ruled out."""
    expansions: int = field(compare=False, default=0)
    """The number of states that the search expanded."""

    @property
    def net_value(self) -> float:
        """The value of the plan minus its cost."""
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
        """Whether this is certain: more time would find no plan either."""
        return not self.timed_out


def plan(problem: Problem) -> Plan | Undecided | NoPlan:
    """The best plan if it relies on no unknown fact, else an unknown fact that it relies on; or no plan.

    Of several such facts the cheapest to evaluate is returned, of equals the one that is needed first.
    """
    plans = _plans(problem)
    if isinstance(plans, NoPlan):
        return plans
    found = _best(plans)
    unknown = reliances(problem, found)
    if not unknown and (problem.system.has_values or any(problem.values.values())):
        # A fact that another goal's plan relies on may lead to a plan to that goal of higher cost and net value.
        unknown = [relied_on for other in plans for relied_on in reliances(problem, other)]
    asked = problem.system.cheapest(each.fact for each in unknown)
    return found if asked is None else Undecided(asked, found.expansions, found.proven)


def best_plan(problem: Problem) -> Plan | NoPlan:
    """The plan of greatest net value, assuming for each unknown fact the value that suits it."""
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
    """The goals, each with the end of its search time: an equal share of the time that is left."""
    end = None if problem.deadline is None else thread_time() + problem.deadline
    for number, goal in enumerate(problem.goals):
        now = thread_time()
        yield goal, None if end is None else now + (end - now) / (len(problem.goals) - number)


def reliances(problem: Problem, found: Plan) -> list[Reliance]:
    """The unknown facts that a plan relies on, in the order in which it needs them."""
    unknown = set(problem.start.unknown)
    if not unknown:
        return []
    relied_on: list[Reliance] = []
    for taker in (*found.steps, found.goal):
        relied_on += [Reliance(fact, value, taker.name) for fact, value in taker.requires.items() if fact in unknown]
        unknown.difference_update(taker.requires, taker.effects if isinstance(taker, Operator) else ())
    return relied_on


class Found(NamedTuple):
    """The result of one search."""

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
    moves = [start.task.steps[index].move for index in path]
    steps = {step.move: step for step in task.steps}
    state, states = task.start, {task.start: 0}
    for number, move in enumerate(moves, start=1):
        state = steps[move].after(state)
        states[state] = number
    known = KnownPlan(tuple(steps[move].operator for move in moves), states, task.literals, task.static_literals)
    problem.system.known_plans.remember(question, known)
    return Found(known.steps, search.expansions)


def _plan(problem: Problem, goal: PlanGoal, found: Found, expansions: int) -> Plan:
    assert found.steps is not None
    cost = total(map(problem.cost, found.steps))
    value = total((goal.value, *map(problem.value, found.steps)))
    return Plan(goal, found.steps, cost, value, not found.timed_out, expansions)


class Node(NamedTuple):
    """A path to a state. Nodes compare by the estimated least cost of a plan through them, then by their steps."""

    estimate: int
    path: tuple[int, ...]
    cost: int
    state: int
    bound: Bound
    """The bound of the state, or of an earlier one: it is computed late, since most nodes are never expanded."""
    seen: int
    """The number of steps to the state that has this bound."""


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
        """The indexes of the answer's steps; None if there is no answer, or no time left."""
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
                known = node.bound.after(node.path[node.seen :])
                bound = self._landmarks.completed(node.state, known)
                if bound is not None:
                    heappush(
                        self._open, node._replace(estimate=node.cost + bound.total, bound=bound, seen=len(node.path))
                    )
            elif not self._settle(node):
                self.expansions += 1
                self._expand(node)
        return None

    def _begin(self, node: Node) -> None:
        """Continue the search from this node only."""
        self._open = [node]
        self._best: dict[int, tuple[int, tuple[int, ...]]] = {node.state: (node.cost, node.path)}

    def _settle(self, node: Node) -> bool:
        """Take the steps that need no search, if a relaxed plan from the best node costs no more than its bound.

        Then the answer leads through that node, and all other nodes are dropped.
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
        for index, step in useful_steps(enumerate(task.steps), node.state):
            # Cuts with this step have paid for it, and are no cuts of the next state.
            estimate = node.estimate + node.bound.left[index]
            cost, path = node.cost + task.weights[index], (*node.path, index)
            after = step.after(node.state)
            known = self._best.get(after)
            if estimate <= self._limit and (known is None or (cost, path) < known):
                self._best[after] = cost, path
                heappush(self._open, Node(estimate, path, cost, after, node.bound, node.seen))


NIRVANA = PlanGoal("Nirvana", {Holds("nirvana"): True})
"""Never reached, so that a process continues as long as there is something to do."""

_MOST_NAMED = 5
"""The most blocked actions that a message names."""

T = TypeVar("T", PlanGoal, Operator)


def best_step(problem: Problem) -> Plan | Undecided | NoPlan:
    """An empty plan if a goal is reached, else the possible step of greatest net value; or no plan.

    Of steps of equal value the one with more preconditions is taken, then the one that was declared first. If the
    choice depends on an unknown fact, that fact is returned as `Undecided`.
    """
    goals = (goal for goal in problem.goals if _lacking(problem, goal.requires) is None)
    reached = _most_valuable(problem, goals, lambda goal: goal.value)
    if isinstance(reached, Undecided):
        return reached
    if reached is not None:
        return Plan(reached, (), 0.0, reached.value)
    step = _most_valuable(problem, _applicable(problem), lambda step: total((problem.value(step), -problem.cost(step))))
    if isinstance(step, Undecided):
        return step
    if step is None:
        return NoPlan(problem.goals, expansions=1)
    cost, value = problem.cost(step), problem.value(step)
    towards = [NIRVANA]
    for goal in reversed(problem.goals):
        left = {fact: value for fact, value in goal.requires.items() if fact not in step.effects}
        given = all(step.effects.get(fact, value) is value for fact, value in goal.requires.items())
        if given and _lacking(problem, left) is None:
            towards.insert(0, goal)
    plans = [Plan(goal, (step,), cost, total((goal.value, value)), expansions=1) for goal in towards]
    return max(plans, key=lambda plan: plan.net_value)


def idleness(problem: Problem) -> str:
    """Why no step can be taken: the first missing precondition of each action that has not run, in a sentence."""
    lacks = {each.action: _lacking(problem, each.requires) for each in problem.system.operators}
    waiting = [(name, fact) for name, fact in lacks.items() if fact and fact[0] != HasRun(name)]
    if not waiting:
        return "every action has run, or is left out"
    named = "; ".join(f"{name} needs {needed(fact, value=value)}" for name, (fact, value) in waiting[:_MOST_NAMED])
    more = len(waiting) - _MOST_NAMED
    return f"{named}{f'; and {more} more cannot run either' if more > 0 else ''}"


def _most_valuable(problem: Problem, candidates: Iterable[T], worth: Callable[[T], float]) -> T | Undecided | None:
    """The candidate of the highest worth, the first of equals; or the cheapest unknown fact that it requires."""
    best = max(candidates, key=worth, default=None)
    unknown = (fact for fact in best.requires if fact in problem.start.unknown) if best else iter(())
    asked = problem.system.cheapest(unknown)
    return best if asked is None else Undecided(asked, expansions=1)


def _applicable(problem: Problem) -> Iterator[Operator]:
    """The operators that are possible if unknown facts turn out well, in the order that breaks ties."""
    holding = problem.system.literals_allowed_by(problem.start)
    for move in problem.system.moves:
        if all(map(holding.__getitem__, move.needs)) and move.operator.action not in problem.excluded:
            yield move.operator


def _lacking(problem: Problem, requires: Mapping[Fact, bool]) -> tuple[Fact, bool] | None:
    """The first requirement that cannot be assumed to be met."""
    needs = requires.items()
    return next(((fact, value) for fact, value in needs if not problem.start.allows(fact, value=value)), None)
