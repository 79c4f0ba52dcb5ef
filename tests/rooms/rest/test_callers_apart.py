"""Over HTTP, what one caller has started is for every other caller as if it were not there; an admin sees it all."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from goalport import UserInput
from goalport.base.caller import Caller
from tests.rooms.platform.test_left_behind import Mint
from tests.rooms.rest.web import PROCESS, Web, web
from tests.rooms.serve.askers import Pizzeria

ADA = {"Caller": "ada", "Issuer": "https://one"}
OTHERS = {
    "another caller": {"Caller": "bob", "Issuer": "https://one"},
    "the same name of another issuer": {"Caller": "ada", "Issuer": "https://other"},
    "somebody without a token": {},
}
ADMIN = {"Caller": "root", "Issuer": "https://one", "Admin": "yes"}
HAM = {"name": "ham", "portions": 2}
ONE = f"{PROCESS}/{{id}}"
REQUESTS: Mapping[str, tuple[str, str, Mapping[str, Any] | None]] = {
    "its state": ("GET", ONE, None),
    "its state once it has ended": ("GET", f"{ONE}?wait=0.1", None),
    "the head of its state": ("HEAD", ONE, None),
    "its end": ("DELETE", ONE, None),
    "an answer": ("POST", f"{ONE}/continue", {"response": HAM}),
    "an answer to its question": ("POST", f"{ONE}/continue", {"awaitableId": "{question}", "response": HAM}),
    "a refusal to answer": ("POST", f"{ONE}/continue", {"declined": "no"}),
    "an answer that is not valid": ("POST", f"{ONE}/continue", {"answer": 1}),
    "its events": ("GET", "/events/process/{id}", None),
    "its events from a number on": ("GET", "/events/process/{id}?after=1", None),
    "the processes after it": ("GET", "/api/v1/processes?after={id}&newestFirst=false", None),
    "the processes before it": ("GET", "/api/v1/processes?after={id}", None),
}


@asynccontextmanager
async def shop(root: Path, **settings: Any) -> AsyncGenerator[tuple[Web, Mapping[str, Any]]]:
    """A server at which Ada's order waits for an answer, between two orders of each of the others."""
    async with web(root, Pizzeria(), **settings) as server:
        states: list[Mapping[str, Any]] = []
        for who in (*OTHERS.values(), ADA, *OTHERS.values()):
            answer = await server.http.post(
                PROCESS, json={"goal": "order_pizza", "input": {"size": 30}}, headers={**who}
            )
            states.append(answer.json())
        yield server, states[len(OTHERS)]


async def send(
    server: Web, request: tuple[str, str, Mapping[str, Any] | None], process: str, question: str, who: Mapping[str, str]
) -> tuple[int, str, Mapping[str, str]]:
    """An answer as its status, its text and its headers, with the ids taken out of them."""
    method, path, body = request
    sent = None if body is None else {key: question if each == "{question}" else each for key, each in body.items()}
    answer = await server.http.request(method, path.replace("{id}", process), json=sent, headers={**who})
    text = answer.text.replace(process, "…").replace(question, "…")
    return answer.status_code, text, {**answer.headers, "date": "", "content-length": "", "x-request-id": ""}


def made_up(identity: str) -> str:
    """An id of the same form that nothing has."""
    return identity[:-1] + ("0" if identity[-1] != "0" else "1")


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_the_ids_of_another_caller_are_unknown(tmp_path: Path, store: str) -> None:
    async with shop(tmp_path, store=store) as (server, state):
        process, question = state["processId"], state["awaitableId"]
        before = (await server.http.get(state["links"]["self"], headers=ADA)).json()
        for who, headers in OTHERS.items():
            for name, request in REQUESTS.items():
                answered = await send(server, request, process, question, headers)
                unknown = await send(server, request, made_up(process), made_up(question), headers)
                assert answered == unknown, (who, name)
                assert answered[0] >= 400, (who, name)
        assert (await server.http.get(state["links"]["self"], headers=ADA)).json() == before


