"""What a caller left is erased: over REST by themselves and by an admin, and by whoever runs the server."""

import json
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import BaseModel

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent
from tests.postgres import PostgresServer
from tests.rooms.rest.web import PROCESS, Web, web

ADA, BEN, ADMIN = {"Caller": "ada"}, {"Caller": "ben"}, {"Caller": "root", "Admin": "yes"}
PROCESSES = "/api/v1/processes"
LEFT = {"conversations": 0, "processes": 2, "contexts": 0, "documents": 0, "signIns": 0}


class Told(BaseModel):
    content: str


class Gem(BaseModel):
    colour: str


@agent(description="Says it again")
class Echo:
    @achieves_goal(description="An echo", export=Export(remote=True, name="echo", starting_input_types=[UserInput]))
    @action
    async def say(self, user_input: UserInput) -> Told:
        return Told(content=user_input.content)


@agent(description="Asks for a gem")
class Jeweller:
    @action
    async def choose(self, user_input: UserInput) -> WaitFor[Gem]:
        return WaitFor.form_submission("Which gem?", Gem)

    @achieves_goal(description="A crown", export=Export(remote=True, name="crown", starting_input_types=[UserInput]))
    @action
    async def mount(self, gem: Gem, user_input: UserInput) -> Told:
        return Told(content=gem.colour)


async def leave(server: Web, caller: dict[str, str], words: str) -> None:
    """Have a caller start two processes, of which one waits."""
    for goal, wait in (("echo", 20), ("crown", 20)):
        sent = {"goal": goal, "input": {"content": f"{words} for {goal}"}, "wait": wait}
        answer = await server.http.post(PROCESS, json=sent, headers=caller)
        assert answer.status_code in {200, 202}, answer.text
    assert await number_of(server, caller) == 2


async def number_of(server: Web, caller: dict[str, str]) -> int:
    return len((await server.http.get(PROCESSES, headers=caller)).json()["processes"])


async def erase(server: Web, who: dict[str, str], **query: Any) -> httpx2.Response:
    return await server.http.delete(PROCESSES, headers=who, params=query)


@pytest.mark.parametrize("store", ["sqlite", "postgresql"])
async def test_callers_erase_what_they_left_and_nothing_of_others(
    tmp_path: Path, store: str, request: pytest.FixtureRequest
) -> None:
    if store == "postgresql":
        postgres: PostgresServer = request.getfixturevalue("postgres")
        store = postgres.database()
    async with web(tmp_path, Echo(), Jeweller(), store=store, audit={"enabled": True}) as server:
        for caller, words in ((ADA, "swordfish"), (BEN, "marlin")):
            await leave(server, caller, words)
        counted = await erase(server, ADA, dryRun=True)
        assert counted.json() == LEFT
        assert await number_of(server, ADA) == 2
        assert (await erase(server, ADA, caller="ben")).status_code == 403
        assert (await erase(server, ADA)).json() == LEFT
        assert (await number_of(server, ADA), await number_of(server, BEN)) == (0, 2)
        kept = b"".join(each.read_bytes() for each in (tmp_path / ".goalport").rglob("*") if each.is_file())
        assert b"swordfish" not in kept
        assert (b"marlin" in kept) == (store == "sqlite")
        assert (await erase(server, ADMIN, caller="ben")).json() == LEFT
        assert await number_of(server, BEN) == 0
    (audit,) = tmp_path.rglob("audit.jsonl")  # noqa: ASYNC240 - a small folder
    entries = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [each["of_caller"] for each in entries if "erased" in each.values()] == ["ada", "ben"]


async def test_a_process_is_erased_whether_it_has_ended_or_waits(tmp_path: Path) -> None:
    async with web(tmp_path, Echo(), Jeweller(), store="sqlite") as server:
        await leave(server, ADA, "swordfish")
        for each in (await server.http.get(PROCESSES, headers=ADA)).json()["processes"]:
            path = f"{PROCESS}/{each['processId']}"
            assert (await server.http.delete(path, headers=BEN, params={"erase": True})).status_code == 404
            assert (await server.http.delete(path, headers=ADA, params={"erase": True})).status_code == 200
            assert (await server.http.get(path, headers=ADA)).status_code == 404
        assert await number_of(server, ADA) == 0
