"""Requests that no honest client sends, and headers and values at the edge of what is allowed."""

import gzip
import json
from collections.abc import AsyncGenerator
from datetime import timedelta
from pathlib import Path
from typing import Any

import anyio
import pytest

from tests.postgres import PostgresServer
from tests.rooms.rest.test_processes import Adventure, Counter
from tests.rooms.rest.web import PROCESS, Web, web
from tests.rooms.serve.askers import Gate, Pizzeria, Slow

PLAY = {"goal": "play", "input": {"player_name": "Ada"}}
JSON = {"Content-Type": "application/json"}


async def post(server: Web, content: bytes | AsyncGenerator[bytes], **headers: str) -> tuple[int, str]:
    answer = await server.http.post(PROCESS, content=content, headers={**JSON, **headers})
    return answer.status_code, answer.json().get("detail", "")


async def test_a_body_may_come_in_pieces_but_neither_compressed_nor_endless(tmp_path: Path) -> None:
    content = json.dumps(PLAY).encode()

    async def pieces(*parts: bytes) -> AsyncGenerator[bytes]:
        for each in parts:
            yield each

    async with web(tmp_path, Adventure(), max_body_bytes=100_000) as server:
        assert (await post(server, pieces(content[:9], content[9:])))[0] == 202
        assert (await post(server, pieces(*[b" " * 10_000] * 11)))[0] == 413
        assert (await post(server, b" " * 10_000_000))[0] == 413
        status, told = await post(server, gzip.compress(content), **{"Content-Encoding": "gzip"})
        assert (status, "Send plain JSON" in told) == (415, True)
        assert (await post(server, content, **{"Content-Encoding": "identity"}))[0] == 202


@pytest.mark.parametrize(
    ("body", "status"),
    [
        (b'{"goal": "count", "input": ' + b"[" * 1_000 + b"]" * 1_000 + b"}", 400),
        (b'{"goal": "count", "input": {"player_name": ' + b'{"a":' * 1_000 + b"1" + b"}" * 1_000 + b"}}", 400),
        (b'{"goal": "count", "input": {"player_name": "a", "player_name": "abc"}}', 200),
        (b'{"goal": "count", "input": {"player_name": "\\ud800"}}', 400),
        (b'{"goal": "count", "input": {"player_name": "a\\u0000b"}}', 200),
        (b'{"goal": "count\\u0000"}', 422),
        (b'{"goal": "count", "input": {"player_name": "a"}, "wait": 1e999}', 422),
        (b'{"goal": "count", "input": {"player_name": "a"}, "wait": NaN}', 400),
        (b'{"goal": "count", "input": {"player_name": "a"}, "wait": "5"}', 422),
        (b"", 400),
        (b"null", 422),
    ],
    ids=lambda value: str(value)[:60],
)
async def test_json_at_its_edges_is_read_or_refused(tmp_path: Path, body: bytes, status: int) -> None:
    async with web(tmp_path, Counter()) as server:
        answered, told = await post(server, body)
        assert answered == status, told


