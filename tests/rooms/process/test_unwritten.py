"""What happens to processes when they cannot be written, or cannot be read again."""

import gc
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport import (
    AgentPlatform,
    Ai,
    Export,
    ProcessStatus,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
    component,
    condition,
    tool,
)
from goalport.base.errors import StoreError, Unreadable
from goalport.runtime.process import Completed, Failed, Terminated, Waiting
from goalport.store import Lease, StoredProcess
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing.scripted import ScriptedModel, calls_tool
from goalport.tools import ToolResult
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
        with anyio.fail_after(60):
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


class Failing(SqliteProcessStore):
    """A file whose disk is full now and then."""

    full = False

    async def save(self, changes: Sequence[StoredProcess], lease: Lease, /, **when: Any) -> Lease:
        if self.full:
            raise StoreError("here", "the disk is full.", "Make room.")
        return await super().save(changes, lease, **when)

    async def claim(self, process_id: str, /) -> Lease | None:
        if self.full:
            raise StoreError("here", "the disk is full.", "Make room.")
        return await super().claim(process_id)


async def test_a_process_whose_steps_are_stored_does_not_begin_without_the_store(tmp_path: Path) -> None:
    async with (
        Failing(tmp_path / "processes.db") as store,
        AgentPlatform([writer := Writer()], store=store) as platform,
    ):
        store.full = True
        with anyio.fail_after(60):
            outcome = await platform.start("Writer", UserInput("tale")).wait()
        assert isinstance(outcome, Failed)
        assert "Try again later" in outcome.reason
        assert "the disk is full" in outcome.reason
        assert not writer.ran


async def test_an_answer_is_refused_while_the_store_is_away_and_taken_afterwards(tmp_path: Path) -> None:
    async with Failing(tmp_path / "processes.db") as store, AgentPlatform([Market()], store=store) as platform:
        process = await rested(platform.start("Market", UserInput("4")))
        store.full = True
        with pytest.raises(StoreError, match="disk is full"):
            await platform.answer(process.id, response=Bid(1))
        store.full = False
        with anyio.fail_after(60):
            await platform.answer(process.id, response=Bid(1))
            await rested(process)
        found = await Elsewhere(store, Market()).process(process)
        assert [each.action for each in found.history] == [each.action for each in process.history]
        assert found.blackboard.objects == process.blackboard.objects


