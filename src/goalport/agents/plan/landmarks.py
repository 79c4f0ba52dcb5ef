"""Landmarks: sets of steps of which every plan from a state takes at least one, each with a cost (LM-cut heuristic).

A relaxation tells what things cost at least if nothing were ever taken away and only the dearest need counted; from it
come cuts, steps of which one must be taken, however one goes on. The costs of cuts never add up to more than the
cheapest plan, because each pays with what earlier cuts left of its steps' costs (Helmert and Domshlak); and a cut that
does not contain the step just taken is a cut of the next state too, so that hardly any is found twice. Below: the task.
Above: ready plans, choices and the search.
"""

from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from goalport.agents.plan.task import Task

NEVER = 1 << 30
"""More needs than a step can have: it waits for ever."""


class Graph:
    """Which step needs and gives which literal, both ways round; only literals that some step gives."""

    def __init__(self, task: Task) -> None:
        self.nothing = len(task.literals)
        """A literal that always holds: what the steps need that need nothing."""
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
        """The literals, as bits, that may have a cost, or that the goal wants; the others are in the guards alone."""
        self.guards = [(index, guard) for index, step in enumerate(task.steps) if (guard := step.required & ~given)]
        """What steps need that no step gives: once it is gone, the step is out of the question."""

    def _index(self, steps: list[list[int]], literals: Iterable[tuple[int, ...]]) -> None:
        for index, each in enumerate(literals):
            for literal in each:
                steps[literal].append(index)


class Relaxation:
    """The least costs of all literals in a state, kept up to date while cuts pay with the costs of steps.

    Steps that cost more than `most` are out of the question.
    """

    def __init__(self, graph: Graph, state: int, costs: list[int], goals: tuple[int, ...], most: float) -> None:
        self._graph = graph
        self._goals = goals
        self._costs = costs
        self._most = most
        self._values: list[float] = [inf] * (graph.nothing + 1)
        self._supporters = [-1] * len(graph.needs)
        """For each step that can be taken the dearest literal that it needs."""
        self._explore(state)

    @property
    def reaches_goal(self) -> bool:
        """Whether everything that the goal needs can be had if nothing is ever taken away."""
        return all(self._values[literal] < inf for literal in self._goals)

    def hardest_goal(self) -> int | None:
        """The dearest literal of the goal; None where all of it costs nothing."""
        hardest = max(self._goals, key=self._values.__getitem__)
        return hardest if self._values[hardest] else None

    def cut_before(self, literal: int) -> tuple[list[int], int]:
        """Steps of which every way to the literal takes one, and the least of their costs, which all of them pay."""
        zone = self._zone(literal)
        steps = self._crossing(zone, self._values[literal])
        weight = min(self._costs[step] for step in steps)
        for step in steps:
            self._costs[step] -= weight
        self._lower(steps)
        return steps, weight

    def _explore(self, state: int) -> None:
        """Go through the literals from the cheapest up; stop early where the goal costs nothing."""
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

    def _spread(self, fresh: list[int], now: float, waiting: list[int], later: list[tuple[float, int]]) -> None:
        """From literals that cost so much go on to all that costs no more; steps that cost something come later."""
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
        """The literals from which the given one costs nothing more."""
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

    def _crossing(self, zone: set[int], limit: float) -> list[int]:
        """The steps into the zone from where one gets without it."""
        entering = {step for literal in zone for step in self._graph.achievers[literal]}
        supporters = self._supporters
        return [
            step
            for step in entering
            if supporters[step] >= 0 and supporters[step] not in zone and self._is_before(zone, supporters[step], limit)
        ]

    def _is_before(self, zone: set[int], literal: int, limit: float) -> bool:
        """Whether one gets to the literal without the zone, as one does to all that costs less than the zone."""
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
        """Carry through that some steps cost less now."""
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
    """The steps, as bits, that every way from a state to the goal takes; none where there is no way.

    What all ways to a literal have in common is what the ways through each of the steps that give it have in common.
    """
    everything = -1
    """What the ways to a literal have in common as long as none is known."""
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
    """Steps, by index, of which one must be taken, and what that costs at least."""

    steps: frozenset[int]
    weight: int


@dataclass(frozen=True, slots=True)
class Bound:
    """Cuts of a state and what they leave of the steps' costs."""

    cuts: tuple[Cut, ...]
    left: list[int]
    """For each step what no cut has paid with; never changed once the bound is made."""
    total: int
    """What a plan from the state costs at least."""

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
        """A first bound of a state: the steps that no plan can do without, each a cut by itself."""
        left = list(self._weights)
        steps = numbers(unavoidable(self.graph, state))
        for step in steps:
            left[step] = 0
        cuts = tuple(Cut(frozenset((step,)), self._weights[step]) for step in steps)
        return Bound(cuts, left, sum(cut.weight for cut in cuts))

    def completed(self, state: int, known: Bound, goals: tuple[int, ...] = (), most: float = inf) -> Bound | None:
        """A bound with every cut that the known ones leave room for; None where the goal cannot be reached.

        Other goals than the task's may be given, and what a plan to them may weigh at most.
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
