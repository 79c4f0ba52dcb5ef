"""The command line at a running server, over REST: processes are listed, answered with arrow keys, shown and killed."""

import json
import os
import threading
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio import to_thread

from tests.programs import ran
from tests.stories.servers import Running, running
from tests.terminals import CTRL_C, CTRL_U, DOWN, ENTER, Screen, on_terminal

pytestmark = pytest.mark.usefixtures("measured")
TOKEN = {"GOALPORT_KEY": "hush-hush-hush"}
FILES = {
    "agents/baker.py": """
from typing import Literal
from pydantic import BaseModel, field_validator
from goalport import Export, WaitFor, achieves_goal, action, agent

class Order(BaseModel):
    size: int

class Topping(BaseModel):
    name: Literal["ham", "rocket"]
    slices: int = 4

    @field_validator("slices")
    @classmethod
    def even(cls, slices: int) -> int:
        if slices % 2:
            raise ValueError("should be even")
        return slices

class Pizza(BaseModel):
    content: str

@agent(description="Bakes")
class Baker:
    @action
    def ask(self, order: Order) -> WaitFor[Topping]:
        return WaitFor.form_submission("What shall be on it?", Topping)

    @achieves_goal(description="A pizza", export=Export(remote=True, name="order_pizza"))
    def bake(self, order: Order, topping: Topping) -> Pizza:
        return Pizza(content=f"{order.size} cm with {topping.name} in {topping.slices}")
"""
}


async def goalport(*words: str, code: int = 0, env: Mapping[str, str] | None = None) -> tuple[str, str]:
    done = await to_thread.run_sync(ran, words, {**os.environ, **(env or {})})
    assert done.returncode == code, (words, done.stdout, done.stderr)
    return done.stdout, done.stderr


async def begun(server: Running) -> str:
    async with httpx2.AsyncClient(base_url=server.address, timeout=30) as http:
        order = {"goal": "order_pizza", "input": {"size": 30}, "wait": 20}
        return (await http.post("/api/v1/process", json=order)).json()["processId"]


@contextmanager
def answering(server: Running, process_id: str) -> Generator[Screen]:
    command = ["answer", process_id, "--server", server.address]
    with on_terminal(command, {"TERM": "xterm"}) as screen:
        yield screen


