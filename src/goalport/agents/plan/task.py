"""The task of one search, and its landmarks (LM-cut heuristic).

The task is the part of a problem that matters for one goal from one state. Walking backwards from the goal, it finds
the literals that may have to be produced and the moves that can produce them. Literals that no such move can disturb
are omitted, and so are moves that cannot help.

A landmark is a set of steps, with a cost, of which every plan from a state takes at least one. A relaxation, in which
no literal is ever taken away and only the most expensive need of a step counts, gives lower bounds of costs. From it
come cuts: steps of which every way to the goal takes one. The costs of cuts never add up to more than the cheapest
plan, because each pays with what earlier cuts left of its steps' costs (Helmert and Domshlak). A cut without the step
just taken is a cut of the next state too, so that hardly any is computed twice.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from goalport.agents.plan.problem import Move, Operator, PlanGoal, Problem


@dataclass(frozen=True, slots=True)
class Step:
    """A move with the task's own literal numbers, which are small, so that a state is one integer of bits."""

    move: int
    """The index of the move in the system."""
    operator: Operator
    needs: tuple[int, ...]
    gives: tuple[int, ...]
    required: int
    given: int
    kept: int
    """The mask of the literals that remain after the step."""

    def applicable(self, state: int) -> bool:
        """Whether the step can be taken in a state."""
        return state & self.required == self.required

    def after(self, state: int) -> int:
        """The state after taking the step in a state."""
        return state & self.kept | self.given


@dataclass(frozen=True, slots=True)
class Task:
    """A start, a goal, and the steps between; a state is the set of literals that hold, as bits."""

    start: int
    goal: int
    goal_literals: tuple[int, ...]
    literals: tuple[int, ...]
    """The system's number of each of the task's literals."""
    static_literals: tuple[int, ...]
    """The system's numbers of relevant literals that hold and that no step takes away."""
    steps: tuple[Step, ...]
    """In the order that breaks ties."""
    weights: tuple[int, ...]


def useful_steps(steps: Iterable[tuple[int, Step]], state: int) -> Iterator[tuple[int, Step]]:
    """The numbered steps that are applicable in a state and add a new literal."""
    absent = ~state
    for numbered in steps:
        step = numbered[1]
        if not step.required & absent and step.given & absent:
            yield numbered


def task_for(
    problem: Problem, wanted: Sequence[int], holding: bytearray, without: frozenset[int] = frozenset()
) -> Task:
    """The task of reaching the wanted literals from the state `holding`, without some moves."""
    relevance = Relevance(problem, holding, without)
    relevance.trace(wanted)
    return relevance.task(wanted)


def wanted_literals(problem: Problem, goal: PlanGoal) -> list[int] | None:
    """The literals that a goal requires; None if it requires an unmet fact that no operator mentions."""
    literals: list[int] = []
    for fact, value in goal.requires.items():
        literal = problem.system.literal(fact, value=value)
        if literal is not None:
            literals.append(literal)
        elif not problem.start.allows(fact, value=value):
            return None
    return literals