async def test_a_question_is_answered_at_its_own_process_alone(tmp_path: Path) -> None:
    async with shop(tmp_path) as (server, state):
        bob = OTHERS["another caller"]
        own = (await server.http.get("/api/v1/processes", headers=bob)).json()["processes"][0]["processId"]
        request = REQUESTS["an answer to its question"]
        answered = await send(server, request, own, state["awaitableId"], bob)
        assert answered == await send(server, request, own, made_up(state["awaitableId"]), bob)
        assert answered[0] == 422


async def test_the_idempotency_key_of_another_caller_is_unknown(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        found: list[str] = []
        for number, who in enumerate((ADA, *OTHERS.values(), ADA)):
            headers = {**who, "Idempotency-Key": "k"}
            body = {"goal": "order_pizza", "input": {"size": number % (len(OTHERS) + 1)}}
            answer = await server.http.post(PROCESS, json=body, headers=headers)
            assert answer.status_code == 202
            found.append(answer.json()["processId"])
    assert found[0] == found[-1]
    assert len({*found}) == len(OTHERS) + 1


async def test_a_process_that_cannot_be_read_is_unknown_to_others_too(tmp_path: Path) -> None:
    async with web(tmp_path, mint := Mint(), store="sqlite") as first:
        process = first.platform.start("Mint", UserInput("gold"), caller=Caller("ada", "https://one")).id
        with anyio.fail_after(60):
            await mint.begun.wait()
        async with web(tmp_path, Pizzeria(), store="sqlite") as second:
            assert (await second.http.get(f"{PROCESS}/{process}", headers=ADA)).status_code == 503
            for who, headers in OTHERS.items():
                for name, request in REQUESTS.items():
                    answered = await send(second, request, process, "q", headers)
                    assert answered == await send(second, request, made_up(process), "q", headers), (who, name)


@pytest.mark.parametrize("store", ["sqlite", "memory"])
async def test_an_admin_lists_sees_answers_and_ends_the_processes_of_all(tmp_path: Path, store: str) -> None:
    async with shop(tmp_path, store=store) as (server, state):
        listed = await _all_pages(server, ADMIN)
        assert len(listed) == 2 * len(OTHERS) + 1
        names = {(each["caller"]["id"], each["caller"]["issuer"]) for each in listed}
        assert names == {("ada", "https://one"), ("bob", "https://one"), ("ada", "https://other"), ("anonymous", "")}
        assert (await server.http.get("/api/v1/processes", headers=ADMIN)).json()["processes"] == []

        path = state["links"]["self"]
        seen, own = [(await server.http.get(path, headers=who)).json() for who in (ADMIN, ADA)]
        assert seen == own
        answered = await server.http.post(f"{path}/continue", json={"response": HAM}, headers=ADMIN)
        assert answered.json()["result"] == {"content": "30 cm with 2 ham"}
        assert (await server.http.get(path, headers=ADA)).json()["status"] == "completed"

        others = next(each for each in listed if each["caller"]["id"] == "bob")
        killed = await server.http.delete(others["links"]["self"], headers=ADMIN)
        assert killed.json()["status"] == "killed"


async def test_who_is_no_admin_may_not_list_the_processes_of_all(tmp_path: Path) -> None:
    async with web(tmp_path, Pizzeria()) as server:
        for who in (ADA, *OTHERS.values()):
            refused = await server.http.get("/api/v1/processes?all=true", headers=who)
            assert refused.status_code == 403
            assert "goals:admin" in refused.json()["detail"]
            assert (await server.http.get("/api/v1/processes?all=false", headers=who)).status_code == 200


async def _all_pages(server: Web, who: Mapping[str, str]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    path: str | None = "/api/v1/processes?all=true&limit=2"
    while path is not None:
        page: httpx2.Response = await server.http.get(path, headers=who)
        found += page.json()["processes"]
        path = page.json()["links"].get("next")
    return found
