"""Calls of chatbots that clients repeat under an idempotency key: a message is said once."""

from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult

from tests.rooms.serve.askers import Gate
from tests.rooms.serve.served import as_caller, served, text_of
from tests.rooms.serve.test_chatting import Novelist, Parrot, reply_of

KEY: Any = {"goalport/idempotencyKey": "k-1"}


async def say(client: Client, tool: str, message: str, known: str = "", meta: Any = KEY) -> CallToolResult:
    given = {"message": message, **({"conversationId": known} if known else {})}
    with anyio.fail_after(60):
        result = await client.call_tool(tool, given, meta=meta)
    assert isinstance(result, CallToolResult)
    return result


@pytest.mark.parametrize("store", ["memory", "sqlite"])
async def test_a_message_that_is_repeated_gets_the_reply_to_the_first(tmp_path: Path, store: str) -> None:
    async with served(tmp_path, Parrot(), store=store) as server, server.client() as client:
        first = reply_of(await say(client, "chat_parrot", "one"))
        assert reply_of(await say(client, "chat_parrot", "one")) == first
        known = first["conversationId"]
        assert reply_of(await say(client, "chat_parrot", "two", known, meta=None))["reply"] == "2: one … two"
        assert reply_of(await say(client, "chat_parrot", "one")) == first
        other = await say(client, "chat_parrot", "three", known)
        assert other.is_error
        assert "other arguments" in text_of(other)
        with as_caller("ben"):
            assert reply_of(await say(client, "chat_parrot", "one"))["conversationId"] != known


async def test_a_repetition_joins_the_turn_that_runs(tmp_path: Path) -> None:
    gate, replies = Gate(), list[dict[str, Any]]()
    async with served(tmp_path, Novelist(gate)) as server, server.client() as client:

        async def write() -> None:
            replies.append(reply_of(await say(client, "chat_novelist", "Write")))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(write)
                await gate.begun.wait()
                tasks.start_soon(write)
                while server.state.publisher.calls.number < 2:
                    await anyio.sleep(0.01)
                gate.opened.set()
    assert replies[0] == replies[1]
    assert replies[0]["reply"] == "A novel.\n\nOnce upon a time"


async def test_a_call_that_was_refused_can_be_repeated(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, Novelist(gate), Parrot(), limits={"processes": 1}) as server, server.client() as client:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(say, client, "chat_novelist", "Write", "", None)
                await gate.begun.wait()
                assert (await say(client, "chat_parrot", "one")).is_error
                gate.opened.set()
        assert reply_of(await say(client, "chat_parrot", "one"))["reply"] == "1: one … one"


async def test_a_repetition_is_put_off_while_the_first_call_waits_to_say_its_message(tmp_path: Path) -> None:
    gate, answers = Gate(), list[CallToolResult]()
    answered = anyio.Event()
    async with served(tmp_path, Novelist(gate)) as server, server.client() as client:
        gate.opened.set()
        known = reply_of(await say(client, "chat_novelist", "Write", meta=None))["conversationId"]
        gate.opened, gate.begun = anyio.Event(), anyio.Event()

        async def again() -> None:
            answers.append(await say(client, "chat_novelist", "Again", known))
            answered.set()

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(say, client, "chat_novelist", "More", known, None)
                await gate.begun.wait()
                tasks.start_soon(again)
                tasks.start_soon(again)
                await answered.wait()
                assert "just saying its message" in text_of(answers[0])
                gate.opened.set()
    assert reply_of(answers[1])["reply"] == "A novel.\n\nOnce upon a time"
