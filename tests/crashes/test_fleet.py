"""Two programs on one store: one drives, and the other goes on, answers, ends and looks."""

import os
import signal
from collections.abc import AsyncIterator, Callable
from multiprocessing.process import BaseProcess

import anyio
import pytest

from goalport import AgentPlatform, AgentProcess, ProcessStatus
from goalport.base.errors import UnknownName
from goalport.runtime.process import Completed, Failed, Killed, Stuck
from goalport.store import ProcessStore
from tests.crashes.faults import Crew, opened
from tests.crashes.guards import Report, castle, drives


@pytest.fixture
async def here(crew: Crew) -> AsyncIterator[AgentPlatform]:
    """This program, beside the one that drives."""
    async with opened(crew.place) as store, castle(store, crew.effects) as platform:
        yield platform


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what other programs do; nothing tells of that."""
    with anyio.fail_after(60):
        while not condition():
            await anyio.sleep(0.02)


async def counted(store: ProcessStore, **wanted: int) -> None:
    """Wait until so many processes have each status."""
    with anyio.fail_after(60):
        while dict(await store.counts()) != wanted:
            await anyio.sleep(0.02)


async def looks_no_more(crew: Crew, driver: BaseProcess) -> None:
    """Wait until a program has stopped its action."""
    looked = -1
    with anyio.fail_after(60):
        while looked != (looked := len(did(crew, "look", driver.pid))):
            await anyio.sleep(0.5)


def did(crew: Crew, what: str, program: int | None = None) -> list[str]:
    """The keys under which something was done, by one program or by all."""
    lines = [line.split(" ") for line in crew.effects.lines]
    return [key for name, pid, key in lines if name == what and program in {None, int(pid)}]


async def found(platform: AgentPlatform, crew: Crew) -> AgentProcess:
    with anyio.fail_after(60):
        while True:
            try:
                return await platform.process(crew.process_id)
            except UnknownName:
                await anyio.sleep(0.02)


async def driver_watches(crew: Crew, driver: BaseProcess) -> None:
    await until(lambda: len(did(crew, "look", driver.pid)) > 2)


async def test_a_driver_that_was_stopped_beyond_its_lease_ends_its_action_when_it_wakes_up(
    crew: Crew, here: AgentPlatform
) -> None:
    with drives(crew) as driver:
        await driver_watches(crew, driver)
        assert driver.pid is not None
        os.kill(driver.pid, signal.SIGSTOP)
        await until(lambda: len(did(crew, "watch")) == 2)
        os.kill(driver.pid, signal.SIGCONT)
        await looks_no_more(crew, driver)
        (crew.folder / "open").touch()
        with anyio.fail_after(60):
            assert await (await found(here, crew)).wait() == Completed(Report("gate"))
    assert len(set(did(crew, "watch"))) == 1
    assert len(did(crew, "stand")) == 1
    assert did(crew, "report", os.getpid()) == did(crew, "report")


async def test_what_a_killed_driver_left_is_taken_over_within_the_lease(crew: Crew, here: AgentPlatform) -> None:
    with drives(crew) as driver:
        await driver_watches(crew, driver)
        driver.kill()
        driver.join()
    with anyio.fail_after(60):
        await until(lambda: len(did(crew, "watch", os.getpid())) == 1)
    (crew.folder / "open").touch()
    process = await found(here, crew)
    with anyio.fail_after(60):
        assert await process.wait() == Completed(Report("gate"))
    assert process.usage.cost == 0.25
    assert [each.action for each in process.history] == ["Guard.stand", "Guard.watch"]


async def test_an_action_that_was_tried_again_when_its_driver_was_killed_is_tried_again_here(
    crew: Crew, here: AgentPlatform
) -> None:
    with drives(crew, "Visitor") as driver:
        await until(lambda: len(did(crew, "knock", driver.pid)) == 2)
        driver.kill()
        driver.join()
    await until(lambda: len(did(crew, "knock", os.getpid())) == 1)
    (crew.folder / "open").touch()
    process = await found(here, crew)
    with anyio.fail_after(60):
        assert await process.wait() == Completed(Report("gate"))
    assert len(set(did(crew, "knock"))) == 1
    (entry,) = process.history
    assert entry.attempts == len(did(crew, "knock", os.getpid()))
    assert 0.25 * entry.attempts < process.usage.cost <= 0.25 * len(did(crew, "knock"))


async def test_another_program_kills_what_a_driver_runs(crew: Crew, here: AgentPlatform) -> None:
    with drives(crew) as driver:
        await driver_watches(crew, driver)
        process = await found(here, crew)
        assert process.status is ProcessStatus.RUNNING
        process.kill("Enough.")
        with anyio.fail_after(60):
            assert await process.wait() == Killed("Enough.")
        await looks_no_more(crew, driver)
    assert did(crew, "report") == []


@pytest.mark.parametrize("retry", [True, False])
async def test_an_action_that_may_not_be_repeated_waits_for_a_decision(
    crew: Crew, here: AgentPlatform, *, retry: bool
) -> None:
    with drives(crew, "Gunner") as driver:
        await until(lambda: len(did(crew, "fire")) == 1)
        driver.kill()
        driver.join()
    with anyio.fail_after(60):
        outcome = await (await found(here, crew)).wait()
    assert isinstance(outcome, Stuck)
    assert "Gunner.fire" in outcome.reason
    (crew.folder / "open").touch()
    process = await here.go_on(crew.process_id, retry=retry)
    with anyio.fail_after(60):
        outcome = await process.wait()
    assert outcome == Completed(Report("gate")) if retry else isinstance(outcome, Failed)
    assert len(did(crew, "fire")) == 1 + retry
    assert len(set(did(crew, "fire"))) == 1


async def test_what_expired_while_no_program_ran_expires_at_the_start(crew: Crew) -> None:
    with drives(crew, "Porter", "1.5") as driver:
        async with opened(crew.place) as store:
            await counted(store, waiting=1)
        driver.kill()
        driver.join()
    await anyio.sleep(1.5)
    async with opened(crew.place) as store, castle(store, crew.effects):
        await counted(store, failed=1)
