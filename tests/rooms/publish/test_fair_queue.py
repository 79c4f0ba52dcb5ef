"""Places and turns: no place is lost or given twice, and one who floods takes none that another will want at once."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio
from hypothesis import given, settings, strategies as st

from goalport.server.publish.fair_queue import FairQueue, Who

FLOOD, ADA, BOB = ("", "flood"), ("", "ada"), ("", "bob")
LONG = 60.0


class Callers:
    """Callers of a queue, and the places that they have."""

    def __init__(self, places: int, seconds: float) -> None:
        self.places = places
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
            was_done = task.done()
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            assert task.done() or was_done

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
            without = [who for who, _ in callers.waiting if not callers.held[who]]
            assert not (free and without)
            assert callers.queue.waiting == Counter(who for who, _ in callers.waiting)
        for who in list(callers.held.elements()):
            callers.end(who)
        while callers.waiting and seconds != LONG:
            await callers.settle()
            for who in list(callers.held.elements()):
                callers.end(who)
        for _ in range(len(callers.waiting)):
            await callers.give_up(0)
        assert all(callers.queue.take(("", f"new {number}")) for number in range(places - callers.held.total()))

    played(play)


@settings(max_examples=60, deadline=None)
@given(places=st.integers(2, 12), polite=st.integers(1, 6), turns=st.lists(st.integers(0, 5), max_size=40))
def test_one_who_calls_again_within_a_second_finds_a_place_however_much_another_calls(
    places: int, polite: int, turns: Sequence[int]
) -> None:
    """As long as these callers have no more than four fifths of the places, since so many are kept at most."""

    async def play() -> None:
        callers, others = Callers(places, LONG), [("", str(number)) for number in range(min(polite, places * 4 // 5))]
        assert all(callers.call(each) for each in others)
        for _ in range(3 * places):
            callers.call(FLOOD)
        for turn in turns:
            who = others[turn % len(others)]
            callers.end(who)
            callers.end(FLOOD)
            callers.call(FLOOD)
            await callers.settle()
            assert callers.call(who)
        await callers.settle()
        assert callers.held.total() == places
        assert all(callers.held[each] == 1 for each in others)
        for _ in range(len(callers.waiting)):
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


def test_who_has_no_place_takes_one_that_is_kept_for_another() -> None:
    async def play() -> None:
        callers = Callers(2, LONG)
        assert callers.call(ADA)
        assert callers.call(FLOOD)
        assert not callers.call(FLOOD)
        callers.end(ADA)
        await callers.settle()
        assert callers.held[FLOOD] == 1
        assert callers.call(BOB)
        for _ in range(len(callers.waiting)):
            await callers.give_up(0)

    played(play)


def test_alone_a_caller_has_all_places() -> None:
    async def play() -> None:
        callers = Callers(3, LONG)
        assert [callers.call(FLOOD) for _ in range(4)] == [True, True, True, False]
        callers.end(FLOOD)
        await callers.settle()
        assert callers.held[FLOOD] == 3

    played(play)
