"""Results of tools that are kept as those of processes."""

from pathlib import Path

from goalport import AgentPlatform
from goalport.runtime.platform.deployments import KEEPER, KeptResult
from goalport.runtime.process import Completed
from goalport.store.sqlite import SqliteProcessStore


async def test_a_kept_result_is_found_by_another_program_on_the_store(tmp_path: Path) -> None:
    async with SqliteProcessStore(tmp_path / "processes.db") as store, AgentPlatform(store=store) as platform:
        kept = await platform.run(KEEPER, KeptResult("long"))
        await kept.rest()
    async with SqliteProcessStore(tmp_path / "processes.db") as store, AgentPlatform(store=store) as platform:
        assert (await platform.process(kept.id)).outcome == Completed("long")