@pytest.mark.parametrize("store", ["sqlite", "memory", "postgres"])
async def test_an_id_that_no_process_can_have_is_unknown_in_each_store(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    if store == "postgres":
        server_of: PostgresServer = request.getfixturevalue("postgres")
        store = server_of.database()
    async with web(tmp_path, Pizzeria(), store=store) as server:
        for each in ("a%00b", "%ff", "%F0%9F%8D%95", "..%2fa", "a" * 5_000):
            for path in (f"{PROCESS}/{each}", f"/events/process/{each}"):
                answer = await server.http.get(path)
                assert answer.status_code == 404, (path, answer.text)
        refused = await server.http.get("/api/v1/processes?after=%00")
        assert [each["field"] for each in refused.json()["errors"]] == ["after"]
        state = (await server.start("order_pizza", {"size": 30})).json()
        wrong = await server.resume({**state, "awaitableId": "\x00"}, {"name": "ham"})
        assert [each["field"] for each in wrong.json()["errors"]] == ["awaitableId"]


@pytest.mark.parametrize("wait", ["nan", "NaN", "inf", "-1", "301", "1e400", "", "x", "5&wait=6"])
async def test_a_wait_is_a_number_of_seconds_in_bounds(tmp_path: Path, wait: str) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        state = (await server.start("order_pizza", {"size": 30})).json()
        refused = await server.http.get(f"{state['links']['self']}?wait={wait}")
        assert [each["field"] for each in refused.json()["errors"]] == ["wait"]


async def test_parameters_that_are_not_known_are_refused_on_every_path(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        state = (await server.start("order_pizza", {"size": 30})).json()
        links = state["links"]
        requests: list[tuple[str, str]] = [
            ("POST", PROCESS),
            ("POST", links["continue"]),
            ("GET", links["self"]),
            ("DELETE", links["self"]),
            ("GET", links["events"]),
            ("GET", "/api/v1/processes"),
            ("GET", "/openapi.json"),
        ]
        for method, path in requests:
            body = {"response": {"name": "ham"}} if method == "POST" else None
            refused = await server.http.request(method, f"{path}?colour=red", json=body)
            assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "colour"), (method, path)
        assert (await server.http.get(links["self"])).json()["status"] == "waiting"


async def test_head_has_the_headers_of_get_and_options_the_methods(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        links = (await server.start("order_pizza", {"size": 30})).json()["links"]
        with anyio.fail_after(60):  # the stream of a process that waits does not end
            for path in (links["self"], links["events"], "/api/v1/processes", "/openapi.json"):
                answer = await server.http.head(path)
                assert (answer.status_code, answer.content) == (200, b"")
        allowed = await server.http.options(links["self"], headers={"Documented": "no"})
        assert (allowed.status_code, allowed.headers["allow"]) == (204, "GET, DELETE, HEAD, OPTIONS")


async def test_a_client_that_breaks_off_in_its_body_starts_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with web(tmp_path, Adventure()) as server:
        for head in ("Content-Length: 100", "Transfer-Encoding: chunked"):
            async with await anyio.connect_tcp("127.0.0.1", server.http.base_url.port or 0) as stream:
                start = (
                    f"POST {PROCESS} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n{head}\r\n\r\n"
                )
                await stream.send(start.encode() + (b'{"goal"' if "Length" in head else b'7\r\n{"goal"\r\n'))
        assert (await server.start("play", {"player_name": "Ada"})).status_code == 202
        assert len(await server.platform.processes.records()) == 1
    assert not [each for each in caplog.records if each.levelname in {"ERROR", "CRITICAL"}]


@pytest.mark.parametrize("key", ["", "k" * 257, "k" * 300])
async def test_an_idempotency_key_has_1_to_256_characters(tmp_path: Path, key: str) -> None:
    async with web(tmp_path, Adventure()) as server:
        refused = await server.http.post(PROCESS, json=PLAY, headers={"Idempotency-Key": key})
        assert (refused.status_code, refused.json()["errors"][0]["field"]) == (422, "Idempotency-Key")


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_requests_with_one_key_at_one_time_start_one_process(tmp_path: Path, store: str) -> None:
    found: list[str] = []
    async with web(tmp_path, Adventure(), store=store) as server:

        async def start(body: dict[str, Any]) -> None:
            key = {b"Idempotency-Key": "schlüssel".encode()}
            answer = await server.http.post(PROCESS, json=body, headers=key)
            found.append(answer.json()["processId"])

        async with anyio.create_task_group() as tasks:
            for _ in range(10):
                tasks.start_soon(start, PLAY)
        assert len({*found}) == 1
        assert len(await server.platform.processes.records()) == 1


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_a_key_gives_the_result_as_long_as_its_process_is_kept(tmp_path: Path, store: str) -> None:
    async with web(tmp_path, Counter(), store=store) as server:
        server.http.headers["Idempotency-Key"] = "k"
        first, again = [(await server.start("count", {"player_name": "Ada"})).json() for _ in range(2)]
        assert first == again
        assert await server.platform.store.prune(older_than=timedelta(0)) == 1
        anew = (await server.start("count", {"player_name": "Ada"})).json()
        assert (anew["processId"] != first["processId"], anew["result"]) == (True, 3)


async def test_a_start_that_the_store_refuses_may_be_tried_again(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with web(tmp_path, Adventure(), store="sqlite") as server:
        assert (await server.start("play", {"player_name": "Ada"})).status_code == 202
        (tmp_path / ".goalport" / "processes.db").rename(tmp_path / "away")
        refused = await server.start("play", {"player_name": "Ada"})
        assert (refused.status_code, refused.json()["type"]) == (503, "urn:goalport:problem:unavailable")
        assert "Try again later" in refused.json()["detail"]
        assert str(tmp_path) not in refused.text
        assert str(tmp_path) in caplog.text
        assert refused.headers.get_list("retry-after") == ["5"]
        (tmp_path / "away").rename(tmp_path / ".goalport" / "processes.db")
        server.http.event_hooks = {}  # the document says nothing of /metrics
        told = (await server.http.get("/metrics")).text
        assert 'goalport_calls_total{door="rest",goal="play",status="unavailable"} 1.0' in told


async def test_so_many_streams_of_events_may_be_open_and_no_more(tmp_path: Path) -> None:
    limits: Any = {"max_event_streams": 3, "max_event_streams_per_caller": 2}
    async with web(tmp_path, Slow(Gate()), **limits) as server, anyio.create_task_group() as tasks:
        opened = anyio.Semaphore(0)

        async def follow(path: str, caller: str) -> None:
            async with server.http.stream("GET", path, headers={"Caller": caller}) as stream:
                assert stream.status_code == 200
                opened.release()
                async for _ in stream.aiter_bytes():
                    pass

        paths: dict[str, str] = {}
        for caller in ("ada", "bob", "eve"):
            headers = {"Caller": caller}
            body = {"goal": "bake", "input": {"size": 1}, "wait": 0}
            paths[caller] = (await server.http.post(PROCESS, json=body, headers=headers)).json()["links"]["events"]
        for caller in ("ada", "ada", "bob"):
            tasks.start_soon(follow, paths[caller], caller)
            await opened.acquire()
        for caller, status in (("ada", 429), ("eve", 503)):
            refused = await server.http.get(paths[caller], headers={"Caller": caller})
            assert (refused.status_code, refused.headers["retry-after"]) == (status, "5")
        await server.http.delete(paths["bob"].replace("/events/process", PROCESS), headers={"Caller": "bob"})
        with anyio.fail_after(60):
            while (await server.http.head(paths["eve"], headers={"Caller": "eve"})).status_code != 200:
                pass
        tasks.cancel_scope.cancel()
