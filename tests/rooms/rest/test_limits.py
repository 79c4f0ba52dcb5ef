"""Each caller may do so much at once, in a minute and in a day; beyond that callers take turns or are refused."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from goalport import ActionContext, Export, UserInput, achieves_goal, agent
from goalport.models.llm import TokenUsage
from tests.rooms.rest.web import PROCESS, Web, web
from tests.rooms.serve.askers import Pizzeria
from tests.rooms.serve.served import text_of

ADA = {"Caller": "ada", "Issuer": "https://one"}
BOB = {"Caller": "bob", "Issuer": "https://one"}
OTHER_ADA = {"Caller": "ada", "Issuer": "https://other"}


@agent(description="Bakes one bread after another, each when the test lets it")
class Bakery:
    def __init__(self) -> None:
        self.begun: list[str] = []
        self._let: dict[str, anyio.Event] = {}
        self._news = anyio.Event()

    @achieves_goal(description="Bread", export=Export(remote=True, name="bake_bread"))
    async def bake(self, wanted: UserInput) -> str:
        self.begun.append(wanted.content)
        self._news.set()
        await self._of(wanted.content).wait()
        return wanted.content

    def _of(self, bread: str) -> anyio.Event:
        return self._let.setdefault(bread, anyio.Event())

    def let(self, *breads: str) -> None:
        """Finish these, also those that have not begun."""
        for each in breads:
            self._of(each).set()

    async def until(self, number: int) -> str:
        """The bread that was begun as the one of that number."""
        while len(self.begun) < number:
            await self._news.wait()
            self._news = anyio.Event()
        return self.begun[number - 1]


@agent(description="Spends what it is told to")
class Spender:
    @achieves_goal(description="Nothing", export=Export(remote=True, name="spend"))
    async def spend(self, cents: UserInput, context: ActionContext) -> str:
        context.process.spend(TokenUsage(cost=int(cents.content) / 100), action="Spender.spend", model="m")
        return "spent"


async def post(server: Web, goal: str, content: str, who: Mapping[str, str], wait: float = 20) -> httpx2.Response:
    body = {"goal": goal, "input": {"content": content}, "wait": wait}
    return await server.http.post(PROCESS, json=body, headers={**who})


def refused(answer: httpx2.Response, limit: str) -> int:
    """After how many seconds a call that a limit refuses may be tried again."""
    assert answer.status_code == 429, answer.text
    assert answer.json()["limit"] == limit
    assert "Try again in" in answer.json()["detail"]
    return int(answer.headers["retry-after"])


@asynccontextmanager
async def bakery(root: Path, **limits: Any) -> AsyncGenerator[tuple[Web, Bakery, dict[str, httpx2.Response]]]:
    """A server with limits, its bakery, and a place for the answers to what is ordered."""
    breads, answers = Bakery(), dict[str, httpx2.Response]()
    async with web(root, breads, limits=limits) as server:
        with anyio.fail_after(60):
            yield server, breads, answers


async def order(
    server: Web, answers: dict[str, httpx2.Response], bread: str, who: Mapping[str, str], wait: float = 20
) -> None:
    answers[bread] = await post(server, "bake_bread", bread, who, wait)


async def test_so_many_calls_of_a_caller_are_answered_at_once(tmp_path: Path) -> None:
    async with bakery(tmp_path, calls=1) as (server, breads, answers):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(order, server, answers, "rye", ADA)
            await breads.until(1)
            assert refused(await post(server, "bake_bread", "oat", ADA), "calls") >= 1
            breads.let("rye", "of bob", "of the other")
            assert (await post(server, "bake_bread", "of bob", BOB)).status_code == 200
            assert (await post(server, "bake_bread", "of the other", OTHER_ADA)).status_code == 200
        assert answers["rye"].status_code == 200
        breads.let("oat")
        assert (await post(server, "bake_bread", "oat", ADA)).status_code == 200
        numbers = (await server.http.get("/metrics", headers={"Documented": "no"})).text
        assert 'goalport_refusals_total{limit="calls"} 1.0' in numbers


async def test_so_many_processes_of_a_caller_run_at_once(tmp_path: Path) -> None:
    async with web(tmp_path, breads := Bakery(), Pizzeria(), limits={"processes": 1}) as server:
        with anyio.fail_after(60):
            waiting = {"goal": "order_pizza", "input": {"size": 30}}
            for _ in range(2):  # they wait for a person
                assert (await server.http.post(PROCESS, json=waiting, headers=ADA)).status_code == 202
            started = await post(server, "bake_bread", "rye", ADA, wait=0)
            assert started.status_code == 202
            refused(await post(server, "bake_bread", "oat", ADA, wait=0), "processes")
            assert (await post(server, "bake_bread", "of bob", BOB, wait=0)).status_code == 202
            breads.let("rye", "oat")
            await server.http.get(f"{started.json()['links']['self']}?wait=20", headers=ADA)
            assert (await post(server, "bake_bread", "oat", ADA)).status_code == 200


async def test_processes_that_are_started_together_count_once_each(tmp_path: Path) -> None:
    async with bakery(tmp_path, processes=4) as (server, breads, answers):
        async with anyio.create_task_group() as tasks:
            for bread in "abcdef":
                tasks.start_soon(partial(order, server, answers, bread, ADA, wait=0))
        assert sorted(each.status_code for each in answers.values()) == [202] * 4 + [429] * 2
        breads.let(*"abcdef")


async def test_so_many_calls_of_a_caller_begin_something_in_a_minute_through_any_door(tmp_path: Path) -> None:
    async with bakery(tmp_path, calls_per_minute=2) as (server, breads, _):
        breads.let("rye", "oat")
        async with (
            httpx2.AsyncClient(headers=ADA, timeout=20) as http,
            Client(streamable_http_client(f"{server.http.base_url}/mcp", http_client=http)) as client,
        ):
            assert not (await client.call_tool("bake_bread", {"content": "rye"})).is_error
            first = await post(server, "bake_bread", "oat", ADA)
            assert first.status_code == 200
            assert 0 < refused(await post(server, "bake_bread", "rye", ADA), "calls_per_minute") <= 60
            told = await client.call_tool("bake_bread", {"content": "rye"})
            assert told.is_error
            assert "You have made 2 calls within a minute" in text_of(told)
            assert told.meta is not None
            assert told.meta["goalport/limit"] == "calls_per_minute"
            assert 0 < told.meta["goalport/retryAfterSeconds"] <= 60
        assert (await server.http.get(first.json()["links"]["self"], headers=ADA)).status_code == 200
        for who in (BOB, OTHER_ADA):
            assert (await post(server, "bake_bread", "rye", who)).status_code == 200
        assert breads.begun == ["rye", "oat", "rye", "rye"]


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_the_processes_of_a_caller_cost_so_much_in_a_day(tmp_path: Path, store: str) -> None:
    limits = {"cost_per_day": 0.5}
    async with web(tmp_path, Spender(), store=store, limits=limits) as server:
        for _ in range(2):
            assert (await post(server, "spend", "30", ADA)).status_code == 200
        answer = await post(server, "spend", "1", ADA)
        now = datetime.now(UTC)
        assert abs(refused(answer, "cost_per_day") + now.hour * 3600 + now.minute * 60 + now.second - 86_400) < 60
        assert "You have spent 0.60 USD today, and may spend 0.50 USD" in answer.json()["detail"]
        assert (await post(server, "spend", "30", BOB)).status_code == 200
        assert (await post(server, "spend", "30", OTHER_ADA)).status_code == 200
        if store == "sqlite":  # another program, or this one after a restart
            async with web(tmp_path, Spender(), store=store, limits=limits) as second:
                refused(await post(second, "spend", "1", ADA), "cost_per_day")
                assert (await post(second, "spend", "30", BOB)).status_code == 200
                refused(await post(second, "spend", "30", BOB), "cost_per_day")


async def test_a_caller_may_have_limits_of_its_own(tmp_path: Path) -> None:
    own = {"ada": {"calls_per_minute": 0}, "https://other ada": {"calls_per_minute": 2}}
    async with bakery(tmp_path, calls_per_minute=1, callers=own) as (server, breads, _):
        breads.let("rye")
        found = {
            who["Issuer"] + who["Caller"]: [(await post(server, "bake_bread", "rye", who)).status_code for _ in "123"]
            for who in (ADA, BOB, OTHER_ADA)
        }
    assert list(found.values()) == [[200, 200, 200], [200, 429, 429], [200, 200, 429]]


async def test_callers_take_turns_when_as_many_calls_as_may_are_answered(tmp_path: Path) -> None:
    async with bakery(tmp_path, total_calls=1) as (server, breads, answers), anyio.create_task_group() as tasks:
        tasks.start_soon(order, server, answers, "ada 0", ADA)
        await breads.until(1)
        for who, bread in ((ADA, "ada 1"), (ADA, "ada 2"), (ADA, "ada 3"), (BOB, "bob 1"), (OTHER_ADA, "other 1")):
            tasks.start_soon(order, server, answers, bread, who)
            await _waiting(server, who, bread)
        for number in range(1, 7):
            breads.let(await breads.until(number))
    assert breads.begun == ["ada 0", "ada 1", "bob 1", "other 1", "ada 2", "ada 3"]
    assert {each.status_code for each in answers.values()} == {200}


async def test_a_caller_whose_many_calls_wait_is_refused_more(tmp_path: Path) -> None:
    async with bakery(tmp_path, total_calls=1, waiting_calls=1) as (server, breads, answers):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(order, server, answers, "rye", BOB)
            await breads.until(1)
            tasks.start_soon(order, server, answers, "oat 1", ADA)
            await _waiting(server, ADA, "oat 1")
            refused(await post(server, "bake_bread", "more", ADA), "waiting_calls")
            breads.let("rye", "oat 1")
        assert {each.status_code for each in answers.values()} == {200}


async def test_a_call_whose_client_leaves_loses_its_turn(tmp_path: Path) -> None:
    async with bakery(tmp_path, total_calls=1) as (server, breads, answers), anyio.create_task_group() as tasks:
        tasks.start_soon(order, server, answers, "rye", BOB)
        await breads.until(1)
        async with anyio.create_task_group() as leaving:
            leaving.start_soon(order, server, answers, "never 1", ADA)
            await _waiting(server, ADA, "never 1")
            leaving.cancel_scope.cancel()
        while server.publisher.limits.waiting:
            await anyio.sleep(0.01)
        tasks.start_soon(order, server, answers, "oat", ADA)
        breads.let("rye", "oat")
    assert breads.begun == ["rye", "oat"]


async def test_an_answer_is_taken_when_nothing_more_may_begin(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria(), limits={"calls_per_minute": 1, "processes": 1}) as server:
        server.http.headers.update(ADA)
        state = (await server.start("order_pizza", {"size": 30})).json()
        refused(await server.start("order_pizza", {"size": 30}), "calls_per_minute")
        assert (await server.resume(state, {"name": "ham", "portions": 2})).status_code == 200


async def _waiting(server: Web, who: Mapping[str, str], bread: str) -> None:
    """Wait until a call waits for its turn, as the one of its caller whose number its bread has."""
    number = int(bread.rpartition(" ")[2])
    while server.publisher.limits.waiting[who["Issuer"], who["Caller"]] < number:
        await anyio.sleep(0.01)
