"""People in the middle of a goal, over real connections: the adventure to its end, and clients that come and go."""

from collections.abc import Awaitable, Mapping
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client

from tests.agents.adventure.nights import EGYPT, GAMES, LID, Night
from tests.stories.cooks import HEADERS, session
from tests.stories.servers import WAYS, Heard, Running

SHIPPED = Path(__file__).parents[2] / "agents" / "adventure"
BAKER = """
import sys

import anyio
from pydantic import BaseModel
from goalport import Export, WaitFor, achieves_goal, action, agent

class Wish(BaseModel):
    cake: str

class Party(BaseModel):
    guests: int

class Cake(BaseModel):
    content: str

@agent(description="Bakes")
class Baker:
    @action
    def ask(self, party: Party) -> WaitFor[Wish]:
        return WaitFor.form_submission("Which cake?", Wish)

    @achieves_goal(description="A cake", export=Export(remote=True, name="bake_cake"))
    async def bake(self, party: Party, wish: Wish) -> Cake:
        print("baking begins", file=sys.stderr, flush=True)
        try:
            await anyio.sleep(0 if party.guests else 60)
        except BaseException:
            print("baking stops", file=sys.stderr, flush=True)
            raise
        return Cake(content=f"{wish.cake} for {party.guests}")
"""
FILES = {"agents/bakers.py": BAKER} | {
    f"agents/{file.relative_to(SHIPPED.parent)}": file.read_text() for file in SHIPPED.rglob("*.py")
}


@pytest.mark.parametrize(("transport", "era"), WAYS)
async def test_the_adventure_is_played_to_its_end_over_every_transport(connection: tuple[Client, Heard]) -> None:
    client, _ = connection
    tale = await Night(client).play(GAMES["tea"])
    assert (tale["ending"], tale["choices"]) == ("tea", 6)


async def test_a_game_is_left_by_one_client_and_ended_by_another(server: Running) -> None:
    async with server.client("http", "legacy") as client:
        handle = await Night(client).play([EGYPT, LID])
    async with server.client("http", "auto") as client:
        answer = {"processId": handle["processId"], "answer": True}
        with anyio.fail_after(60):
            end = await client.call_tool("process_answer", answer)
        assert end.structured_content is not None
        assert end.structured_content["ending"] == "guard"


async def test_a_connection_that_is_dropped_kills_what_runs_and_leaves_what_waits(server: Running) -> None:
    async with server.client("http", "auto") as client:
        slow = await client.call_tool("bake_cake", {"guests": 0})
        waiting = await client.call_tool("bake_cake", {"guests": 3})
        assert slow.structured_content is not None
        assert waiting.structured_content is not None
    answer = {"processId": slow.structured_content["processId"], "answer": {"cake": "plum"}}
    params = {"name": "process_answer", "arguments": answer}
    message = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": params}
    async with session(server) as (http, headers):
        await _begin_and_drop(http, headers, message, server.heard.until("baking begins"))
        await server.heard.until("baking stops")
    async with server.client("http", "legacy") as client:
        answer = {"processId": waiting.structured_content["processId"], "answer": {"cake": "apple"}}
        with anyio.fail_after(60):
            end = await client.call_tool("process_answer", answer)
        assert end.structured_content == {"content": "apple for 3"}


async def _begin_and_drop(
    http: httpx2.AsyncClient, headers: dict[str, str], message: Mapping[str, object], begun: Awaitable[str]
) -> None:
    async with http.stream("POST", "/mcp", json=message, headers={**HEADERS, **headers}):
        await begun
