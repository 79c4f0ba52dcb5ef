"""The events of a process are read as a stream of server-sent events, from where a reader stopped."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest

from goalport import ActionContext, Export, UserInput, achieves_goal, agent
from tests.rooms.rest.web import Web, web
from tests.rooms.serve.askers import Gate, Pizzeria, Slow

MODELS = """
from goalport.testing import ScriptedModel

model = ScriptedModel(["Roses"])
"""


@dataclass(frozen=True)
class Told:
    number: int
    name: str
    data: dict[str, Any]


@dataclass(frozen=True)
class Words:
    content: str


@agent(description="Tells a lot")
class Chatterbox:
    @achieves_goal(description="A thousand words", export=Export(remote=True, name="chat"))
    async def chat(self, said: UserInput, context: ActionContext) -> Words:
        for number in range(1_000):
            context.progress(f"{said.content} {number}")
        return Words(said.content)


@agent(description="Asks a model")
class Poet:
    @achieves_goal(description="A poem", export=Export(remote=True, name="write_poem"))
    async def write(self, said: UserInput, context: ActionContext) -> Words:
        return Words(await context.ai.generate_text(f"Poem of {said.content}"))


def read(text: str) -> list[Told]:
    """The events in the text of a stream; comments are left out."""
    found: list[Told] = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if fields:
            found.append(Told(int(fields["id"]), fields["event"], json.loads(fields["data"])))
    return found


async def events_of(server: Web, state: dict[str, Any], after: int = 0, last: int | None = None) -> list[Told]:
    headers = {} if last is None else {"Last-Event-ID": str(last)}
    with anyio.fail_after(60):
        answer = await server.http.get(state["links"]["events"], params={"after": after}, headers=headers)
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/event-stream")
    return read(answer.text)


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_a_stream_tells_of_the_process_from_its_beginning_and_ends_with_it(tmp_path: Path, store: str) -> None:
    async with web(tmp_path, Pizzeria(), store=store) as server:
        state = (await server.start("order_pizza", {"size": 30})).json()
        found: list[Told] = []

        async def follow() -> None:
            found.extend(await events_of(server, state))

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(follow)
            await server.resume(state, {"name": "ham"})
        kinds = [each.data["event"] for each in found]
        assert kinds[0] == "ProcessCreated"
        assert kinds[-1] == "ProcessFinished"
        assert "QuestionAsked" in kinds
        assert {each.name for each in found} == {"agent-process-event"}
        assert {each.data["processId"] for each in found} == {state["processId"]}
        assert [each.number for each in found] == sorted({each.number for each in found})

        middle = found[len(found) // 2].number
        rest = [each for each in found if each.number > middle]
        assert await events_of(server, state, after=middle) == rest
        assert await events_of(server, state, last=middle) == rest


async def test_after_the_last_event_nobody_need_connect_again(tmp_path: Path) -> None:
    async with web(tmp_path, Chatterbox()) as server:
        state = (await server.start("chat", {"content": "bla"})).json()
        last = (await events_of(server, state))[-1].number
        over = await server.http.get(state["links"]["events"], headers={"Last-Event-ID": str(last)})
        assert (over.status_code, over.content) == (204, b"")
        wrong = await server.http.get(state["links"]["events"], headers={"Last-Event-ID": "x"})
        assert [each["field"] for each in wrong.json()["errors"]] == ["after"]
        events, headers = state["links"]["events"], {"Last-Event-ID": str(last)}
        too_large = await server.http.get(events, params={"after": 2**63}, headers=headers)
        assert [each["field"] for each in too_large.json()["errors"]] == ["after"]


async def test_a_quiet_process_is_heard_by_its_heartbeat(tmp_path: Path) -> None:
    gate = Gate()
    async with web(tmp_path, Slow(gate), heartbeat_seconds=0.05) as server:
        state = (await server.start("bake", {"size": 30}, wait=0)).json()
        with anyio.fail_after(60):
            async with server.http.stream("GET", state["links"]["events"]) as answer:
                async for line in answer.aiter_lines():
                    if line == ": still here":
                        gate.opened.set()
                    if "ProcessFinished" in line:
                        break


async def test_a_slow_reader_loses_no_event_and_little_is_buffered_for_it(tmp_path: Path) -> None:
    async with web(tmp_path, Chatterbox()) as server:
        state = (await server.start("chat", {"content": "x" * 9_000}, wait=0)).json()
        with anyio.fail_after(60):
            async with server.http.stream("GET", state["links"]["events"]) as slow:
                ended = await server.http.get(state["links"]["self"], params={"wait": 60})
                assert ended.json()["status"] == "completed"
                # A stream pauses above 32 KiB; the one event that went beyond is in the buffer too.
                assert 32 * 1_024 < server.most_buffered <= 32 * 1_024 + 10_000
                text = "".join([part async for part in slow.aiter_text()])
        told = [each.data for each in read(text) if each.data["event"] == "ProgressUpdated"]
        assert [int(each["message"].rpartition(" ")[2]) for each in told] == [*range(1_000)]


async def test_what_a_model_said_is_in_no_stream(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "models.py").write_text(MODELS)
    async with web(tmp_path, Poet(), keep_journals=True) as server:
        state = (await server.start("write_poem", {"content": "violets"})).json()
        assert state["result"] == {"content": "Roses"}
        found = await events_of(server, state)
        (replied,) = (each.data for each in found if each.data["event"] == "ModelReplied")
        assert replied["inputTokens"] >= 0
        assert "reply" not in replied
        assert "violets" not in "".join(str(each.data) for each in found)


async def test_a_stream_ends_when_its_server_does(tmp_path: Path) -> None:
    gate = Gate()
    async with web(tmp_path, Slow(gate)) as server:
        state = (await server.start("bake", {"size": 30}, wait=0)).json()
        await gate.begun.wait()
        with anyio.fail_after(60):
            async with server.http.stream("GET", state["links"]["events"]) as answer:
                lines = answer.aiter_lines()
                while "ActionStarted" not in await anext(lines):
                    pass
                await server.platform.aclose()
                rest = [line async for line in lines]
        assert not any("completed" in line for line in rest)
