"""Places and turns: no place is lost or given twice, and a flood takes none that another will want at once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio
from hypothesis import given, settings, strategies as st

from goalport.server.publish.limits import FairQueue, Who

LONG = 60.0
FLOOD, ADA, BOB = ("", "flood"), ("", "ada"), ("", "bob")


class Callers:
    """Callers of a queue, and the places that they have."""

    def __init__(self, places: int, seconds: float = LONG) -> None:
        self.queue = FairQueue(places, seconds)
        self.held: Counter[Who] = Counter()
        self.waiting: list[tuple[Who, asyncio.Task[None]]] = []

    def call(self, who: Who) -> bool:
        """Take a place, or begin to wait for one."""
        if self.queue.take(who):
            self.held[who] += 1
            return True
        self.waiting.append((who, asyncio.create_task(self._wait(who))))
        return False

    async def _wait(self, who: Who) -> None:
        await self.queue.wait(who)
        self.held[who] += 1

    def end(self, who: Who) -> None:
        if self.held[who]:
            self.held[who] -= 1
            self.queue.leave(who)

    async def give_up(self, number: int) -> None:
        if self.waiting:
            _, task = self.waiting.pop(number % len(self.waiting))
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def settle(self) -> None:
        """Let those run who were given a place."""
        for _ in range(4):
            await asyncio.sleep(0)
        self.waiting = [(who, task) for who, task in self.waiting if not task.done()]


def played(play: Callable[[], Awaitable[None]]) -> None:
    async def bounded() -> None:
        with anyio.fail_after(60):
            await play()

    asyncio.run(bounded())


STEPS = st.lists(st.tuples(st.sampled_from(["call", "call", "end", "give up"]), st.integers(0, 4)), max_size=60)


@settings(max_examples=60, deadline=None)
@given(places=st.integers(1, 5), steps=STEPS, seconds=st.sampled_from([0.0, LONG]))
def test_no_place_is_lost_or_given_twice_and_who_has_none_waits_for_no_free_one(
    places: int, steps: Sequence[tuple[str, int]], seconds: float
) -> None:
    async def play() -> None:
        callers = Callers(places, seconds)
        for step, number in steps:
            who = ("", str(number))
            match step:
                case "call":
                    callers.call(who)
                case "end":
                    callers.end(who)
                case _:
                    await callers.give_up(number)
            await callers.settle()
            free = places - callers.held.total()
            assert free >= 0
            assert not (free and any(not callers.held[who] for who, _ in callers.waiting))
            assert callers.queue.waiting == Counter(who for who, _ in callers.waiting)
        while callers.held.total():
            for who in list(callers.held.elements()):
                callers.end(who)
            await callers.settle()
        assert [callers.queue.take(("", f"new {n}")) for n in range(places + 1)] == [*[True] * places, False]

    played(play)


@settings(max_examples=60, deadline=None)
@given(places=st.integers(2, 12), polite=st.integers(1, 6), turns=st.lists(st.integers(0, 5), max_size=40))
def test_who_calls_again_within_a_second_finds_a_place_however_much_another_calls(
    places: int, polite: int, turns: Sequence[int]
) -> None:
    """As long as these callers have no more than four fifths of the places, since so many are kept at most."""

    async def play() -> None:
        callers, others = Callers(places), [("", str(number)) for number in range(min(polite, places * 4 // 5))]
        assert all(callers.call(each) for each in others)
        for _ in range(3 * places):
            callers.call(FLOOD)
        for turn in turns:
            who = others[turn % len(others)]
            callers.end(who)
            callers.end(FLOOD)
            callers.call(FLOOD)
            assert callers.call(who)
        await callers.settle()
        assert callers.held.total() == places
        while callers.waiting:
            await callers.give_up(0)

    played(play)


def test_a_place_that_is_kept_for_one_who_stays_away_is_given_to_those_who_wait() -> None:
    async def play() -> None:
        callers = Callers(2, 0.001)
        assert callers.call(ADA)
        assert callers.call(FLOOD)
        assert not callers.call(FLOOD)
        callers.end(ADA)
        while callers.waiting:
            await callers.settle()
        assert callers.held[FLOOD] == 2

    played(play)


def test_alone_a_caller_has_all_places() -> None:
    async def play() -> None:
        callers = Callers(3)
        assert [callers.call(FLOOD) for _ in range(4)] == [True, True, True, False]
        callers.end(FLOOD)
        await callers.settle()
        assert callers.held[FLOOD] == 3

    played(play)


def test_callers_who_wait_take_turns_however_much_one_of_them_calls() -> None:
    async def play() -> None:
        callers = Callers(1)
        assert callers.call(FLOOD)
        for who in (FLOOD, FLOOD, FLOOD, ADA, BOB):
            assert not callers.call(who)
        await callers.settle()
        order: list[Who] = []
        while callers.held.total():
            (who,) = callers.held.elements()
            order.append(who)
            callers.end(who)
            await callers.settle()
        assert order == [FLOOD, FLOOD, ADA, BOB, FLOOD, FLOOD]

    played(play)