class Relevance:
    """The walk backwards. What holds at the start is to be produced only if a relevant move can take it away."""

    def __init__(self, problem: Problem, holding: bytearray, without: frozenset[int]) -> None:
        self._problem = problem
        self._without = without
        self._system = problem.system
        self._holding = holding
        self._needed = bytearray(len(holding))
        self._taken = bytearray(len(holding))
        self._moves: set[int] = set()
        self._produced: list[int] = []
        self._order: list[int] = []
        """The needed literals, in the order in which they were found."""

    def trace(self, wanted: Sequence[int]) -> None:
        """Find all moves that help to reach some literals, directly or through the needs of other moves."""
        self._need(wanted)
        for literal in self._produced:  # grows while we walk
            for index in self._system.achievers[literal]:
                if index not in self._moves:
                    self._include(index)

    def _include(self, index: int) -> None:
        move = self._system.moves[index]
        if index in self._without or move.operator.action in self._problem.excluded:
            return
        self._moves.add(index)
        self._need(move.needs)
        for literal in move.takes:
            if not self._taken[literal]:
                self._taken[literal] = 1
                if self._needed[literal] and self._holding[literal]:
                    self._produced.append(literal)

    def _need(self, literals: Sequence[int]) -> None:
        for literal in literals:
            if not self._needed[literal]:
                self._needed[literal] = 1
                self._order.append(literal)
                if self._taken[literal] or not self._holding[literal]:
                    self._produced.append(literal)

    def task(self, wanted: Sequence[int]) -> Task:
        """The task of reaching some literals with the moves that were found."""
        numbers = {literal: number for number, literal in enumerate(self._produced)}
        indexes = sorted(self._moves)
        moves = [self._system.moves[index] for index in indexes]
        goal = tuple(numbers[literal] for literal in wanted if literal in numbers)
        return Task(
            start=_bits([number for literal, number in numbers.items() if self._holding[literal]]),
            goal=_bits(goal),
            goal_literals=goal,
            literals=tuple(self._produced),
            static_literals=tuple(literal for literal in self._order if literal not in numbers),
            steps=tuple(_step(index, move, numbers) for index, move in zip(indexes, moves, strict=True)),
            weights=self._weights(moves),
        )

    def _weights(self, moves: Sequence[Move]) -> tuple[int, ...]:
        if not self._problem.costs:
            return tuple(move.weight for move in moves)
        # One scale for all tasks of a problem, whatever moves they have, so that their weights compare.
        scale = self._system.scale.widened(self._problem.costs.values())
        return tuple(scale.weight(self._problem.cost(move.operator)) for move in moves)


def _step(index: int, move: Move, numbers: Mapping[int, int]) -> Step:
    needs = tuple([numbers[literal] for literal in move.needs if literal in numbers])
    gives = tuple([numbers[literal] for literal in move.gives if literal in numbers])
    takes = [numbers[literal] for literal in move.takes if literal in numbers]
    return Step(index, move.operator, needs, gives, _bits(needs), _bits(gives), ~_bits(takes))


def _bits(numbers: Iterable[int]) -> int:
    bits = 0
    for number in numbers:
        bits |= 1 << number
    return bits


NEVER = 1 << 30
"""A count of open needs that never falls to 0: the step is impossible."""


class Graph:
    """The steps by the literals that they need and give, and the reverse; only literals that some step gives."""

    def __init__(self, task: Task) -> None:
        self.nothing = len(task.literals)
        """A literal that always holds: the only need of steps that need nothing."""
        self.goals = task.goal_literals or (self.nothing,)
        self.gives = [step.gives for step in task.steps]
        self.achievers: list[list[int]] = [[] for _ in range(self.nothing + 1)]
        self.consumers: list[list[int]] = [[] for _ in range(self.nothing + 1)]
        self._index(self.achievers, self.gives)
        self.needs = [tuple(filter(self.achievers.__getitem__, step.needs)) or (self.nothing,) for step in task.steps]
        self._index(self.consumers, self.needs)
        self.counts = [len(needs) for needs in self.needs]
        given = sum(1 << literal for literal, achievers in enumerate(self.achievers) if achievers)
        self.valued = given | task.goal
        """The literals, as bits, that may have a cost or that the goal requires; others are only in `guards`."""
        self.guards = [(index, guard) for index, step in enumerate(task.steps) if (guard := step.required & ~given)]
        """For each step the needed literals that no step gives: once one of them is lost, the step is impossible."""

    def _index(self, steps: list[list[int]], literals: Iterable[tuple[int, ...]]) -> None:
        for index, each in enumerate(literals):
            for literal in each:
                steps[literal].append(index)


