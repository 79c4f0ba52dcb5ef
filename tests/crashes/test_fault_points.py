"""A program ends by SIGKILL at any point of its work, and the next one ends the work as if nothing had happened.

`GOALPORT_CRASHES=all` tries all points; otherwise those after each commit and each effect, and some of the others.
"""

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from tests.crashes.crews import effects_of
from tests.crashes.faults import Crew, forked, run_program

ALL = os.environ.get("GOALPORT_CRASHES") == "all"
KILLED = -9
MakeCrew = Callable[[], Crew]


def chosen(names: Sequence[str], *, few: bool) -> Sequence[int]:
    """The numbers of the points at which a program ends, from 1."""
    numbers = range(1, len(names) + 1)
    if ALL:
        return numbers
    telling = [each for each in numbers if names[each - 1].startswith("after") or "after the commit" in names[each - 1]]
    return sorted({*telling[:: 8 if few else 2], *numbers[:: 50 if few else 20]})


def goes_on(whole: Sequence[str], first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether the second program did what was left: the last step perhaps again, as it was not known, and no other.

    The actions that had begun and not ended may begin again, each once.
    """
    return any(
        _follows(second, whole[done:], _begun(whole[:done]))
        for done in (len(first), len(first) - 1)
        if done >= 0 and whole[: len(first)] == first
    )


def _begun(lines: Sequence[str]) -> frozenset[str]:
    begun = {line.removeprefix("begin") for line in lines if line.startswith("begin")}
    return frozenset(f"begin{each}" for each in begun if f"end{each}" not in lines)


def _follows(lines: Sequence[str], wanted: Sequence[str], again: frozenset[str]) -> bool:
    if not lines:
        return not wanted
    if wanted and lines[0] == wanted[0] and _follows(lines[1:], wanted[1:], again):
        return True
    return lines[0] in again and _follows(lines[1:], wanted, again - {lines[0]})


def crashed_at(crew: Crew, point: int) -> tuple[Crew, int]:
    """A crew whose program ended at a point and was followed by another; and how many effects the first one had."""
    first = forked(run_program, crew, point)
    effects = len(crew.effects.lines)
    assert first == KILLED or (first == 0 and crew.result)
    if first == KILLED:
        assert forked(run_program, crew, 0) == 0, f"The program that followed did not end; point {point}"
    return crew, effects


def test_wherever_a_program_is_killed_the_next_one_does_the_rest_and_nothing_twice(make_crew: MakeCrew) -> None:
    undisturbed = make_crew()
    assert forked(run_program, undisturbed, 0) == 0
    whole, names = effects_of(undisturbed.effects.lines), undisturbed.points
    assert "Film(" in undisturbed.result
    points = chosen(names, few="postgresql" in undisturbed.place)
    with ThreadPoolExecutor(2) as several:
        ended = several.map(crashed_at, [make_crew() for _ in points], points)
        for point, (crew, count_of_first) in zip(points, ended, strict=True):
            lines = effects_of(crew.effects.lines)
            first, second = lines[:count_of_first], lines[count_of_first:]
            where = f"killed at point {point}, {names[point - 1]}: {first} and then {second}"
            if crew.result == "unknown":
                assert not lines, where
            else:
                assert crew.result == undisturbed.result, where
                assert goes_on(whole, first, second) or not second, where
