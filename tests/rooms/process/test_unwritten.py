"""What happens to processes when they cannot be written, or cannot be read again."""

import gc
from collections.abc import Sequence
from pathlib import Path

import anyio
import pytest

from goalport import AgentPlatform, ProcessStatus, UserInput, WaitFor, action, agent
from goalport.errors import StoreError, Unreadable
from goalport.process import Completed, Waiting
from goalport.store import StoredProcess
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.process.test_persistence import Bid, Comment, Draft, Elsewhere, Market, Story, Writer, rested


async def test_a_process_that_cannot_be_written_stays_in_memory_and_the_log_says_why(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Local:
        pass

    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        platform = AgentPlatform([Writer()], store=store)
        process_id = (await rested(platform.start("Writer", UserInput("tale"), Local()))).id
        gc.collect()
        with anyio.fail_after(5):
            found = await platform.answer(process_id, response=Comment("good"))
            assert await found.wait() == Completed(Story("tale, good"))
        assert not await store.records()
    assert "is kept in memory only" in caplog.text
    assert "Local" in caplog.text


async def test_closing_a_platform_leaves_what_waits_in_a_store_that_outlives_it(tmp_path: Path) -> None:
    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        async with AgentPlatform([Writer()], store=store) as platform:
            process = await rested(platform.start("Writer", UserInput("tale")))
        assert await Elsewhere(store, Writer()).answered(process, Comment("late")) == Completed(Story("tale, late"))


async def test_a_store_that_fails_takes_no_result_away_and_gets_all_of_it_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(SqliteProcessStore):
        fails = True

        async def save(self, changes: Sequence[StoredProcess], /) -> None:
            if self.fails:
                raise StoreError("here", "the disk is full.", "Make room.")
            await super().save(changes)

        async def claim(self, process_id: str, /) -> bool:
            if self.fails:
                raise StoreError("here", "the disk is full.", "Make room.")
            return await super().claim(process_id)

    async with Failing(tmp_path / "processes.db") as store:
        platform = AgentPlatform([Market()], store=store)
        process = await rested(platform.start("Market", UserInput("4")))
        assert process.status is ProcessStatus.WAITING
        assert "the disk is full" in caplog.text
        with anyio.fail_after(5):
            await platform.answer(process.id, response=Bid(1))
            assert isinstance(await process.wait(), Waiting)
            store.fails = False
            await platform.answer(process.id, response=Bid(1))
            await rested(process)
        found = await Elsewhere(store, Market()).process(process)
        assert [each.action for each in found.history] == [each.action for each in process.history]
        assert found.blackboard.objects == process.blackboard.objects


async def test_an_action_that_is_gone_is_named_when_its_process_is_asked_for(tmp_path: Path) -> None:
    @agent(name="Writer", description="Asks under another name")
    class Renamed(Writer):
        ask = None  # type: ignore[assignment]

        @action
        async def ask_people(self, draft: Draft) -> WaitFor[Comment]:
            return WaitFor.form_submission("What?", Comment)

    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        process = await rested(AgentPlatform([Writer()], store=store).start("Writer", UserInput("tale")))
        with pytest.raises(Unreadable, match=r"Writer cannot be read from the store: it has no .* any more"):
            await Elsewhere(store, Renamed()).platform.process(process.id)


async def test_what_could_not_be_written_is_written_when_the_platform_is_closed(tmp_path: Path) -> None:
    class Full(SqliteProcessStore):
        full = True

        async def save(self, changes: Sequence[StoredProcess], /) -> None:
            if self.full:
                raise StoreError("here", "the disk is full.", "Make room.")
            await super().save(changes)

    async with Full(tmp_path / "processes.db") as store:
        async with AgentPlatform([Writer()], store=store) as platform:
            process = await rested(platform.start("Writer", UserInput("tale")))
            store.full = False
        assert (await Elsewhere(store, Writer()).process(process)).status is ProcessStatus.WAITING
