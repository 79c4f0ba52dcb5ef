"""Turns that are hindered before they run or after they have run: nobody waits for ever."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from anyio import fail_after

from goalport import ActionContext, AgentPlatform, action
from goalport.base.caller import ANONYMOUS, Caller
from goalport.models.llm import AssistantMessage, ModelCall, ModelCard, ModelReply, Models, ModelsSettings, UserMessage
from goalport.runtime.chat import Conversation, chatbot
from goalport.runtime.process import Context, Killed
from goalport.store import InMemoryProcessStore
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel
from tests.rooms.chat.talkers import Careful, Parrot

ANNA = Caller("anna")


@dataclass(eq=False)
class Table:
    """It refuses to be compared."""

    rows: int

    def __eq__(self, other: object) -> bool:
        raise RuntimeError("A table is equal to nothing.")

    def __hash__(self) -> int:
        return self.rows


@chatbot(description="Draws tables")
class Drawer:
    @action(trigger=UserMessage, can_rerun=True)
    async def draw(self, message: UserMessage, context: ActionContext) -> None:
        context.add(Table(len(message.content)))
        await context.send_message(AssistantMessage("Drawn."))


@pytest.mark.parametrize("kind", ["memory", "database"])
async def test_what_a_project_cannot_be_told_holds_no_turn_up(kind: str, tmp_path: Path) -> None:
    async with SqliteProcessStore(tmp_path / "processes.db") as database:
        store = database if kind == "database" else InMemoryProcessStore()
        async with AgentPlatform([Drawer], store=store) as platform:
            session = await platform.chatbots["Drawer"].create_session(ANNA, context_id="house")
            with fail_after(30):
                for text in ("a", "table", "more"):
                    assert (await session.on_user_message(UserMessage(text))).text == "Drawn."


class Shelves:
    """They take nothing."""

    async def find(self, context_id: str, caller: Caller = ANONYMOUS, /, *, scope: str = "") -> Context | None:
        return None

    async def save(self, context: Context, /) -> None:
        raise RuntimeError("The shelves are full.")

    async def delete(self, context_id: str, caller: Caller = ANONYMOUS, /, *, scope: str = "") -> bool:
        return False


async def test_a_conversation_that_reached_its_goal_is_finished_though_its_context_is_not_saved() -> None:
    async with AgentPlatform([Careful], contexts=Shelves()) as platform:
        session = await platform.chatbots["Careful"].create_session(ANNA, context_id="house")
        with fail_after(30):
            assert (await session.on_user_message(UserMessage("Goodbye"))).text == "Bye"
        (listed,) = await platform.conversations.list(ANNA)
        assert listed.finished


@dataclass
class Sleeper:
    """A model that never answers."""

    asked: asyncio.Event = field(default_factory=asyncio.Event)
    card: ModelCard = field(default_factory=lambda: ModelCard(name="sleeper", provider="test"))

    async def reply(self, call: ModelCall, /) -> ModelReply:
        self.asked.set()
        await asyncio.Event().wait()
        raise AssertionError

    async def stream(self, call: ModelCall, /) -> AsyncGenerator[ModelReply]:
        yield await self.reply(call)


@chatbot(description="Has a short memory", max_history_tokens=50)
class Forgetful:
    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, conversation: Conversation, context: ActionContext) -> None:
        await context.send_message(AssistantMessage("Yes."))


async def test_a_turn_is_stopped_while_what_is_old_is_summarised() -> None:
    model = Sleeper()
    async with AgentPlatform([Forgetful], models=model) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        await session.on_user_message(UserMessage("a " * 400))
        with fail_after(30):
            turn = await session.begin_turn(UserMessage("So?"))
            await model.asked.wait()
            turn.cancel("Enough.")
            result = await turn.result()
        assert (result.text, result.failure) == ("", "Enough.")


async def test_a_process_is_killed_while_what_is_old_is_summarised() -> None:
    model = Sleeper()
    async with AgentPlatform([Forgetful], models=model) as platform:
        session = await platform.chatbots["Forgetful"].create_session(ANNA)
        await session.on_user_message(UserMessage("a " * 400))
        with fail_after(30):
            turn = await session.begin_turn(UserMessage("So?"))
            await model.asked.wait()
            turn.process.kill("No more.")
            assert (await turn.result()).outcome == Killed("No more.")
            await turn.process.rest()


async def test_a_program_ends_while_what_is_old_is_summarised_and_the_next_one_answers(tmp_path: Path) -> None:
    model = Sleeper()
    async with SqliteProcessStore(tmp_path / "processes.db") as store:
        with fail_after(60):
            async with AgentPlatform([Forgetful], models=model, store=store) as platform:
                session = await platform.chatbots["Forgetful"].create_session(ANNA)
                await session.on_user_message(UserMessage("a " * 400))
                await session.begin_turn(UserMessage("So?"))
                await model.asked.wait()
            async with AgentPlatform([Forgetful], models=ScriptedModel(["In short, a."]), store=store) as later:
                again = await later.chatbots["Forgetful"].find_session(session.conversation.id, ANNA)
                assert again is not None
                turn = await again.follow()
                assert turn is not None
                await turn.result()
        assert [each.text for each in again.conversation.entries[2:]] == ["So?", "Yes."]


async def test_a_turn_is_stopped_as_soon_as_it_was_begun() -> None:
    async with AgentPlatform([Parrot]) as platform:
        session = await platform.chatbots["Parrot"].create_session(ANNA)
        with fail_after(30):
            turn = await session.begin_turn(UserMessage("one"))
            turn.process.stop_turn("Enough.")
            assert (await turn.result()).failure == "Enough."
            assert (await session.on_user_message(UserMessage("two"))).text == "2: one … two"


@chatbot(description="Says one thing and goes on")
@dataclass
class Talker:
    said: asyncio.Event = field(default_factory=asyncio.Event)

    @action(trigger=UserMessage, can_rerun=True)
    async def talk(self, context: ActionContext) -> None:
        await context.send_message("Well")
        self.said.set()
        await asyncio.Event().wait()


async def test_nothing_is_done_beside_a_conversation_after_the_platform_was_closed() -> None:
    before, talker, model = asyncio.all_tasks(), Talker(), Sleeper(card=ModelCard(name="nano", provider="test"))
    models = Models(ModelsSettings(llms={"cheapest": "nano"}), models=[model], environment={})
    async with AgentPlatform([talker], models=models) as platform:
        session = await platform.chatbots["Talker"].create_session(ANNA)
        with fail_after(30):
            turn = await session.begin_turn(UserMessage("one"))
            await talker.said.wait()
    assert (await turn.result()).text == "Well"
    assert asyncio.all_tasks() == before
