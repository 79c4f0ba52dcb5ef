"""Landmarks: sets of steps of which every plan from a state takes at least one, each with a cost.

The costs never add up to more than the cheapest plan, because each cut pays with what earlier cuts left of its steps'
costs (the LM-cut heuristic of Helmert and Domshlak); and a cut that does not contain the step just taken is a cut of
the next state too, so that hardly any is found twice. Below: the task. Above: the search.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from math import inf

from goalport.plan.task import Task

__all__ = ["Cut", "Landmarks"]


@dataclass(frozen=True, slots=True)
class Cut:
    """Steps, by index, of which one must be taken, and what that costs at least."""

    steps: frozenset[int]
    weight: int


class Landmarks:
    """Finds the cuts of one task's states."""

    def __init__(self, task: Task) -> None:
        self._task = task
        self._graph = Graph(task)

    def completed(self, state: int, cuts: Sequence[Cut]) -> tuple[Cut, ...] | None:
        """The cuts of a state, given some of them; None where the goal cannot be reached from it."""
        costs = list(self._task.weights)
        for cut in cuts:
            for step in cut.steps:
                costs[step] -= cut.weight
        relaxation = Relaxation(self._graph, state, costs)
        if any(relaxation.values[literal] == inf for literal in self._task.goal_literals):
            return None
        found = list(cuts)
        while (hardest := relaxation.hardest(self._task.goal_literals)) is not None:
            found.append(relaxation.cut_before(hardest))
        return tuple(found)


class Graph:
    """Which step needs and gives which literal, both ways round."""

    def __init__(self, task: Task) -> None:
        self.nothing = len(task.literals)
        """A literal that always holds: what the steps need that need nothing."""
        self.goal = task.goal_literals
        self.needs = [step.needs or (self.nothing,) for step in task.steps]
        self.gives = [step.gives for step in task.steps]
        self.counts = [len(needs) for needs in self.needs]
        self.consumers: list[list[int]] = [[] for _ in range(len(task.literals) + 1)]
        self.achievers: list[list[int]] = [[] for _ in range(len(task.literals) + 1)]
        for index, (needs, gives) in enumerate(zip(self.needs, self.gives, strict=True)):
            for literal in needs:
                self.consumers[literal].append(index)
            for literal in gives:
                self.achievers[literal].append(index)


class Relaxation:
    """What each literal costs at least from a state: nothing is ever taken away, and only the dearest need counts."""

    def __init__(self, graph: Graph, state: int, costs: list[int]) -> None:
        self._graph = graph
        self._costs = costs
        self.values: list[float] = [inf] * (graph.nothing + 1)
        self._supporters = [-1] * len(graph.needs)
        """For each step that can be taken the dearest literal that it needs."""
        self._holding = [*_numbers(state), graph.nothing]
        self._explore()

    def _explore(self) -> None:
        values, gives, consumers, costs = self.values, self._graph.gives, self._graph.consumers, self._costs
        waiting = list(self._graph.counts)
        fresh = list(self._holding)
        for literal in fresh:
            values[literal] = 0
        later: list[tuple[float, int]] = []
        now: float = 0
        while True:
            while fresh:
                literal = fresh.pop()
                for step in consumers[literal]:
                    waiting[step] -= 1
                    if not waiting[step]:
                        self._supporters[step] = literal
                        if costs[step]:
                            heappush(later, (now + costs[step], step))
                        else:
                            for given in gives[step]:
                                if values[given] == inf:
                                    values[given] = now
                                    fresh.append(given)
            if not later or (now == 0 and all(values[literal] == 0 for literal in self._graph.goal)):
                return
            now, step = heappop(later)
            for given in gives[step]:
                if values[given] == inf:
                    values[given] = now
                    fresh.append(given)

    def hardest(self, literals: Sequence[int]) -> int | None:
        """The dearest of the literals; None where all of them cost nothing."""
        hardest = max(literals, key=self.values.__getitem__, default=self._graph.nothing)
        return hardest if self.values[hardest] else None

    def cut_before(self, literal: int) -> Cut:
        """A cut that every way to the literal crosses; the values are lowered by what it costs."""
        zone = self._zone(literal)
        crossing = self._crossing(zone, self.values[literal])
        weight = min(self._costs[step] for step in crossing)
        for step in crossing:
            self._costs[step] -= weight
        self._lower(crossing)
        return Cut(frozenset(crossing), weight)

    def _zone(self, literal: int) -> set[int]:
        """The literals from which the given one costs nothing more."""
        zone = {literal}
        frontier = [literal]
        while frontier:
            for step in self._graph.achievers[frontier.pop()]:
                supporter = self._supporters[step]
                if not self._costs[step] and supporter >= 0 and supporter not in zone:
                    zone.add(supporter)
                    frontier.append(supporter)
        return zone

    def _crossing(self, zone: set[int], limit: float) -> list[int]:
        """The steps into the zone from where one gets without it. What costs less than the limit is before the zone."""
        values, supporters = self.values, self._supporters
        entering = {step for literal in zone for step in self._graph.achievers[literal] if supporters[step] not in zone}
        reached = [step for step in entering if supporters[step] >= 0]
        if all(values[supporters[step]] < limit for step in reached):
            return reached
        before = self._before(zone)
        return [step for step in reached if supporters[step] in before]

    def _before(self, zone: set[int]) -> set[int]:
        """The literals that one gets to without any of the zone."""
        frontier = list(self._holding)
        before = set(frontier)
        while frontier:
            literal = frontier.pop()
            for step in self._graph.consumers[literal]:
                if self._supporters[step] == literal:
                    fresh = [given for given in self._graph.gives[step] if given not in before and given not in zone]
                    before.update(fresh)
                    frontier += fresh
        return before

    def _lower(self, cheaper: Sequence[int]) -> None:
        """Carry through that some steps cost less now."""
        changed: list[tuple[float, int]] = []
        for step in cheaper:
            self._offer(step, changed)
        while changed:
            value, literal = heappop(changed)
            if value > self.values[literal]:
                continue
            for step in self._graph.consumers[literal]:
                if self._supporters[step] == literal:
                    self._supporters[step] = max(self._graph.needs[step], key=self.values.__getitem__)
                    self._offer(step, changed)

    def _offer(self, step: int, changed: list[tuple[float, int]]) -> None:
        value = self.values[self._supporters[step]] + self._costs[step]
        for given in self._graph.gives[step]:
            if value < self.values[given]:
                self.values[given] = value
                heappush(changed, (value, given))


def _numbers(state: int) -> list[int]:
    return [number for number, bit in enumerate(bin(state)[:1:-1]) if bit == "1"]
