"""Conversations in a store that outlives the program: they go on after a restart, and beside another program."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from anyio import create_task_group, fail_after
from anyio.lowlevel import checkpoint

from goalport import AgentPlatform
from goalport.base.caller import Caller
from goalport.base.events import MessageDelta
from goalport.models.llm import UserMessage
from goalport.runtime.chat import ChatSession
from goalport.store.sqlite import SqliteProcessStore
from tests.rooms.chat.talkers import Careful, Nudge, Parrot, Slow

ANNA = Caller("anna")


@asynccontextmanager
async def program(file: Path) -> AsyncGenerator[AgentPlatform]:
    """A program with these chatbots, on the database of that file."""
    async with SqliteProcessStore(file) as store, AgentPlatform([Parrot, Careful, Slow], store=store) as platform:
        yield platform


async def _again(platform: AgentPlatform, session: ChatSession) -> ChatSession:
    found = await platform.chatbots.named(session.chatbot.name).find_session(session.conversation.id, ANNA)
    assert found is not None
    return found


async def test_a_conversation_goes_on_after_a_restart_and_knows_its_first_message(tmp_path: Path) -> None:
    async with program(tmp_path / "db") as first:
        session = await first.chatbots["Parrot"].create_session(ANNA)
        await session.on_user_message(UserMessage("one"))
    async with program(tmp_path / "db") as second:
        again = await _again(second, session)
        assert (await again.on_user_message(UserMessage("two"))).text == "2: one … two"
        assert (await again.trigger(Nudge("rain"))).text == "Oh, rain"
        assert again.process_id == session.process_id


async def test_a_question_is_answered_in_another_program_than_the_one_that_asked(tmp_path: Path) -> None:
    async with program(tmp_path / "db") as first:
        session = await first.chatbots["Careful"].create_session(ANNA)
        asked = await session.on_user_message(UserMessage("jump"))
    async with program(tmp_path / "db") as second:
        again = await _again(second, session)
        assert [each.id for each in again.questions] == [each.id for each in asked.questions]
        turn = await again.answer(response=True)
        assert (await turn.result()).text == "Done: jump"
        assert [each.role for each in again.conversation.entries] == ["user", "assistant"]


async def test_the_very_first_reply_is_followed_and_stopped_from_anotherprogram(tmp_path: Path) -> None:
    async with program(tmp_path / "db") as first, program(tmp_path / "db") as second:
        session = await first.chatbots["Slow"].create_session(ANNA)
        turn = await session.begin_turn(UserMessage("wait"))
        async with aclosing(turn.events()) as events:
            while not isinstance(await anext(events), MessageDelta):
                pass
        other = await _again(second, session)
        with fail_after(60):
            followed = await other.follow()
            assert followed is not None
            followed.cancel("Enough.")
            assert "Enough." in (await followed.result()).failure
            assert "Enough." in (await turn.result()).failure


async def test_what_is_kept_of_a_message_is_answered_though_whoever_said_it_went_away_meanwhile(tmp_path: Path) -> None:
    async with program(tmp_path / "db") as platform:
        session = await platform.chatbots["Parrot"].create_session(ANNA)
        with fail_after(120):
            for steps in range(0, 120, 4):
                async with create_task_group() as tasks:
                    tasks.start_soon(session.begin_turn, UserMessage("Hello"))
                    for _ in range(steps):
                        await checkpoint()
                    tasks.cancel_scope.cancel()
                if (turn := await session.follow()) is not None:
                    await turn.result()
        roles = [each.role for each in session.conversation.entries]
        assert roles == ["user", "assistant"] * (len(roles) // 2)
        assert roles


async def test_two_programs_on_one_store_answer_one_after_another(tmp_path: Path) -> None:
    async with program(tmp_path / "db") as first, program(tmp_path / "db") as second:
        session = await first.chatbots["Parrot"].create_session(ANNA)
        await session.on_user_message(UserMessage("zero"))
        other = await _again(second, session)
        with fail_after(120):
            for number in range(5):
                await asyncio.gather(
                    *(each.on_user_message(UserMessage(f"{number}")) for each in (session, other)),
                )
        again = await _again(first, session)
        said = [each.text for each in again.conversation.entries]
        assert len(said) == 22
        replies = [each for each in said if each.partition(":")[0].isdecimal() and ": zero" in each]
        assert len(replies) == 11


KILLED = """
import asyncio, sys
from pathlib import Path
from goalport.models.llm import UserMessage
from tests.rooms.chat.test_stored_sessions import ANNA, program

async def main():
    async with program(Path(sys.argv[1])) as platform:
        session = await platform.chatbots["Parrot"].create_session(ANNA)
        for number in range(1, 101):
            await session.on_user_message(UserMessage(f"message {number}"))
        print(session.conversation.id, flush=True)
        for number in range(101, 201):
            await session.on_user_message(UserMessage(f"message {number}"))
        await asyncio.Event().wait()

asyncio.run(main())
"""


async def test_turn_201_knows_turn_1_although_the_program_was_killed_in_between(tmp_path: Path) -> None:
    with fail_after(200):
        killed = await asyncio.create_subprocess_exec(
            sys.executable, "-c", KILLED, str(tmp_path / "db"), stdout=asyncio.subprocess.PIPE
        )
        assert killed.stdout is not None
        conversation_id = (await killed.stdout.readline()).decode().strip()
        killed.kill()
        await killed.wait()
        async with program(tmp_path / "db") as platform:
            session = await platform.chatbots["Parrot"].find_session(conversation_id, ANNA)
            assert session is not None
            running = await session.last_turn()
            assert running is not None
            await running.result()  # the turn that the kill cut off, if it did
            await platform.conversations.load(session.conversation)
            said = [each.text for each in session.conversation.entries if each.role == "user"]
            assert said == [f"message {number}" for number in range(1, len(said) + 1)]
            replies = [each.text for each in session.conversation.entries if each.role == "assistant"]
            replies += [
                (await session.on_user_message(UserMessage(f"message {number}"))).text
                for number in range(len(said) + 1, 202)
            ]
            assert replies[-1] == "201: message 1 … message 201"
            assert len(replies) == len(set(replies))
