"""Two servers give work to each other over A2A: a person answers in between, and both are killed meanwhile."""

import json
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from tests.rooms.upstream.agent_server import agent_served
from tests.stories.servers import Running, running

PRINTER = """
from pydantic import BaseModel
from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent

class Order(BaseModel):
    colour: str
    copies: int = 1

class Proof(BaseModel):
    text: str

class Poster(BaseModel):
    text: str
    colour: str
    copies: int

@agent(description="Prints posters")
class Printer:
    @action
    def proof(self, said: UserInput) -> Proof:
        with open("PROOFS", "a") as file:
            file.write(said.content + "\\n")
        return Proof(text=said.content.upper())

    @action
    def order(self, proof: Proof) -> WaitFor[Order]:
        return WaitFor.form_submission(f"How shall {proof.text} be printed?", Order)

    @achieves_goal(description="A printed poster", export=Export(remote=True, name="print_poster"))
    @action
    def printed(self, proof: Proof, order: Order) -> Poster:
        return Poster(text=proof.text, colour=order.colour, copies=order.copies)
"""
CALLER = """
from pydantic import BaseModel
from goalport import A2aAgent, ActionContext, Export, UserInput, achieves_goal, action, agent

class Poster(BaseModel):
    text: str
    colour: str
    copies: int

printer = A2aAgent("ADDRESS", name="printer", skill="print_poster")

@agent(description="Announces events")
class Announcer:
    @achieves_goal(description="An announcement", export=Export(remote=True, name="announce"))
    @action
    async def announce(self, said: UserInput, context: ActionContext) -> str:
        CALL
        return f"{poster.copies} {poster.colour} posters say {poster.text}"
"""
WAYS = {
    "agent": "poster = await printer.ask(said.content, Poster)",
    "group": 'poster = Poster(**(await context.tools[0].call({"message": said.content})).structured)',
}


def caller(address: str, way: str) -> dict[str, str]:
    agent = CALLER.replace("ADDRESS", address).replace("CALL", WAYS[way])
    if way == "group":
        agent = agent.replace("@action\n", '@action(tool_groups=["posters"])\n')
    config = {
        "a2aServers": {"printer": {"url": address}},
        "toolGroups": {"posters": {"servers": ["printer"], "naming": {"prefix": "our_"}}},
    }
    return {"agents/announcer.py": agent, "mcp_config.json": json.dumps(config)}


async def post(server: Running, path: str, body: object) -> Any:
    async with httpx2.AsyncClient(timeout=60) as http:
        return (await http.post(f"{server.address}/api/v1/process{path}", json=body)).json()


async def told(server: Running, process_id: str, words: str) -> None:
    """Wait until the events of a process have these words."""
    url = f"{server.address}/events/process/{process_id}"
    with anyio.fail_after(60):
        async with httpx2.AsyncClient(timeout=60) as http, http.stream("GET", url) as events:
            async for line in events.aiter_lines():
                if words in line:
                    return
    raise AssertionError(f"The events ended without {words!r}.")


@pytest.mark.parametrize("way", WAYS)
async def test_a_goal_that_another_goal_calls_asks_its_person_while_both_servers_are_killed(
    tmp_path: Path, way: str
) -> None:
    there, here = tmp_path / "there", tmp_path / "here"
    printing = {"agents/printer.py": PRINTER.replace("PROOFS", str(tmp_path / "proofs.txt"))}
    async with running(there, printing, data_dir=str(there / "data")) as printer:
        port, calling = printer.port, caller(printer.address, way)
        async with running(here, calling, data_dir=str(here / "data")) as announcer:
            asked = await post(announcer, "", {"goal": "announce", "input": {"content": "the fair"}})
            assert asked["prompt"] == "printer asks: How shall THE FAIR be printed?"
            announcer.process.kill()
        printer.process.kill()
    async with (
        running(there, printing, port=port, data_dir=str(there / "data")),
        running(here, calling, data_dir=str(here / "data")) as announcer,
    ):
        await announcer.heard.until("Upstream server 'printer' is up")
        answer = {"awaitableId": asked["awaitableId"], "response": {"colour": "red", "copies": 2}}
        ended = await post(announcer, f"/{asked['processId']}/continue", answer)
    assert ended.get("result") == "2 red posters say THE FAIR", ended
    assert (tmp_path / "proofs.txt").read_text() == "the fair\n"


PAINTED = """
from goalport import A2aAgent, Export, UserInput, achieves_goal, action, agent

painter = A2aAgent("ADDRESS", name="painter", skill="SKILL")

@agent(description="Paints")
class Painting:
    @achieves_goal(description="A painting", export=Export(remote=True, name="paint"))
    @action
    async def paint(self, said: UserInput) -> str:
        return (await painter.ask(said.content, dict))["said"]
"""


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_a_caller_that_ends_joins_the_task_of_an_agent_of_another_framework(tmp_path: Path, end: str) -> None:
    async with agent_served() as (agent, address):
        files = {"agents/painting.py": PAINTED.replace("ADDRESS", address).replace("SKILL", "ask")}
        async with running(tmp_path, files, data_dir=str(tmp_path / "data")) as server:
            asked = await post(server, "", {"goal": "paint", "input": {"content": "a barn"}})
            assert asked["prompt"] == "painter asks: Which colour?"
            getattr(server.process, end)()
        async with running(tmp_path, files, data_dir=str(tmp_path / "data")) as server:
            answer = {"awaitableId": asked["awaitableId"], "response": {"answer": "red"}}
            ended = await post(server, f"/{asked['processId']}/continue", answer)
        assert ended.get("result") == "red", ended
        first, second = agent.sent
        assert first.message_id != second.message_id
        assert first.task_id == second.task_id


@pytest.mark.parametrize("end", ["kill", "terminate"])
async def test_a_caller_that_ends_while_the_agent_works_sends_nothing_twice(tmp_path: Path, end: str) -> None:
    async with agent_served() as (agent, address):
        files = {"agents/painting.py": PAINTED.replace("ADDRESS", address).replace("SKILL", "slow")}
        async with running(tmp_path, files, data_dir=str(tmp_path / "data")) as server:
            begun = await post(server, "", {"goal": "paint", "input": {"content": "a barn"}, "wait": 0})
            await told(server, begun["processId"], "painter: Reading")
            getattr(server.process, end)()
        async with running(tmp_path, files, data_dir=str(tmp_path / "data")) as server:
            with anyio.fail_after(60):
                await agent.joined.wait()
            agent.go_on.set()
            async with httpx2.AsyncClient(timeout=60) as http:
                ended = (await http.get(f"{server.address}/api/v1/process/{begun['processId']}?wait=30")).json()
        assert ended.get("result") == "a barn", ended
        assert len(agent.sent) == 1
        assert not agent.cancelled.is_set()
