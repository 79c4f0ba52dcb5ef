"""From an answer to the action that it lets go on, over each door; and an event stream whose reader is slow.

The server is a process of its own with its processes in a SQLite file, as by default. The client notes when it sends an
answer, and the action when it begins; both read the clock of this machine. All doors take turns.
"""

import asyncio
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final, cast

import anyio
import httpx2
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import ElicitRequestParams, ElicitResult

from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS, goalport_serves, started
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import Completed
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings
from tests.rooms.rest.test_event_streams import Chatterbox, read
from tests.rooms.rest.web import web
from tests.rooms.serve.following_tasks import FollowingTasks, ask, create, state_of_task

__all__ = ["doors"]

_WORKSPACE: Final = BENCHMARKS / "workspace"
_GIVEN: Final = {"content": "a word"}
_WORD: Final = {"word": "plum"}
_PROCESS: Final = "/api/v1/process"
_EVENTS: Final = 1_000
_EVENT_SIZE: Final = 9_000
"""The bytes of an event: all together are more than the system buffers for a connection."""

Door = Callable[[], Awaitable[float]]
"""Starts a process that asks, answers it, and tells the seconds until it went on."""


def doors(*, quick: bool = False) -> Table:
    """The table of the doors through which questions are answered."""
    rounds = 5 if quick else 200
    taken = asyncio.run(_taken(rounds))
    rows = [_row(name, seconds) for name, seconds in taken.items()]
    lost, buffered = asyncio.run(_slow_reader())
    rows.append((f"events lost by a slow reader, of {_EVENTS:,}", str(lost), "", "0"))
    rows.append(("bytes that the server buffers for it", f"{buffered / 1_024:.0f} KiB", "", "≤ 64 KiB"))
    note = (
        f"Medians of {rounds} processes over each door, in turn, from when the client sends the answer until the next"
        " action begins; between them the answer is stored in a SQLite file. *slowest*: one in a hundred took longer."
        " *another program*: one that opens the same file, and goes on with the process itself. Events have"
        f" {_EVENT_SIZE / 1e3:.0f} kB each; their reader begins when the process has ended."
    )
    return Table("doors", "From an answer to the next action", ("what", "median", "slowest", "aim"), rows, [note])


def _row(name: str, seconds: Sequence[float]) -> Sequence[str]:
    return (name, _ms(median(seconds)), _ms(quantiles(seconds, n=100, method="inclusive")[-1]), "≤ 20 ms")


async def _taken(rounds: int) -> Mapping[str, Sequence[float]]:
    with tempfile.TemporaryDirectory(prefix="goalport-doors-") as data:
        settings = {"GOALPORT_DATA_DIR": data}
        with started("goalport", goalport_serves(_WORKSPACE), settings=settings) as server:
            async with _doors(f"http://127.0.0.1:{server.port}", Path(data)) as found:
                seconds: dict[str, list[float]] = {name: [] for name in found}
                for turn in range(rounds + 2):
                    for name, door in found.items():
                        with anyio.fail_after(30):
                            took = await door()
                        if turn >= 2:  # The first make connections and warm caches.
                            seconds[name].append(took)
    return seconds


@asynccontextmanager
async def _doors(address: str, data: Path) -> AsyncGenerator[Mapping[str, Door]]:
    """Each door by its name, with a client that is connected."""
    person, target = _Person(), f"{address}/mcp"
    async with AsyncExitStack() as stack:
        enter = stack.enter_async_context
        http = await enter(httpx2.AsyncClient(base_url=address, timeout=30, trust_env=False))
        plain = await enter(Client(target))
        session = await enter(Client(target, mode="legacy", elicitation_callback=person))
        asked = await enter(Client(target, elicitation_callback=person))
        following = await enter(Client(target, elicitation_callback=person, extensions=[FollowingTasks()]))
        settings = load_settings(_WORKSPACE, data_dir=data)
        platform = AgentPlatform.from_workspace(load_workspace(_WORKSPACE), settings)
        program = await enter(platform)
        yield {
            "REST: `continue`": lambda: _over_rest(http),
            "MCP: companion tool": lambda: _with_companion(plain),
            "MCP: elicitation in mid-call": lambda: _when_asked(session, person),
            "MCP: repeated call after `input_required`": lambda: _when_asked(asked, person),
            "MCP: `tasks/update`": lambda: _in_task(following),
            "another program": lambda: _from_program(http, program),
        }


class _Person:
    """Answers a form at once, and notes when."""

    def __init__(self) -> None:
        self.answered = 0.0

    async def __call__(self, context: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert params.mode == "form"
        self.answered = time.time()
        return ElicitResult(action="accept", content=dict(_WORD))


async def _over_rest(http: httpx2.AsyncClient) -> float:
    state = await _begun(http)
    given = {"awaitableId": state["awaitableId"], "response": _WORD}
    answered = time.time()
    ended = await http.post(f"{_PROCESS}/{state['processId']}/continue", json=given)
    return ended.json()["result"]["at"] - answered


async def _begun(http: httpx2.AsyncClient) -> Mapping[str, Any]:
    return (await http.post(_PROCESS, json={"goal": "ask", "input": _GIVEN})).json()


async def _with_companion(client: Client) -> float:
    handle = (await client.call_tool("ask", _GIVEN)).structured_content
    assert handle is not None
    given = {"processId": handle["processId"], "answer": _WORD}
    answered = time.time()
    return _at((await client.call_tool("process_answer", given)).structured_content) - answered


async def _when_asked(client: Client, person: _Person) -> float:
    return _at((await client.call_tool("ask", _GIVEN)).structured_content) - person.answered


async def _in_task(client: Client) -> float:
    task = await create(client, "ask", **_GIVEN)
    (question,) = (await state_of_task(client, task, "input_required"))["inputRequests"]
    answered = time.time()
    await ask(client.session, "tasks/update", task, {question: {"action": "accept", "content": _WORD}})
    ended = await client.call_tool("process_status", {"processId": task, "waitSeconds": 20})
    return _at(ended.structured_content) - answered


async def _from_program(http: httpx2.AsyncClient, platform: AgentPlatform) -> float:
    state = await _begun(http)
    answered = time.time()
    process = await platform.answer(state["processId"], state["awaitableId"], _WORD)
    outcome = await process.wait()
    assert isinstance(outcome, Completed)
    return cast("Any", outcome.value).at - answered


def _at(result: Mapping[str, Any] | None) -> float:
    assert result is not None
    return result["at"]


async def _slow_reader() -> tuple[int, int]:
    """How many events a reader lost that began when all had happened, and the most bytes buffered for it."""
    with tempfile.TemporaryDirectory(prefix="goalport-events-") as folder:
        async with web(Path(folder), Chatterbox()) as server:
            state = (await server.start("chat", {"content": "x" * _EVENT_SIZE}, wait=0)).json()
            async with server.http.stream("GET", state["links"]["events"]) as slow:
                await server.http.get(state["links"]["self"], params={"wait": 60})
                buffered = server.most_buffered
                text = "".join([part async for part in slow.aiter_text()])
    told = [each for each in read(text) if each.data["event"] == "ProgressUpdated"]
    return _EVENTS - len({each.number for each in told}), buffered


def _ms(seconds: float) -> str:
    return f"{1e3 * seconds:.1f} ms"


if __name__ == "__main__":
    print(doors().markdown)