class Relaxation:
    """The least costs of all literals in a state, kept up to date while cuts pay with the costs of steps.

    Steps that cost more than `most` are ignored.
    """

    def __init__(self, graph: Graph, state: int, costs: list[int], goals: tuple[int, ...], most: float) -> None:
        self._graph = graph
        self._goals = goals
        self._costs = costs
        self._most = most
        self._values: list[float] = [inf] * (graph.nothing + 1)
        self._supporters = [-1] * len(graph.needs)
        """For each reachable step the most expensive literal that it needs."""
        # From the cheapest literals up; it ends early where the goal costs nothing.
        waiting = list(self._graph.counts)
        for step, guard in self._graph.guards:
            if guard & ~state:
                waiting[step] = NEVER
        later: list[tuple[float, int]] = []
        now: float = 0
        fresh = [*numbers(state & self._graph.valued), self._graph.nothing]
        for literal in fresh:
            self._values[literal] = 0
        self._spread(fresh, now, waiting, later)
        while later and (now or not self.reaches_goal):
            now, step = heappop(later)
            fresh = [literal for literal in self._graph.gives[step] if self._values[literal] == inf]
            if fresh:
                for literal in fresh:
                    self._values[literal] = now
                self._spread(fresh, now, waiting, later)

    @property
    def reaches_goal(self) -> bool:
        """Whether all goal literals are reachable if no literal is ever taken away."""
        return all(self._values[literal] < inf for literal in self._goals)

    def hardest_goal(self) -> int | None:
        """The most expensive literal of the goal; None if all of them cost nothing."""
        hardest = max(self._goals, key=self._values.__getitem__)
        return hardest if self._values[hardest] else None

    def cut_before(self, literal: int) -> tuple[list[int], int]:
        """Steps of which every way to the literal takes one, and the least of their costs, by which each is reduced."""
        zone = self._zone(literal)
        limit = self._values[literal]
        entering = {step for literal in zone for step in self._graph.achievers[literal]}
        supporters = self._supporters
        steps = [
            step
            for step in entering
            if supporters[step] >= 0 and supporters[step] not in zone and self._is_before(zone, supporters[step], limit)
        ]
        weight = min(self._costs[step] for step in steps)
        for step in steps:
            self._costs[step] -= weight
        self._lower(steps)
        return steps, weight

    def _spread(self, fresh: list[int], now: float, waiting: list[int], later: list[tuple[float, int]]) -> None:
        """Set the values of literals reachable at no further cost; put steps with a cost into `later`."""
        consumers, supporters, costs = self._graph.consumers, self._supporters, self._costs
        gives, values, most = self._graph.gives, self._values, self._most
        while fresh:
            literal = fresh.pop()
            for step in consumers[literal]:
                waiting[step] -= 1
                if waiting[step] or costs[step] > most:
                    continue
                supporters[step] = literal
                if costs[step]:
                    heappush(later, (now + costs[step], step))
                    continue
                for given in gives[step]:
                    if values[given] == inf:
                        values[given] = now
                        fresh.append(given)

    def _zone(self, literal: int) -> set[int]:
        """The literals that lead to this literal at no further cost."""
        costs, supporters, achievers = self._costs, self._supporters, self._graph.achievers
        zone = {literal}
        frontier = [literal]
        while frontier:
            for step in achievers[frontier.pop()]:
                supporter = supporters[step]
                if not costs[step] and supporter >= 0 and supporter not in zone:
                    zone.add(supporter)
                    frontier.append(supporter)
        return zone

    def _is_before(self, zone: set[int], literal: int, limit: float) -> bool:
        """Whether the literal is reachable without the zone, as all literals are that cost less than the zone."""
        seen = {literal}
        frontier = [literal]
        while frontier:
            literal = frontier.pop()
            if self._values[literal] < limit:
                return True
            for step in self._graph.achievers[literal]:
                supporter = self._supporters[step]
                if supporter >= 0 and supporter not in zone and supporter not in seen:
                    seen.add(supporter)
                    frontier.append(supporter)
        return False

    def _lower(self, cheaper: Iterable[int]) -> None:
        """Update all values after the costs of some steps fell."""
        values, supporters, consumers, needs = self._values, self._supporters, self._graph.consumers, self._graph.needs
        changed: list[tuple[float, int]] = []
        for step in cheaper:
            self._offer(step, changed)
        while changed:
            value, literal = heappop(changed)
            if value > values[literal]:
                continue
            for step in consumers[literal]:
                if supporters[step] == literal:
                    if len(needs[step]) > 1:
                        supporters[step] = max(needs[step], key=values.__getitem__)
                    self._offer(step, changed)

    def _offer(self, step: int, changed: list[tuple[float, int]]) -> None:
        value = self._values[self._supporters[step]] + self._costs[step]
        for given in self._graph.gives[step]:
            if value < self._values[given]:
                self._values[given] = value
                heappush(changed, (value, given))


