"""What a program leaves in a store goes on in one that can run it, whatever that one hears or does first."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, AgentProcess, Export, UserInput, achieves_goal, action, agent
from goalport.base.errors import StoreError, UnknownName
from goalport.runtime.process import Completed, Failed
from goalport.store import Lease, StoredProcess
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.platform.test_answering_elsewhere import Asker, Mixer, Painter, Wall, asked


@dataclass(frozen=True)
class Ore:
    grams: int


@dataclass(frozen=True)
class Coin:
    grams: int


@dataclass(frozen=True)
class Purse:
    grams: int


@agent(description="Mints coins when it is let")
@dataclass
class Mint:
    begun: anyio.Event = field(default_factory=anyio.Event)
    ready: anyio.Event = field(default_factory=anyio.Event)
    mined: int = 0

    @action
    async def mine(self, user_input: UserInput) -> Ore:
        self.mined += 1
        return Ore(len(user_input.content))

    @achieves_goal(description="A coin", export=Export(durable=True))
    async def mint(self, ore: Ore) -> Coin:
        self.begun.set()
        await self.ready.wait()
        return Coin(ore.grams)


@agent(description="Has coins minted")
class Minter:
    @achieves_goal(description="A purse", export=Export(durable=True))
    async def collect(self, user_input: UserInput, context: ActionContext) -> Purse:
        coin = await context.as_sub_process(Coin, "Mint")
        return Purse(coin.grams)


def opened() -> Mint:
    """One that mints at once."""
    mint = Mint()
    mint.ready.set()
    return mint


async def left_behind(file: Path) -> str:
    """The id of a process in whose middle its program has ended."""
    async with SqliteProcessStore(file) as store, AgentPlatform([mint := Mint()], store=store) as platform:
        process = platform.start("Mint", UserInput("gold"))
        with anyio.fail_after(60):
            await mint.begun.wait()
        return process.id


async def until_said(caplog: pytest.LogCaptureFixture, words: str) -> None:
    with anyio.fail_after(60):
        while words not in caplog.text:
            await anyio.sleep(0.01)


async def test_what_one_program_cannot_run_another_one_takes_at_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process_id = await left_behind(file := tmp_path / "processes.db")
    async with (
        SqliteProcessStore(file) as store,
        SqliteProcessStore(file) as other_store,
        AgentPlatform([Asker], store=store),
    ):
        await until_said(caplog, f"Process {process_id} cannot go on here")
        async with AgentPlatform([opened()], store=other_store) as platform:
            with anyio.fail_after(60):
                assert await (await platform.process(process_id)).wait() == Completed(Coin(4))
    assert caplog.text.count("cannot go on here") == 1


class BusyStore(SqliteProcessStore):
    """One whose machine is busy when its program says that it lives."""

    async def heartbeat(self, seconds: float, /) -> None:
        await anyio.sleep(0.1)
        await super().heartbeat(seconds)


async def test_what_a_program_begins_at_once_is_not_left_behind(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with (
        BusyStore(file) as store,
        SqliteProcessStore(file) as other,
        AgentPlatform([Mint()], store=store) as platform,
    ):
        process = platform.start("Mint", UserInput("gold"))
        with anyio.fail_after(60):
            while await other.find(process.id) is None:
                await anyio.sleep(0.01)
        assert not await other.due(10)


async def test_what_could_not_go_on_is_tried_again_when_the_workspace_is_loaded_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process_id = await left_behind(file := tmp_path / "processes.db")
    async with SqliteProcessStore(file) as store, AgentPlatform([Asker], store=store) as platform:
        await until_said(caplog, f"Process {process_id} cannot go on here")
        platform.deploy(opened())
        platform.processes.renew_types()
        with anyio.fail_after(60):
            assert await (await platform.process(process_id)).wait() == Completed(Coin(4))


async def test_a_sub_process_that_has_just_begun_when_its_program_ends_is_started_again(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with SqliteProcessStore(file) as store, AgentPlatform([Minter, Mint()], store=store) as platform:
        process = platform.start("Minter", UserInput("gold"))
        with anyio.fail_after(60):
            while not process.children:
                await anyio.sleep(0.01)
    async with SqliteProcessStore(file) as store, AgentPlatform([Minter, opened()], store=store) as platform:
        with anyio.fail_after(60):
            assert await (await platform.process(process.id)).wait() == Completed(Purse(4))


async def test_an_answer_to_one_process_of_a_family_that_was_left_behind_lets_the_others_go_on_too(
    tmp_path: Path,
) -> None:
    file = tmp_path / "processes.db"
    async with (
        SqliteProcessStore(file) as store,
        AgentPlatform([Painter, Asker, Mixer()], store=store) as platform,
    ):
        process = platform.start("Painter", UserInput("a barn"))
        question = await asked(process)
        with anyio.fail_after(60):
            while (counts := dict(await store.counts())).get("waiting") != 2 or sum(counts.values()) != 3:
                await anyio.sleep(0.01)
    mixer = Mixer()
    mixer.mixed.set()
    async with (
        SqliteProcessStore(file) as store,
        AgentPlatform([Painter, Asker, mixer], store=store) as platform,
    ):
        platform.processes.disable_takeover(drive=True)  # the answer comes before it looks for what was left
        with anyio.fail_after(60):
            answered = await platform.answer(process.id, question, {"name": "red"})
            assert await answered.wait() == Completed(Wall("red", 6))


class Doubtful(SqliteProcessStore):
    """Writes, and then loses its connection before it can say so; the next operations fail until it is back."""

    silent = ""
    """Which operation ends so."""
    away = False

    def fail_at(self, operation: str) -> None:
        if self.away or operation == self.silent:
            self.away, self.silent = True, ""
            raise StoreError("here", "the connection has ended.", "Write the same again.", unknown=True)

    async def save(self, changes: Sequence[StoredProcess], lease: Lease, /, **when: Any) -> Lease:
        if self.away:
            self.fail_at("save")
        saved = await super().save(changes, lease, **when)
        self.fail_at("save")
        return saved

    async def due(self, limit: int, /, *, without: Collection[str] = ()) -> Sequence[Lease]:
        leases = await super().due(limit, without=without)
        if leases:
            self.fail_at("due")
        return leases


async def test_a_process_of_which_it_is_unknown_whether_it_was_stored_begins_once_that_is_known(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with (
        Doubtful(tmp_path / "processes.db") as store,
        AgentPlatform([mint := opened()], store=store) as platform,
    ):
        store.silent = "save"
        process = platform.start("Mint", UserInput("gold"))
        await until_said(caplog, f"Process {process.id} waits for the store")
        assert (process.outcome, mint.mined) == (None, 0)
        store.away = False
        with anyio.fail_after(60):
            assert await process.wait() == Completed(Coin(4))
    assert mint.mined == 1


async def test_what_a_program_leaves_of_which_it_does_not_know_whether_it_was_stored_goes_on_elsewhere(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "processes.db"
    async with Doubtful(file) as store, AgentPlatform([Mint()], store=store) as platform:
        store.silent = "save"
        process = platform.start("Mint", UserInput("gold"))
        await until_said(caplog, f"Process {process.id} waits for the store")
        with anyio.fail_after(60):
            await platform.aclose()
    async with SqliteProcessStore(file) as store, AgentPlatform([opened()], store=store) as platform:
        with anyio.fail_after(60):
            assert await (await platform.process(process.id)).wait() == Completed(Coin(4))


async def test_a_process_that_did_not_begin_is_not_known_and_its_key_is_free(tmp_path: Path) -> None:
    class Full(SqliteProcessStore):
        full = True

        async def save(self, changes: Sequence[StoredProcess], lease: Lease, /, **when: Any) -> Lease:
            if self.full:
                raise StoreError("here", "the disk is full.", "Make room.")
            return await super().save(changes, lease, **when)

    async def begun(platform: AgentPlatform) -> AgentProcess:
        process = platform.create_agent_process("Mint", UserInput("gold"))
        found = await platform.processes.begin_or_join("key", "digest", process)
        assert found is not None
        return found

    async with Full(tmp_path / "processes.db") as store, AgentPlatform([opened()], store=store) as platform:
        with anyio.fail_after(60):
            first = await begun(platform)
            assert isinstance(await first.wait(), Failed)
            with pytest.raises(UnknownName):
                await platform.process(first.id)
            store.full = False
            assert await (await begun(platform)).wait() == Completed(Coin(4))


async def test_families_that_were_taken_without_a_word_go_on_all_the_same(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    process_id = await left_behind(file := tmp_path / "processes.db")
    async with Doubtful(file) as store, AgentPlatform([opened()], store=store, lease_seconds=0.3) as platform:
        store.silent = "due"
        await until_said(caplog, "The store cannot be reached")
        store.away = False
        with anyio.fail_after(60):
            assert await (await platform.process(process_id)).wait() == Completed(Coin(4))
