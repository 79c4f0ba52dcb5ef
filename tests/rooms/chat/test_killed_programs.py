"""A program that is killed at any step of its turns leaves conversations that go on."""

import asyncio
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from anyio import fail_after

from goalport import ActionContext, AgentPlatform, action
from goalport.base.caller import Caller
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from goalport.store import Lease, StoredProcess
from goalport.store.sqlite import SqliteProcessStore
from goalport.testing import ScriptedModel

ANNA = Caller("anna")


@chatbot(description="Spends too much when it is told to")
class Spender:
    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, message: UserMessage, context: ActionContext) -> None:
        if message.content == "spend":
            context.spend(cost=3.0)
            await context.ai.generate_text("Is there more?")
        await context.send_message(f"You said {message.content}")


class Copied(SqliteProcessStore):
    """Keeps a copy of itself as it is after each step."""

    def __init__(self, file: Path) -> None:
        super().__init__(file)
        self._file = file
        self.copies: list[Path] = []

    async def save(self, changes: Sequence[StoredProcess], lease: Lease, /, **when: Any) -> Lease:
        saved = await super().save(changes, lease, **when)
        self.copies.append(self._file.with_name(f"copy {len(self.copies)}"))
        with closing(sqlite3.connect(self._file)) as now, closing(sqlite3.connect(self.copies[-1])) as copy:
            now.backup(copy)
        return saved


async def _reply_after(file: Path, conversation_id: str) -> str:
    """What is answered next by a program that goes on with what another one has left."""
    async with (
        SqliteProcessStore(file) as store,
        AgentPlatform([Spender], models=ScriptedModel(), store=store, lease_seconds=1.0) as platform,
    ):
        session = await platform.chatbots["Spender"].find_session(conversation_id, ANNA)
        assert session is not None
        return (await session.on_user_message(UserMessage("hello"))).text


async def test_a_conversation_goes_on_wherever_in_its_turns_the_program_was_killed(tmp_path: Path) -> None:
    async with (
        Copied(tmp_path / "processes.db") as store,
        AgentPlatform([Spender], models=ScriptedModel(), store=store, lease_seconds=1.0) as platform,
    ):
        session = await platform.chatbots["Spender"].create_session(ANNA)
        with fail_after(60):
            assert "budget" in (await session.on_user_message(UserMessage("spend"))).failure
            turn = await session.begin_turn(UserMessage("stop"))
            turn.process.stop_turn("Enough.")
            assert (await turn.result()).failure == "Enough."
            copies = [*store.copies]
    with fail_after(60):
        replies = await asyncio.gather(*(_reply_after(each, session.conversation.id) for each in copies))
    assert len(copies) > 4
    assert set(replies) == {"You said hello"}