async def test_a_process_of_a_server_is_listed_answered_with_arrow_keys_shown_and_killed(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as server:
        first, second = await begun(server), await begun(server)
        at = ("--server", server.address)
        listed = json.loads((await goalport("ps", "--json", *at))[0])
        assert [(each["process"], each["status"]) for each in listed] == [(second, "waiting"), (first, "waiting")]

        def type_answer() -> int:
            with answering(server, first) as screen:
                screen.until("What shall be on it?").until("2. rocket").press(DOWN, ENTER)
                screen.until("slices: 4").press(CTRL_U, "5", ENTER)
                screen.until("- slices: should be even").until("slices: 5").press(CTRL_U, "6", ENTER)
                screen.until("Done. ")
                return screen.ended()

        assert await to_thread.run_sync(type_answer) == 0
        page, _ = await goalport("show", first, "--events", *at)
        assert "30 cm with rocket in 6" in page
        assert "completed" in page.splitlines()[0]
        assert "Baker.bake succeeded" in page
        lines = [
            json.loads(each) for each in (await goalport("show", first, "--events", "--json", *at))[0].splitlines()
        ]
        assert (lines[0]["id"], lines[0]["status"]) == (first, "completed")
        assert lines[-1]["event"] == "ProcessFinished"
        await goalport("kill", second, "--reason", "Nobody is hungry.", *at)
        assert "Nobody is hungry." in (await goalport("show", second, *at))[0]
        _, refused = await goalport("answer", second, "{}", *at, code=2)
        assert "waits for no answer: it is killed" in refused
        assert (await goalport("ps", *at))[1].startswith("None of your processes at ")


async def test_processes_in_memory_are_found_at_the_address_in_the_settings(tmp_path: Path, free_tcp_port: int) -> None:
    async with running(tmp_path, FILES, store="memory", port=free_tcp_port) as server:
        process_id = await begun(server)
        here = {"GOALPORT_STORE": "memory", "GOALPORT_PORT": str(free_tcp_port)}
        told, _ = await goalport("show", process_id, "--workspace", str(tmp_path), env=here)
        assert "What shall be on it?" in told
        assert "--question q-" in told
        printed, _ = await goalport(
            "answer", process_id, '{"name": "ham"}', "--wait", "--json", "--workspace", str(tmp_path), env=here
        )
        assert json.loads(printed) == {"content": "30 cm with ham in 4"}


async def test_another_program_on_the_same_store_answers_for_it(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as first, running(tmp_path, {}) as second:
        process_id = await begun(first)
        await goalport("answer", process_id, '{"name": "ham"}', "--wait", "--server", second.address)
        assert "30 cm with ham in 4" in (await goalport("show", process_id, "--server", first.address))[0]


async def test_a_question_that_is_answered_elsewhere_is_taken_from_the_person_who_types(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as server:
        process_id = await begun(server)

        def type_answer() -> int:
            with answering(server, process_id) as screen:
                screen.until("2. rocket").press(ENTER)
                screen.until("slices: 4")
                answer = {"response": {"name": "ham"}}
                httpx2.post(f"{server.address}/api/v1/process/{process_id}/continue", json=answer, timeout=30)
                screen.until("is settled already: the first answer counts.")
                return screen.ended()

        assert await to_thread.run_sync(type_answer) == 1


async def test_ctrl_c_leaves_the_question_open_and_says_how_to_answer_later(tmp_path: Path) -> None:
    async with running(tmp_path, FILES) as server:
        process_id = await begun(server)

        def leave() -> int:
            with answering(server, process_id) as screen:
                screen.until("2. rocket").press(CTRL_C)
                screen.until("The question stays open.").until(f"goalport answer {process_id} --question q-")
                screen.until(f"--server {server.address}")
                return screen.ended()

        assert await to_thread.run_sync(leave) == 130
        (listed,) = json.loads((await goalport("ps", "--json", "--server", server.address))[0])
        assert listed["status"] == "waiting"


async def test_a_closed_door_is_told_from_another_server(tmp_path: Path) -> None:
    async with running(tmp_path, FILES, rest="false") as server:
        _, closed = await goalport("ps", "--server", server.address, code=1)
        assert "Its REST door is closed." in closed
        _, untrusted = await goalport("ps", "--server", server.address.replace("http:", "https:"), code=1)
        assert "No TLS connection is possible." in untrusted


class _Front(BaseHTTPRequestHandler):
    """A server whose answers a test has written down: by path, one after another, the last one again and again."""

    answers: dict[str, list[tuple[int, dict[str, str], bytes]]]
    heard: list[dict[str, str]]

    def do_GET(self) -> None:
        self.heard.append(dict(self.headers))
        answers = self.answers.get(self.path.partition("?")[0], [(404, {}, b"")])
        status, headers, body = answers.pop(0) if len(answers) > 1 else answers[0]
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None: ...  # noqa: A002 - the name is that of the library


@contextmanager
def front(**answers: list[tuple[int, dict[str, str], bytes]]) -> Generator[tuple[str, list[dict[str, str]]]]:
    """The address of such a server, and the headers of the requests that it got."""
    paths = {"list": "/api/v1/processes", "one": "/api/v1/process/one", "events": "/events/process/one"}
    heard: list[dict[str, str]] = []
    written = {"answers": {paths[name]: each for name, each in answers.items()}, "heard": heard}
    server = ThreadingHTTPServer(("127.0.0.1", 0), type("Front", (_Front,), written))
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}", heard
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "headers", "body", "told"),
    [
        (401, {}, b"", "It does not accept the key in GOALPORT_KEY."),
        (403, {"Content-Type": "text/plain"}, b"Not you.", "It does not allow that to you. Not you."),
        (302, {"Location": "https://else.example/"}, b"", "It points to https://else.example/."),
        (200, {"Content-Type": "text/html"}, b"<p>Hello", "This is no goalport server"),
        (200, {"Content-Type": "application/json"}, b'{"detail": "x"}', "This is no goalport server"),
        (502, {}, b"", "It cannot answer now (502)."),
    ],
)
async def test_each_refusal_has_its_sentence_and_none_shows_the_token(
    status: int, headers: dict[str, str], body: bytes, told: str
) -> None:
    with front(list=[(status, headers, body)]) as (address, heard):
        printed, refused = await goalport("ps", "--server", address, "--debug", code=1, env=TOKEN)
        assert told in refused.replace("\n", " ")
        assert "hush" not in printed + refused
        assert heard[0]["Authorization"] == "Bearer hush-hush-hush"
        if status == 401:
            assert "Put yours into the environment variable" in (await goalport("ps", "--server", address, code=1))[1]


async def test_a_broken_stream_of_events_goes_on_after_the_last_one() -> None:
    def event(number: int, action: str) -> bytes:
        happened = {"event": "ActionStarted", "processId": "one", "at": "2026-01-01T00:00:00+00:00"}
        data = json.dumps({**happened, "action": action, "number": number, "planned": 2})
        return f"event: agent-process-event\nid: {number}\ndata: {data}\n\n".encode()

    view: dict[str, Any] = {
        "processId": "one",
        "agent": "A",
        "status": "running",
        "reason": None,
        "goal": "g",
        "plan": [],
    }
    view |= {"questions": [], "history": [], "createdAt": "2026-01-01T00:00:00+00:00", "finishedAt": None}
    view |= {"cost": {"usd": 0, "modelCalls": 0}, "links": {}}
    stream = {"Content-Type": "text/event-stream"}
    broken = (200, {**stream, "Content-Length": "5000"}, event(1, "mix"))
    found = [(200, {"Content-Type": "application/json"}, json.dumps(view).encode())]
    with front(one=found, events=[broken, (200, stream, event(2, "bake")), (204, {}, b"")]) as (address, heard):
        printed, said = await goalport("show", "one", "--events", "--server", address)
    assert "1/2 mix" in printed
    assert "2/2 bake" in printed
    assert said.count("The connection broke off; connecting again.") == 1
    assert [each.get("Last-Event-ID") for each in heard] == [None, None, "1", "2"]
