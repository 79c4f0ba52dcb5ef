"""Places and turns: no place is lost or given twice, and callers who wait take turns."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

import anyio
from hypothesis import given, settings, strategies as st

from goalport.server.publish.limits import FairQueue, Who

FLOOD, ADA, BOB = ("", "flood"), ("", "ada"), ("", "bob")


class Callers:
    """Callers of a queue, and the places that they have."""

    def __init__(self, places: int) -> None:
        self.queue = FairQueue(places)
        self.held: Counter[Who] = Counter()
        self.waiting: list[tuple[Who, asyncio.Task[None]]] = []

    def call(self, who: Who) -> bool:
        """Take a place, or begin to wait for one."""
        if self.queue.take():
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
            self.queue.leave()

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
@given(places=st.integers(1, 5), steps=STEPS)
def test_no_place_is_lost_or_given_twice_and_nobody_waits_for_a_free_one(
    places: int, steps: Sequence[tuple[str, int]]
) -> None:
    async def play() -> None:
        callers = Callers(places)
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
            assert not (free and callers.waiting)
            assert callers.queue.waiting == Counter(who for who, _ in callers.waiting)
        while callers.held.total():
            for who in list(callers.held.elements()):
                callers.end(who)
            await callers.settle()
        assert [callers.queue.take() for _ in range(places + 1)] == [*[True] * places, False]

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
