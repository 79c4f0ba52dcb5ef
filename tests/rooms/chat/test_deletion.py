"""Deleting a conversation: nothing of what was said in it is kept anywhere, whatever runs in it and wherever."""

import sqlite3
from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path

import anyio
import pytest

from goalport import ActionContext, AgentPlatform, action
from goalport.base.caller import Caller
from goalport.base.errors import UnknownName
from goalport.models.llm import AssistantMessage, UserMessage
from goalport.runtime.chat import chatbot
from goalport.runtime.platform.dbos_engine import DbosEngine
from goalport.store import InMemoryProcessStore, MessageRecord, ProcessStore
from goalport.store.postgres.process_store import PostgresProcessStore
from goalport.store.sqlite import SqliteProcessStore
from tests.postgres import PostgresServer
from tests.rooms.chat.talkers import Careful, Parrot

ANNA = Caller("anna")


@chatbot(description="Thinks about a message as long as it may")
@dataclass
class Thinker:
    begun: anyio.Event = field(default_factory=anyio.Event)

    @action(trigger=UserMessage, can_rerun=True)
    async def think(self, context: ActionContext) -> None:
        self.begun.set()
        await anyio.sleep_forever()
        await context.send_message(AssistantMessage("Nothing."))


async def test_nothing_of_a_deleted_conversation_is_kept(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with SqliteProcessStore(file) as store, AgentPlatform([Parrot, Careful], store=store) as platform:
        session = await platform.chatbots["Parrot"].create_session(ANNA)
        for text in ("Rumpelstiltskin one", "Rumpelstiltskin two " * 5_000):
            await session.on_user_message(UserMessage(text))
        await (await session.begin_turn(UserMessage("Rumpelstiltskin zwei"), after="")).result()
        asking = await platform.chatbots["Careful"].create_session(ANNA)
        assert (await asking.on_user_message(UserMessage("Rumpelstiltskin"))).questions
        for each in (session, asking):
            assert await platform.conversations.delete(each.conversation.id, ANNA)
            assert not await platform.conversations.delete(each.conversation.id, ANNA)
        assert list(await store.records()) == []
        assert await platform.processes.counts() == {}
        with pytest.raises(UnknownName):
            await platform.process(session.process_id)
        with pytest.raises(UnknownName):
            await session.on_user_message(UserMessage("Rumpelstiltskin three"))
        assert list(await store.conversations.list()) == []
        assert list(await store.records()) == []
        assert not said_in(tmp_path, b"rumpelstiltskin"), "while the server runs"
    assert not said_in(tmp_path, b"rumpelstiltskin")


def said_in(folder: Path, words: bytes) -> list[str]:
    """The files in which something is said, also those that SQLite keeps beside a database."""
    return [each.name for each in folder.rglob("*") if each.is_file() and words in each.read_bytes().lower()]


async def test_what_was_deleted_leaves_the_log_as_soon_as_nobody_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "processes.db"
    async with SqliteProcessStore(file) as store:
        assert await store.save_context("anna", "Rumpelstiltskin", instead_of=None)
        with closing(sqlite3.connect(file)) as reader:
            reader.execute("begin")
            reader.execute("select count(*) from sqlite_master").fetchone()
            with anyio.fail_after(20):
                assert await store.delete_context("anna")
            assert said_in(tmp_path, b"rumpelstiltskin")
        with anyio.fail_after(20):
            while said_in(tmp_path, b"rumpelstiltskin"):
                await anyio.sleep(0.01)


@pytest.mark.parametrize("durable", [True, False])
async def test_a_reply_that_is_being_made_ends_with_its_conversation(tmp_path: Path, *, durable: bool) -> None:
    thinker = Thinker()
    make: Callable[[], ProcessStore] = InMemoryProcessStore
    async with AsyncExitStack() as stack:
        store = await stack.enter_async_context(SqliteProcessStore(tmp_path / "p.db")) if durable else make()
        platform = await stack.enter_async_context(AgentPlatform([thinker], store=store))
        session = await platform.chatbots["Thinker"].create_session(ANNA)
        turn = await session.begin_turn(UserMessage("What is left?"))
        with anyio.fail_after(60):
            await thinker.begun.wait()
            assert await platform.conversations.delete(session.conversation.id, ANNA)
            assert (await turn.result()).failure == "Its conversation was deleted."
        assert await platform.processes.counts() == {}
        assert list(await store.records()) == []
        assert list(await store.conversations.list()) == []


async def test_a_reply_that_another_program_makes_ends_with_its_conversation(tmp_path: Path) -> None:
    file, thinker = tmp_path / "processes.db", Thinker()
    async with (
        SqliteProcessStore(file) as store,
        SqliteProcessStore(file) as other_store,
        AgentPlatform([thinker], store=store) as here,
        AgentPlatform([Thinker()], store=other_store) as elsewhere,
    ):
        session = await here.chatbots["Thinker"].create_session(ANNA)
        turn = await session.begin_turn(UserMessage("What is left?"))
        with anyio.fail_after(60):
            await thinker.begun.wait()
            assert await elsewhere.conversations.delete(session.conversation.id, ANNA)
            assert (await turn.result()).failure == "Its conversation was deleted."
        assert list(await store.records()) == []
        assert list(await store.conversations.list()) == []


async def test_conversations_whose_turns_a_queue_delivers_are_deleted_as_any_other(postgres: PostgresServer) -> None:
    url = postgres.database()
    async with (
        PostgresProcessStore(url) as store,
        AgentPlatform([Careful], store=store, engine=DbosEngine(url)) as platform,
    ):
        session = await platform.chatbots["Careful"].create_session(ANNA)
        with anyio.fail_after(60):
            assert (await session.on_user_message(UserMessage("jump"))).questions
            assert (await (await session.answer(response=True)).result()).text == "Done: jump"
            assert (await session.on_user_message(UserMessage("sit"))).questions
            assert await platform.conversations.delete(session.conversation.id, ANNA)
        assert list(await store.records()) == []
        assert list(await store.conversations.list()) == []


async def test_a_conversation_that_is_deleted_while_it_is_read_is_not_found(monkeypatch: pytest.MonkeyPatch) -> None:
    store = InMemoryProcessStore()
    async with AgentPlatform([Parrot], store=store) as first, AgentPlatform([Parrot], store=store) as second:
        session = await first.chatbots["Parrot"].create_session(ANNA)
        await session.on_user_message(UserMessage("one"))
        read = store.conversations.messages

        async def deleted_before(conversation_id: str, /) -> Sequence[MessageRecord]:
            await store.conversations.delete(conversation_id)
            return await read(conversation_id)

        monkeypatch.setattr(store.conversations, "messages", deleted_before)
        assert await second.conversations.find(session.conversation.id, ANNA) is None
