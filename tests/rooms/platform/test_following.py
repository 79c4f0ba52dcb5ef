"""A program follows the processes that other programs run, whatever becomes of one of them."""

from pathlib import Path

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, Export, UserInput, achieves_goal, agent
from goalport.base.errors import HandedOver
from goalport.runtime.process import Completed, Terminated
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.platform.test_events import Asker, Story, Title, Titler


@agent(description="Asks others for titles")
class Editor:
    @achieves_goal(description="An edited story", export=Export(durable=True))
    async def edit(self, user_input: UserInput, context: ActionContext) -> Story:
        await context.ask("May it have a title?", bool)
        title = await context.as_sub_process(Title, "Titler")
        return Story(title.text)


async def test_who_waits_for_a_process_that_was_dropped_from_the_store_does_not_wait_for_ever(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with (
        SqliteProcessStore(file) as store,
        SqliteProcessStore(file) as other_store,
        AgentPlatform([Asker], store=store) as here,
        AgentPlatform([Asker], store=other_store) as elsewhere,
    ):
        process = here.start("Asker", UserInput("the sea"))
        await process.wait()
        followed = await elsewhere.process(process.id)
        process.kill()
        await process.rest()
        await store.prune(keep=0)  # before the other program has seen how it ended
        with anyio.fail_after(60):
            async for _ in elsewhere.processes.events(followed, 0):
                pass
        assert isinstance(await followed.wait(), Terminated)
        assert await other_store.find(process.id) is None, "nothing is written of it again"


async def test_a_process_that_cannot_be_read_does_not_keep_a_program_from_following_others(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with (
        SqliteProcessStore(file) as store,
        SqliteProcessStore(file) as other_store,
        AgentPlatform([Asker, Editor, Titler], store=store) as here,
        AgentPlatform([Asker, Editor], store=other_store) as older,
    ):
        edited = here.start("Editor", UserInput("the sea"))
        asked = here.start("Asker", UserInput("the sea"))
        await edited.wait()
        await asked.wait()
        seen = [await older.process(each.id) for each in (edited, asked)]  # in the order in which they are followed
        unsubscribe = [each.subscribe(_Ignored()) for each in seen]
        await here.answer(edited.id, response=True)
        assert await edited.wait() == Completed(Story("On the sea"))
        await here.answer(asked.id, response="fish")
        with anyio.fail_after(60):
            while seen[1].outcome != Completed(Story("fish")):
                await anyio.sleep(0.01)
        with anyio.fail_after(60), pytest.raises(HandedOver):
            await seen[0].changed()
        for each in unsubscribe:
            each()


class _Ignored:
    def on_event(self, _: object, /) -> None:
        pass
