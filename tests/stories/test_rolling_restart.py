"""Servers behind a proxy are replaced one by one: whoever tries again loses nothing, and their work goes on at once."""

import json
import random
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio.abc import TaskGroup, TaskStatus

from tests.postgres import PostgresServer
from tests.proxies import RoundRobin, round_robin
from tests.stories.cooks import HEADERS, META, http_of, session
from tests.stories.fleets import FILES, KEYS, Fleet
from tests.stories.servers import Running, running
from tests.web_servers import HOST, WEB_SERVERS, WebServer, free_port, nginx

PAUSE = 0.2
"""Between two orders of a person, in seconds: the load is to meet each restart, and not to hold up the new servers."""
SETTINGS: dict[str, Any] = {"store": "sqlite", "state_keys": KEYS, "shutdown_seconds": "2"}


@dataclass
class Caller:
    """Calls tools of a fleet by hand, and tries again whatever a proxy or a server that ends refuses."""

    http: httpx2.AsyncClient
    era: str
    headers: Mapping[str, str]
    tried_again: int = 0
    number: int = 10

    async def call(self, tool: str, key: str = "", **arguments: Any) -> dict[str, Any]:
        """The structured content of the answer."""
        meta = {"goalport/idempotencyKey": key} if key else {}
        params: dict[str, Any] = {"name": tool, "arguments": arguments, "_meta": meta}
        headers = dict(self.headers)
        if self.era == "auto":
            params["_meta"] = {**META, **meta}
            headers |= {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": tool}
        while True:
            self.number += 1
            body = {"jsonrpc": "2.0", "id": self.number, "method": "tools/call", "params": params}
            result = await self._result(body, headers)
            if result is not None and not result.get("isError"):
                return result["structuredContent"]
            self.tried_again += 1
            await anyio.sleep(0.05)

    async def _result(self, body: dict[str, Any], headers: dict[str, str]) -> dict[str, Any] | None:
        """None if the answer was lost, or the server said to try again."""
        try:
            response = await self.http.post("/mcp", json=body, headers=headers)
        except httpx2.TransportError:
            return None
        if response.status_code in {502, 503}:
            return None
        answer = json.loads(response.text.rpartition("data: ")[2])
        result = answer["result"]
        said = str(result["content"])
        assert not result.get("isError") or "ask again" in said or "Try again later" in said, said
        return result


@asynccontextmanager
async def caller(fleet: Fleet, era: str) -> AsyncGenerator[Caller]:
    if era == "legacy":
        async with session(fleet.proxy) as (http, headers):
            yield Caller(http, era, headers)
    else:
        async with http_of(fleet.proxy) as http:
            yield Caller(http, era, HEADERS)


async def crowns(fleet: Fleet, era: str, enough: anyio.Event, made: list[str]) -> None:
    """Order crowns, choose their gems and fetch them, one after the other."""
    async with caller(fleet, era) as person:
        number = 0
        while not enough.is_set():
            number += 1
            name = f"{era} {number}"
            handle = await person.call("crown", key=name, content=name)
            if handle["status"] == "waiting":
                process = {"processId": handle["processId"]}
                await answer(person, process)
                crown = await person.call("process_status", **process, waitSeconds=20)
                assert crown == {"content": f"red for {name}"}
            made.append(name)
            await anyio.sleep(PAUSE)


async def answer(person: Caller, process: dict[str, str]) -> None:
    """Answer a question; an answer that was lost may have been taken."""
    while True:
        status = await person.call("process_status", **process)
        if "content" in status:
            return
        if status["status"] == "waiting":
            await person.call("process_answer", **process, answer={"colour": "red"})
            return


class Hosts:
    """Runs servers, each in a task of its own, so that they may begin and end in any order."""

    def __init__(
        self, root: Path, settings: Mapping[str, Any], tasks: TaskGroup, files: Mapping[str, str] = FILES
    ) -> None:
        self._root, self._settings, self._tasks, self._files = root, settings, tasks, files

    async def start(self, port: int) -> Running:
        return await self._tasks.start(self._run, port)

    async def _run(self, port: int, *, task_status: TaskStatus[Running]) -> None:
        async with running(self._root, self._files, port=port, **self._settings) as server:
            task_status.started(server)
            await server.process.wait()

    async def replace(self, fleet: Fleet, number: int) -> None:
        """Have a server end as a deployment does, and start another."""
        old = fleet.servers[number]
        old.process.terminate()
        with anyio.fail_after(60):
            assert await old.process.wait() == 0
        fleet.servers[number] = await self.start(old.port)


Proxy = Callable[[list[str]], AbstractAsyncContextManager[RoundRobin | WebServer]]


async def roll(root: Path, settings: Mapping[str, Any], proxy: Proxy = round_robin) -> None:
    async with anyio.create_task_group() as tasks:
        hosts = Hosts(root, settings, tasks)
        servers = [await hosts.start(free_port()) for _ in range(3)]
        async with proxy([each.address for each in servers]) as before:
            await replace_all(hosts, Fleet(servers, before, root))
        for each in servers:
            each.process.terminate()


async def replace_all(hosts: Hosts, fleet: Fleet) -> None:
    enough, made, swords = anyio.Event(), list[str](), dict[str, str]()
    async with caller(fleet, "auto") as person, anyio.create_task_group() as load:
        for name in (f"sword {number}" for number in range(6)):
            handle = await person.call("forge", key=name, content=name)
            swords[name] = handle["processId"]
        for era in ("auto", "legacy"):
            load.start_soon(crowns, fleet, era, enough, made)
        for number in range(3):
            before = len(made)
            await hosts.replace(fleet, number)
            assert len(made) > before, "the others go on meanwhile"
            await taken_over(fleet, swords)
        (fleet.folder / "agents/hot").touch()
        for name, process in swords.items():
            assert await person.call("process_status", processId=process, waitSeconds=20) == {"name": name}
        enough.set()
    assert any(line.startswith("stop") for line in fleet.lines())
    assert [line for line in fleet.lines() if line.startswith("melt")] == [f"melt {name}" for name in swords]
    assert len(set(made)) == len(made)


async def taken_over(fleet: Fleet, swords: Iterable[str]) -> None:
    """Wait until every action that was interrupted has begun again; leases would keep others off for 30 seconds."""
    with anyio.fail_after(60):
        for name in swords:
            while (lines := fleet.lines()).count(f"forge {name}") <= lines.count(f"stop {name}"):
                await anyio.sleep(0.02)


async def test_three_servers_behind_nginx_are_replaced_under_load(tmp_path: Path) -> None:
    @asynccontextmanager
    async def before(servers: list[str]) -> AsyncGenerator[WebServer]:
        with nginx(tmp_path / "nginx", servers) as listening:
            yield listening

    await roll(tmp_path, {**SETTINGS, "allowed_hosts": HOST}, before)


async def test_three_servers_with_postgresql_are_replaced_under_load(tmp_path: Path, postgres: PostgresServer) -> None:
    await roll(tmp_path, {**SETTINGS, "store": postgres.database()})


ECHO = {
    "agents/echo.py": """
from goalport import Export, UserInput, achieves_goal, action, agent
from pydantic import BaseModel

class Said(BaseModel):
    content: str

@agent(description="Says it again")
class Echo:
    @achieves_goal(description="Say it", export=Export(remote=True, name="echo", starting_input_types=[UserInput]))
    @action
    async def echo(self, said: UserInput) -> Said:
        return Said(content=said.content)
"""
}


@pytest.mark.parametrize("web_server", WEB_SERVERS)
async def test_each_caller_gets_the_answer_to_the_body_it_sent_while_servers_are_replaced(
    tmp_path: Path, web_server: str
) -> None:
    settings = {**SETTINGS, "allowed_hosts": HOST, "drain_seconds": "3"}
    enough, failed, answered = anyio.Event(), Counter[int](), Counter[str]()

    async def call(front: WebServer, person: str) -> None:
        async with http_of(front) as http:
            number = 0
            while not enough.is_set():
                number += 1
                said = f"{person} {number} {person * random.randrange(20_000)}"
                arguments = {"name": "echo", "arguments": {"content": said}, "_meta": META}
                body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": arguments}
                named = {"MCP-Protocol-Version": "2026-07-28", "Mcp-Method": "tools/call", "Mcp-Name": "echo"}
                response = await http.post("/mcp", json=body, headers={**HEADERS, **named})
                if response.status_code == 200:
                    result = json.loads(response.text.rpartition("data: ")[2])["result"]
                    assert result["structuredContent"] == {"content": said}
                    answered[person] += 1
                else:
                    failed[response.status_code] += 1
                await anyio.sleep(PAUSE / 10)

    async with anyio.create_task_group() as tasks:
        hosts = Hosts(tmp_path, settings, tasks, ECHO)
        servers = [await hosts.start(free_port()) for _ in range(2)]
        with WEB_SERVERS[web_server](tmp_path / "front", [each.address for each in servers]) as front:
            fleet = Fleet(servers, front, tmp_path)
            async with anyio.create_task_group() as callers:
                for person in ("a", "b", "a", "b"):
                    callers.start_soon(call, front, person)
                for number in range(2):
                    await hosts.replace(fleet, number)
                    await healthy(front, fleet.servers[number])
                enough.set()
        for each in fleet.servers:
            each.process.terminate()
    assert not failed
    assert min(answered.values()) > 50


async def healthy(front: WebServer, server: Running) -> None:
    """Wait until a proxy has seen that a server is back."""
    async with front.http() as http:
        with anyio.fail_after(60):
            while (await http.get("/health")).json()["pid"] != server.process.pid:
                await anyio.sleep(0.01)