async def test_a_running_process_waits_for_a_store_that_is_away_and_goes_on_by_itself(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    store = Failing(tmp_path / "processes.db")

    @agent(description="Fills the disk")
    class Filling(Writer):
        @action
        async def draft(self, user_input: UserInput) -> Draft:
            store.full = True
            return Draft(user_input.content)

    async with store, AgentPlatform([writer := Filling()], store=store) as platform:
        process = platform.start("Filling", UserInput("tale"))
        with anyio.fail_after(60):
            while "waits for the store" not in caplog.text:
                await anyio.sleep(0.01)
            assert process.outcome is None
            assert writer.ran == []
            store.full = False
            assert isinstance(await process.wait(), Waiting)
        assert writer.ran == ["ask"]


class Lock:
    def __del__(self) -> None:
        """It holds something, so it cannot be stored."""


class Locksmith:
    @tool
    async def forge(self, number: int) -> ToolResult:
        """Forge a lock."""
        return ToolResult.of_artifact(f"Lock {number}", Lock())


@agent(description="Has locks forged")
class Shop:
    @achieves_goal(description="A draft", export=Export(durable=True))
    async def sell(self, user_input: UserInput, ai: Ai) -> Draft:
        return Draft(await ai.with_tool_objects(Locksmith()).generate_text(user_input.content))


async def test_a_step_that_cannot_be_written_is_told_once_and_not_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO", "goalport")
    model = ScriptedModel([*(calls_tool("forge", number=each) for each in range(3)), "Three locks."])
    async with (
        SqliteProcessStore(tmp_path / "processes.db") as store,
        AgentPlatform([Shop()], store=store, models=model) as platform,
    ):
        with anyio.fail_after(60):
            assert await platform.start("Shop", UserInput("locks")).wait() == Completed(Draft("Three locks."))
    assert caplog.text.count("is not stored: ") == 3


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


@dataclass(frozen=True)
class Note:
    text: str


@agent(description="Notes, drafts and asks")
class Author:
    @action
    async def note(self, user_input: UserInput) -> Note:
        return Note(user_input.content)

    @condition
    async def short(self) -> bool:
        return True

    @action(pre=["short"], post=["drafted"])
    async def draft(self, note: Note) -> Draft:
        return Draft(note.text)

    @action(pre=["drafted"])
    async def ask(self, draft: Draft) -> WaitFor[Comment]:
        return WaitFor.form_submission("What do you think?", Comment)

    @achieves_goal(description="A story")
    async def publish(self, draft: Draft, comment: Comment) -> Story:
        return Story(f"{draft.text}, {comment.text}")


class Lends:
    """What the component of a later version has."""

    @action
    async def draft(self, note: Note) -> Draft:
        return Draft(note.text)


def later_author() -> object:
    @agent(description="The steps before the question have other names, and there is no condition any more")
    class Author:
        @action
        async def take_note(self, user_input: UserInput) -> Note:
            raise AssertionError

        @action
        async def ask(self, draft: Draft) -> WaitFor[Comment]:
            raise AssertionError

        @achieves_goal(description="A story")
        async def publish(self, draft: Draft, comment: Comment) -> Story:
            return Story(f"{draft.text}, {comment.text}")

    return Author()


@pytest.mark.parametrize("moved", [(), (component(Lends)(),)], ids=["removed", "moved"])
async def test_a_process_goes_on_though_actions_that_it_ran_and_conditions_are_gone(
    tmp_path: Path, moved: tuple[object, ...]
) -> None:
    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        process = await rested(AgentPlatform([Author()], store=store).start("Author", UserInput("tale")))
        assert process.status is ProcessStatus.WAITING
        async with AgentPlatform([later_author(), *moved], store=store) as later:
            with anyio.fail_after(60):
                found = await later.answer(process.id, response=Comment("good"))
                assert await found.wait() == Completed(Story("tale, good"))
            assert [each.action for each in found.history] == [
                "Author.note",
                "Author.draft",
                "Author.ask",
                "Author.publish",
            ]


async def test_what_could_not_be_written_is_written_when_the_platform_is_closed(tmp_path: Path) -> None:
    @agent(description="Neither asks nor takes long")
    class Short:
        @achieves_goal(description="A draft")
        async def draft(self, user_input: UserInput) -> Draft:
            return Draft(user_input.content)

    async with Failing(tmp_path / "processes.db") as store:
        store.full = True
        async with AgentPlatform([Short()], store=store) as platform:
            process = await rested(platform.start("Short", UserInput("tale")))
            assert process.outcome == Completed(Draft("tale"))
            store.full = False
        assert (await Elsewhere(store, Short()).process(process)).outcome == Completed(Draft("tale"))


async def test_a_process_that_was_stored_and_whose_end_cannot_be_is_ended_in_the_store_too(tmp_path: Path) -> None:
    class Local:
        pass

    @agent(description="Asks, and gives what nobody can write")
    class Maker:
        @action
        def ask(self, user_input: UserInput) -> WaitFor[Comment]:
            return WaitFor.form_submission("What?", Comment)

        @achieves_goal(description="A thing")
        def make(self, comment: Comment) -> Local:
            return Local()

    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        async with AgentPlatform([Maker()], store=store) as platform:
            process = await rested(platform.start("Maker", UserInput("tale")))
            await platform.answer(process.id, response=Comment("good"))
            with anyio.fail_after(60):
                assert isinstance(await process.wait(), Completed)
        found = await Elsewhere(store, Maker()).process(process)
    assert isinstance(found.outcome, Terminated)
    assert "which cannot be stored" in found.outcome.reason
