"""Records that are read while their process goes on do not bring back what it was."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import anyio

from goalport import AgentPlatform, UserInput
from goalport.runtime.process import Completed
from goalport.store import StoredProcess
from goalport.store.sqlite import SqliteProcessStore
from tests.crashes.guards import Password, Porter, Report


class SlowReader(SqliteProcessStore):
    """What was read first comes late."""

    def __init__(self, path: Path) -> None:
        super().__init__(path, synchronous="normal")
        self.first, self.read, self.late = True, anyio.Event(), anyio.Event()

    async def family(self, process_id: str, /) -> tuple[Sequence[StoredProcess], int]:
        found = await super().family(process_id)
        first, self.first = self.first, False
        if first:
            self.read.set()
            await self.late.wait()
        return found


async def test_records_that_come_late_do_not_change_a_process_back(tmp_path: Path) -> None:
    async with (
        SqliteProcessStore(tmp_path / "processes.db") as store,
        AgentPlatform([Porter()], store=store) as platform,
    ):
        process_id = (asked := platform.start("Porter", UserInput("600"))).id
        await asked.wait()
    async with SlowReader(tmp_path / "processes.db") as slow, AgentPlatform([Porter()], store=slow) as platform:
        late = asyncio.create_task(platform.process(process_id))
        with anyio.fail_after(60):
            await slow.read.wait()
            process = await platform.answer(process_id, response=Password("Bitte"))
            assert await process.wait() == Completed(Report("Bitte"))
            slow.late.set()
            assert await late is process
            assert process.outcome == Completed(Report("Bitte"))
