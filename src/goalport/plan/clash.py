"""Clashes: why needs that can each be met cannot be met one after the other.

It takes the steps that would do if nothing were ever taken away, in the order in which they become possible, and tells
where that way breaks. Other ways break too, perhaps elsewhere: it is an example, not a proof. Below: reach and reasons.
"""

from collections.abc import Iterable, Sequence

from goalport.plan.operators import Goal
from goalport.plan.reach import Reach
from goalport.plan.reasons import Clash

__all__ = ["first_clash"]


def first_clash(reach: Reach, goal: Goal) -> Clash:
    """Where the nearest thing to a plan breaks; for a goal without a plan each of whose needs is within reach."""
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
    """The moves that bring the wanted literals within reach, in the order in which they become possible."""
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
