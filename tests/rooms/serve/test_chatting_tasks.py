"""Turns of chatbots as tasks, for clients that declare the extension: each turn is a task of its own."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import MCPError

from tests.rooms.serve.askers import Answering, Gate
from tests.rooms.serve.following_tasks import FollowingTasks, ask, create, state_of_task
from tests.rooms.serve.served import as_caller, served
from tests.rooms.serve.test_chatting import YES, Novelist, Parrot, Payer, reply_of, say


class Declaring(FollowingTasks):
    """Declares the extension and follows no task by itself."""


async def test_each_turn_is_a_task_and_its_questions_are_asked(tmp_path: Path) -> None:
    person = Answering.with_(YES)
    following = FollowingTasks(person)
    options: dict[str, Any] = {"extensions": [following], "elicitation_callback": person}
    async with served(tmp_path, Parrot(), Payer()) as server, server.client(**options) as client:
        known = reply_of(await say(client, "chat_parrot", "one"))["conversationId"]
        assert reply_of(await say(client, "chat_parrot", "two", known))["reply"] == "2: one … two"
        assert reply_of(await say(client, "chat_payer", "pay 5"))["reply"] == "Let me ask.\n\nPaid."
    assert len(set(following.tasks)) == 3
    assert "input_required" in following.statuses


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_task_that_has_ended_is_the_same_after_the_next_turn(tmp_path: Path, store: str) -> None:
    async with served(tmp_path, Parrot(), store=store) as server, server.client(extensions=[Declaring()]) as client:
        first = await create(client, "chat_parrot", message="one")
        done = await state_of_task(client, first, "completed")
        reply: Any = done["result"]["structuredContent"]
        second = await create(client, "chat_parrot", message="two", conversationId=reply["conversationId"])
        after = await state_of_task(client, second, "completed")
        assert after["result"]["structuredContent"]["reply"] == "2: one … two"
        assert (await ask(client.session, "tasks/get", first))["result"]["structuredContent"] == reply
        with as_caller("ben"), pytest.raises(MCPError, match="There is no task"):
            await ask(client.session, "tasks/get", first)
        with pytest.raises(MCPError, match="There is no task"):
            await ask(client.session, "tasks/get", first.partition(":")[0])


async def test_to_cancel_a_task_that_has_ended_leaves_the_next_turn_alone(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, Novelist(gate)) as server, server.client(extensions=[Declaring()]) as client:
        gate.opened.set()
        first = await create(client, "chat_novelist", message="Write")
        done = await state_of_task(client, first, "completed")
        gate.opened, gate.begun = anyio.Event(), anyio.Event()
        known = done["result"]["structuredContent"]["conversationId"]
        second = await create(client, "chat_novelist", message="Again", conversationId=known)
        with anyio.fail_after(60):
            await gate.begun.wait()
        await ask(client.session, "tasks/cancel", first)
        gate.opened.set()
        after = await state_of_task(client, second, "completed")
    assert after["result"]["structuredContent"]["reply"] == "A novel.\n\nOnce upon a time"


async def test_a_turn_that_fails_completes_its_task_with_the_error(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot()) as server, server.client(extensions=[Declaring()]) as client:
        told = await state_of_task(client, await create(client, "chat_parrot", message="fail"), "completed")
    assert told["result"]["isError"]
    assert "chat_parrot could not reply" in told["result"]["content"][0]["text"]