def unavoidable(graph: Graph, state: int) -> int:
    """The steps, as bits, that every way from a state to the goal takes; none if there is no way.

    The steps common to all ways to a literal are those common to the ways through each step that gives it.
    """
    everything = -1
    """All steps, as bits: the value of a literal to which no way is known yet."""
    common = [everything] * (graph.nothing + 1)
    alone = [1 << step for step in range(len(graph.needs))]
    for step, guard in graph.guards:
        if guard & ~state:
            alone[step] = everything
    changed = deque((*numbers(state & graph.valued), graph.nothing))
    for literal in changed:
        common[literal] = 0
    while changed:
        for step in graph.consumers[changed.popleft()]:
            through = alone[step]
            for need in graph.needs[step]:
                through |= common[need]
            for given in graph.gives[step]:
                shared = common[given] & through
                if shared != common[given]:
                    common[given] = shared
                    changed.append(given)
    taken = 0
    for literal in graph.goals:
        taken |= common[literal]
    return max(taken, 0)


def numbers(state: int) -> list[int]:
    """The numbers of the bits that are set."""
    return [number for number, bit in enumerate(bin(state)[:1:-1]) if bit == "1"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Indexes of steps of which one must be taken, and the least cost of that."""

    steps: frozenset[int]
    weight: int


@dataclass(frozen=True, slots=True)
class Bound:
    """A lower bound of a state: its cuts, and the costs of steps that the cuts leave."""

    cuts: tuple[Cut, ...]
    left: list[int]
    """For each step the part of its cost that no cut has used; it is never changed."""
    total: int
    """The least possible cost of a plan from the state."""

    def after(self, steps: Collection[int]) -> "Bound":
        """The bound of the state after some steps, as far as it is known from this one."""
        kept: list[Cut] = []
        left, total = list(self.left), self.total
        for cut in self.cuts:
            if cut.steps.isdisjoint(steps):
                kept.append(cut)
            else:
                total -= cut.weight
                for index in cut.steps:
                    left[index] += cut.weight
        return Bound(tuple(kept), left, total)


class Landmarks:
    """Finds the cuts of one task's states."""

    def __init__(self, task: Task) -> None:
        self.graph = Graph(task)
        self._weights = task.weights

    def unavoidable(self, state: int) -> Bound:
        """A first bound of a state, from the steps that every plan takes, each a cut by itself."""
        left = list(self._weights)
        steps = numbers(unavoidable(self.graph, state))
        for step in steps:
            left[step] = 0
        cuts = tuple(Cut(frozenset((step,)), self._weights[step]) for step in steps)
        return Bound(cuts, left, sum(cut.weight for cut in cuts))

    def completed(self, state: int, known: Bound, goals: tuple[int, ...] = (), most: float = inf) -> Bound | None:
        """A known bound with all further cuts; None if the goal cannot be reached, or only at more than `most`.

        `goals` replace the goal of the task.
        """
        left = list(known.left)
        gain = most if most == inf else most - known.total  # costs may be too large for a float
        relaxation = Relaxation(self.graph, state, left, goals or self.graph.goals, gain)
        if not relaxation.reaches_goal:
            return None
        found = list(known.cuts)
        total = known.total
        while (hardest := relaxation.hardest_goal()) is not None:
            steps, weight = relaxation.cut_before(hardest)
            found.append(Cut(frozenset(steps), weight))
            total += weight
            if total > most:
                return None
        return Bound(tuple(found), left, total)
