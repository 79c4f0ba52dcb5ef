"""Calls over MCP that wait for their turn, because as many as may be are answered."""

from pathlib import Path

import anyio
import pytest
from mcp_types import CallToolResult, ElicitRequestParams, ElicitResult

from goalport.base.caller import ANONYMOUS
from tests.rooms.rest.test_limits import Bakery
from tests.rooms.serve.askers import Answering, Gate, Pizzeria, call
from tests.rooms.serve.served import ERAS, Served, as_caller, served, text_of
from tests.rooms.serve.test_chatting import Novelist, Parrot, reply_of, say

ADD = "from goalport import tool\n@tool(export=True)\ndef add(a: int, b: int) -> int:\n    '''Add.'''\n    return a + b"
HAM = {"name": "ham", "portions": 2}


async def bake(server: Served, era: str, bread: str, results: list[CallToolResult]) -> None:
    with as_caller(bread):
        async with server.client(era) as client:
            results.append(await call(client, "bake_bread", content=bread))


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("tool", ["bake_bread", "add"])
async def test_a_call_that_waits_for_its_turn_is_heard_of_and_its_progress_grows(
    tmp_path: Path, era: str, tool: str
) -> None:
    breads, results, told = Bakery(), list[CallToolResult](), list[tuple[float, str]]()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        assert total is None or total >= progress
        told.append((progress, message or ""))
        if sum("waits for its turn" in each for _, each in told) == 3:
            breads.let("rye")

    arguments = {"content": "oat"} if tool == "bake_bread" else {"a": 1, "b": 2}
    breads.let("oat")
    files = {"tools/maths.py": ADD}
    async with served(tmp_path, breads, files=files, heartbeat_seconds=0.02, limits={"total_calls": 1}) as server:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bake, server, era, "rye", results)
                await breads.until(1)
                with as_caller("ada"):
                    async with server.client(era) as client:
                        results.append(await client.call_tool(tool, arguments, progress_callback=note))
    assert {text_of(each) for each in results} == {"rye", "oat" if tool == "bake_bread" else "3"}
    numbers = [number for number, _ in told]
    assert numbers == sorted(set(numbers))
    if tool == "bake_bread":
        assert any("begins" in message for _, message in told)


async def test_a_call_has_no_place_while_a_person_is_asked(tmp_path: Path) -> None:
    breads, results, person = Bakery(), list[CallToolResult](), Answering.with_(HAM)
    breads.let("rye")

    async with served(tmp_path, breads, Pizzeria(), limits={"total_calls": 1, "calls": 1}) as server:

        async def ask(context: object, params: ElicitRequestParams) -> ElicitResult:
            await bake(server, "legacy", "rye", results)
            assert not server.state.publisher.limits.waiting
            answer = await person(None, params)
            assert isinstance(answer, ElicitResult)
            return answer

        with anyio.fail_after(60), as_caller("ada"):
            async with server.client("legacy", elicitation_callback=ask) as client:
                baked = await call(client, "order_pizza", size=30)
    assert baked.structured_content == {"content": "30 cm with 2 ham"}
    assert text_of(results[0]) == "rye"


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_is_cancelled_while_it_waits_never_begins(tmp_path: Path, era: str) -> None:
    breads, results = Bakery(), list[CallToolResult]()
    async with served(tmp_path, breads, limits={"total_calls": 1}) as server:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(bake, server, era, "rye", results)
                await breads.until(1)
                async with anyio.create_task_group() as leaving:
                    leaving.start_soon(bake, server, era, "never", results)
                    while not server.state.publisher.limits.waiting:
                        await anyio.sleep(0.01)
                    leaving.cancel_scope.cancel()
                while server.state.publisher.limits.waiting:
                    await anyio.sleep(0.01)
                breads.let("rye")
            await bake(server, era, "rye", results)
    assert breads.begun == ["rye", "rye"]


async def test_a_turn_of_a_chatbot_counts_as_a_process_while_it_runs_and_not_between_turns(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, Novelist(gate), Parrot(), limits={"processes": 1}) as server, server.client() as client:
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(say, client, "chat_novelist", "Write")
                await gate.begun.wait()
                refused = await say(client, "chat_parrot", "hello")
                assert refused.is_error
                assert "1 processes of yours are running" in text_of(refused)
                assert len(await server.platform.conversations.list(ANONYMOUS)) == 1, "none is left behind"
                gate.opened.set()
        known = None
        for number in range(1, 4):
            reply = reply_of(await say(client, "chat_parrot", "hello", known))
            known = reply["conversationId"]
            assert reply["reply"].startswith(str(number))


async def test_a_turn_of_a_chatbot_waits_in_the_fair_queue(tmp_path: Path) -> None:
    gate = Gate()
    replies: list[CallToolResult] = []
    async with served(tmp_path, Novelist(gate), Parrot(), limits={"total_calls": 1}) as server:
        async with server.client() as client:

            async def hello() -> None:
                replies.append(await say(client, "chat_parrot", "hello"))

            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(say, client, "chat_novelist", "Write")
                    await gate.begun.wait()
                    tasks.start_soon(hello)
                    while not server.state.publisher.limits.waiting:
                        await anyio.sleep(0.01)
                    assert not replies
                    gate.opened.set()
        assert reply_of(replies[0])["reply"] == "1: hello … hello"
