"""Clocks differ, and the time that counts for a deadline outlives the program."""

from collections.abc import Collection, Sequence
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import anyio

from goalport import AgentPlatform, Ai, Export, UserInput, WaitFor, achieves_goal, agent
from goalport.runtime.process import Failed, Waiting
from goalport.store import Lease, StoredProcess
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing.scripted import ScriptedModel
from tests.rooms.process.test_persistence import Comment


@agent(description="Asks, and waits for two seconds")
class Brisk:
    @achieves_goal(description="A comment")
    async def ask(self, user_input: UserInput) -> WaitFor[Comment]:
        return WaitFor.form_submission("Quick?", Comment, expires_in=2)


class Ahead(SqliteProcessStore):
    """A file by whose clock it is a minute later than by that of the program."""

    saves = taken = 0

    async def save(
        self, changes: Sequence[StoredProcess], lease: Lease, /, *, wake_at: datetime | None, **how: Any
    ) -> Lease:
        self.saves += 1
        if wake_at is not None and wake_at.year > 1970:
            wake_at -= timedelta(minutes=1)
        return await super().save(changes, lease, wake_at=wake_at, **how)

    async def due(self, limit: int, /, *, without: Collection[str] = ()) -> Sequence[Lease]:
        leases = await super().due(limit, without=without)
        self.taken += len(leases)
        return leases


async def test_a_question_is_declined_at_its_time_although_the_database_says_so_earlier(tmp_path: Path) -> None:
    async with Ahead(tmp_path / "processes.db") as store, AgentPlatform([Brisk()], store=store) as platform:
        process = platform.start("Brisk", UserInput("x"))
        with anyio.fail_after(60):
            assert isinstance(await process.wait(), Waiting)
            began = anyio.current_time()
            while isinstance(outcome := await process.wait(), Waiting):
                await anyio.sleep(0.01)
        assert isinstance(outcome, Failed)
        assert [each.status for each in process.questions] == ["expired"]
        assert anyio.current_time() - began > 1
        assert store.taken == 1
        assert store.saves < 10


@agent(description="Asks a model, and then does not come to an end")
class Endless:
    @achieves_goal(description="A word", export=Export(durable=True))
    async def ask(self, user_input: UserInput, ai: Ai) -> Comment:
        await ai.generate_text(user_input.content)
        await anyio.sleep_forever()
        raise AssertionError


async def test_the_time_in_an_action_that_has_not_ended_is_stored_with_its_steps(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with (
        SqliteProcessStore(file) as store,
        SqliteProcessStore(file) as other_store,
        AgentPlatform([Endless()], store=store, models=ScriptedModel(["a word"])) as platform,
        AgentPlatform([Endless()], store=other_store) as elsewhere,
    ):
        process = platform.start("Endless", UserInput("x"))
        with anyio.fail_after(60):
            while not any(each.journal for each in (await store.family(process.id))[0]):
                await anyio.sleep(0.01)
            found = await elsewhere.process(process.id)
        assert not found.history
        assert 0 < found.seconds_run < process.seconds_run
