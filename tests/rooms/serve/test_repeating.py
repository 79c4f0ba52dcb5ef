import asyncio
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client
from mcp_types import CallToolResult
from pydantic import BaseModel

from goalport import Export, achieves_goal, action, agent
from goalport.base.caller import Caller
from goalport.runtime.platform.runs import IdempotentCall
from goalport.runtime.process import Killed
from tests.rooms.serve.served import ERAS, Served, served, text_of


class Order(BaseModel):
    dish: str


class Meal(BaseModel):
    content: str


class Kitchen:
    """What the cook's actions are seen to do, and what holds them up."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.cooked = 0
        self.stopped = 0

    async def cook(self, order: Order) -> Meal:
        self.cooked += 1
        self.begun.set()
        try:
            await self.go_on.wait()
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        return Meal(content=order.dish)


@agent(description="Cooks while somebody waits")
class Cook:
    def __init__(self, kitchen: Kitchen) -> None:
        self.kitchen = kitchen

    @achieves_goal(description="A meal", export=Export(remote=True, name="cook"))
    @action
    async def cook(self, order: Order) -> Meal:
        return await self.kitchen.cook(order)


@agent(description="Cooks whether anybody waits or not")
class Caterer:
    def __init__(self, kitchen: Kitchen) -> None:
        self.kitchen = kitchen

    @achieves_goal(description="A meal", export=Export(remote=True, name="cook", on_disconnect="detach"))
    @action
    async def cook(self, order: Order) -> Meal:
        return await self.kitchen.cook(order)


async def order(client: Client, key: object, dish: str = "soup") -> CallToolResult:
    meta: Any = {"goalport/idempotencyKey": key}
    return await client.call_tool("cook", {"dish": dish}, meta=meta)


def process_in(result: CallToolResult) -> str:
    assert result.meta is not None
    return result.meta["goalport/processId"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_with_the_key_of_a_running_one_joins_it(tmp_path: Path, era: str) -> None:
    kitchen = Kitchen()
    results: list[CallToolResult] = []
    async with served(tmp_path, Cook(kitchen)) as server, server.client(era) as client:

        async def ask() -> None:
            results.append(await order(client, "k1"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as calls:
                calls.start_soon(ask)
                await kitchen.begun.wait()
                calls.start_soon(ask)
                await anyio.wait_all_tasks_blocked()
                kitchen.go_on.set()
    assert kitchen.cooked == 1
    assert process_in(results[0]) == process_in(results[1])
    assert [text_of(each) for each in results] == ["soup", "soup"]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_with_the_key_of_a_finished_one_has_its_result(tmp_path: Path, era: str) -> None:
    kitchen = Kitchen()
    kitchen.go_on.set()
    async with served(tmp_path, Cook(kitchen)) as server:
        async with server.client(era) as client:
            first = await order(client, "k1")
        async with server.client(era) as client:
            second = await order(client, "k1")
    assert process_in(first) == process_in(second)
    assert kitchen.cooked == 1


async def test_other_arguments_under_the_same_key_are_an_error(tmp_path: Path) -> None:
    kitchen = Kitchen()
    kitchen.go_on.set()
    async with served(tmp_path, Cook(kitchen)) as server, server.client() as client:
        await order(client, "k1", "soup")
        other = await order(client, "k1", "cake")
    assert other.is_error
    assert "'k1' was used" in text_of(other)
    assert kitchen.cooked == 1


async def test_another_key_is_another_run(tmp_path: Path) -> None:
    kitchen = Kitchen()
    kitchen.go_on.set()
    async with served(tmp_path, Cook(kitchen)) as server, server.client() as client:
        assert process_in(await order(client, "k1")) != process_in(await order(client, "k2"))


@pytest.mark.parametrize("key", ["", 7, ["k"], "x" * 300], ids=["empty", "number", "list", "long"])
async def test_a_key_that_is_none_is_refused_and_nothing_runs(tmp_path: Path, key: object) -> None:
    kitchen = Kitchen()
    async with served(tmp_path, Cook(kitchen)) as server, server.client() as client:
        result = await order(client, key)
    assert result.is_error
    assert "goalport/idempotencyKey" in text_of(result)
    assert not kitchen.cooked


async def started(server: Served, era: str, kitchen: Kitchen, key: str | None = None) -> None:
    """A call that is cancelled once its action runs."""
    async with server.client(era) as client, anyio.create_task_group() as calls:
        meta: Any = {"goalport/idempotencyKey": key} if key else None

        async def ask() -> None:
            await client.call_tool("cook", {"dish": "soup"}, meta=meta)

        calls.start_soon(ask)
        await kitchen.begun.wait()
        calls.cancel_scope.cancel()


@pytest.mark.parametrize("era", ERAS)
async def test_a_cancelled_call_stops_the_action_and_kills_the_process(tmp_path: Path, era: str) -> None:
    kitchen = Kitchen()
    async with served(tmp_path, Cook(kitchen)) as server:
        with anyio.fail_after(60):
            await started(server, era, kitchen)
            outcome = await (await server.process()).wait()
    assert isinstance(outcome, Killed)
    assert kitchen.stopped == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_detached_process_goes_on_and_can_be_joined(tmp_path: Path, era: str) -> None:
    kitchen = Kitchen()
    async with served(tmp_path, Caterer(kitchen)) as server:
        with anyio.fail_after(60):
            await started(server, era, kitchen, "k1")
            await anyio.wait_all_tasks_blocked()
            assert (await server.process()).outcome is None
            kitchen.go_on.set()
            async with server.client(era) as client:
                assert text_of(await order(client, "k1")) == "soup"
    assert (kitchen.cooked, kitchen.stopped) == (1, 0)


async def test_a_process_lives_as_long_as_one_of_its_callers(tmp_path: Path) -> None:
    kitchen = Kitchen()
    async with served(tmp_path, Cook(kitchen)) as server, server.client() as client:
        results: list[CallToolResult] = []

        async def stay() -> None:
            results.append(await order(client, "k1"))

        with anyio.fail_after(60):
            async with anyio.create_task_group() as calls:
                calls.start_soon(stay)
                await kitchen.begun.wait()
                await started(server, "auto", kitchen, "k1")
                kitchen.go_on.set()
    assert text_of(results[0]) == "soup"
    assert kitchen.cooked == 1


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_that_was_cancelled_can_be_made_again_under_its_key(tmp_path: Path, era: str) -> None:
    kitchen = Kitchen()
    async with served(tmp_path, Cook(kitchen)) as server:
        with anyio.fail_after(60):
            await started(server, era, kitchen, "k1")
            kitchen.go_on.set()
            async with server.client(era) as client:
                assert text_of(await order(client, "k1")) == "soup"
    assert kitchen.cooked == 2


def test_the_keys_of_one_caller_are_not_those_of_another() -> None:
    def named(caller: str, key: str) -> str:
        return IdempotentCall.of(Caller(caller), "cook", key, {}).name

    assert len({named("ada", "k"), named("bob", "k"), named("ada", "k2")}) == 3
    assert named("ada", "k") == named("ada", "k")
