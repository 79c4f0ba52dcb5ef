"""What ended long ago is dropped from a store, by one of the programs that use it."""

from datetime import timedelta
from pathlib import Path

from goalport.runtime.platform.erasure import prune_hourly
from goalport.store import Lease
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.store.programs import process

HOUR = 3_600.0


async def test_one_of_two_programs_drops_what_has_ended_once_an_hour(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with SqliteProcessStore(file) as one, SqliteProcessStore(file) as other:
        await one.save([process("a", "x" * 100_000, status="completed")], Lease("a"), wake_at=None, release=True)
        assert await prune_hourly(one, HOUR, timedelta(0), None) == 1
        await one.save([process("b", status="completed")], Lease("b"), wake_at=None, release=True)
        await one.save([process("waits")], Lease("waits"), wake_at=None, release=True)
        assert await prune_hourly(other, HOUR + 1, None, 0) is None
        assert await prune_hourly(one, HOUR + 2, timedelta(0), None) is None
        assert await prune_hourly(other, 2 * HOUR, None, 0) == 1
        assert [each.id for each in await other.records()] == ["waits"]


async def test_the_file_becomes_smaller_when_processes_are_dropped(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with SqliteProcessStore(file) as store:
        for number in range(20):
            stored = process(f"{number}", "x" * 100_000, status="completed")
            await store.save([stored], Lease(f"{number}"), wake_at=None, release=True)
    before = file.stat().st_size
    async with SqliteProcessStore(file) as store:
        assert await store.prune(keep=1) == 19
    assert before > 2_000_000
    assert file.stat().st_size < 300_000
