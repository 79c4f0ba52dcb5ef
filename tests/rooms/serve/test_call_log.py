"""The line of the log for each call: who called what, what came of it, and for which request."""

import io
import json
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import BaseModel

from goalport import ActionContext, Ai, Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.agents.domain import RetryPolicy
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from goalport.server.site.app import Site
from tests.rooms.llm.servers import chat, serving
from tests.rooms.observe.program_log import logging_to_stderr
from tests.rooms.rest.web import Web, web
from tests.rooms.serve.served import ERAS, as_caller, served, state_of

MODELS = """
from goalport.models.llm import TokenUsage
from goalport.testing.scripted import ScriptedModel
house = ScriptedModel(["a line"], usage=TokenUsage(input_tokens=60, output_tokens=40, cost=0.25))
"""


class Greeting(BaseModel):
    content: str


class Line(BaseModel):
    content: str


@agent(description="Greets whoever calls")
class Greeter:
    @achieves_goal(description="A greeting", export=Export(remote=True, name="greet"))
    @action(retry=RetryPolicy(attempts=1))
    async def greet(self, said: UserInput) -> Greeting:
        logging.getLogger("toy").warning("greeting")
        if said.content == "fail":
            raise ValueError(said.content)
        return Greeting(content=f"Hello {said.content}")


@agent(description="Asks")
class Asker:
    @action
    async def ask(self, said: UserInput) -> WaitFor[bool]:
        return WaitFor.confirmation(True, f"Is {said.content} good?")

    @achieves_goal(description="A judgement", export=Export(remote=True, name="judge"))
    @action
    async def judge(self, good: bool) -> Greeting:  # noqa: FBT001 - what a person answered
        return Greeting(content=str(good))


@agent(description="Writes")
class Writer:
    @achieves_goal(description="A line", export=Export(remote=True, name="write", long=False))
    async def write(self, said: UserInput, ai: Ai) -> Line:
        return Line(content=await ai.generate_text(said.content))


@chatbot(description="Chats")
class Chatter:
    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, message: UserMessage, context: ActionContext) -> None:
        if message.content == "fail":
            raise ValueError(message.content)
        await context.send_message(await context.ai.generate_text(message.content))


def told(written: io.StringIO, logger: str = "goalport.calls") -> list[dict[str, Any]]:
    """The records of a logger."""
    return [each for each in map(json.loads, written.getvalue().splitlines()) if each["logger"] == logger]


def without_times(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    varying = {"time", "seconds", "request_id", "process_id", "message", "logger", "level", "trace_id", "span_id"}
    return [{name: value for name, value in each.items() if name not in varying} for each in lines]


@pytest.mark.parametrize("era", ERAS)
async def test_a_call_is_one_line_with_caller_goal_process_and_status(tmp_path: Path, era: str) -> None:
    with logging_to_stderr("json") as written, as_caller("ada"):
        async with served(tmp_path, Greeter(), Asker()) as server, server.client(era) as client:
            meta = (await client.call_tool("greet", {"content": "Ada"})).meta or {}
            await client.call_tool("greet", {"content": "fail"})
            await client.call_tool("greet", {"contents": "x"})
            await client.call_tool("judge", {"content": "it"}, meta={"goalport/preferHandle": True})
            with pytest.raises(MCPError):
                await client.call_tool("no such\ntool", {})
    who = {"door": "mcp", "caller": "ada", "issuer": "https://issuer"}
    lines = told(written)
    assert without_times(lines) == [
        {**who, "call": "greet", "status": "completed", "cost": 0.0},
        {**who, "call": "greet", "status": "failed", "cost": 0.0},
        {**who, "call": "greet", "status": "refused"},
        {**who, "call": "judge", "status": "waiting", "cost": 0.0},
        {**who, "call": "no such\ntool", "status": "refused"},
    ]
    assert lines[0]["process_id"] == meta["goalport/processId"]
    assert lines[0]["process_id"] in lines[0]["message"]
    assert all(each["level"] == "info" and 0 <= each["seconds"] < 60 for each in lines)
    assert len({each["request_id"] for each in lines}) == len(lines)
    assert told(written, "toy")[0]["request_id"] == lines[0]["request_id"]


async def test_the_line_has_what_the_models_cost(tmp_path: Path) -> None:
    files = {"tools/models.py": MODELS}
    with logging_to_stderr("json") as written:
        async with (
            served(tmp_path, Writer(), files=files, models={"default_llm": "scripted"}) as server,
            server.client() as client,
        ):
            await client.call_tool("write", {"content": "Ada"})
    (line,) = without_times(told(written))
    assert (line["cost"], line["input_tokens"], line["output_tokens"]) == (0.25, 60, 40)


async def test_a_model_of_ones_own_costs_what_the_prices_on_its_card_say(tmp_path: Path) -> None:
    card = "card=ModelCard(name='scripted', provider='test', prices=Prices(input=1_000, output=4_000))"
    models = MODELS.replace("import TokenUsage", "import ModelCard, Prices, TokenUsage")
    files = {"tools/models.py": models.replace("cost=0.25)", f"), {card}")}
    with logging_to_stderr("json") as written:
        async with (
            served(tmp_path, Writer(), files=files, models={"default_llm": "scripted"}) as server,
            server.client() as client,
        ):
            await client.call_tool("write", {"content": "Ada"})
    (line,) = without_times(told(written))
    assert (line["cost"], line["input_tokens"], line["output_tokens"]) == (0.22, 60, 40)


async def test_a_model_of_the_settings_costs_what_its_prices_there_say(tmp_path: Path) -> None:
    async with serving(chat("a line")) as provider:
        house = {"name": "house", "base_url": f"{provider.address}/v1", "prices": {"input": 0.1, "output": 0.4}}
        with logging_to_stderr("json") as written:
            models = {"default_llm": "house", "custom": [house]}
            async with served(tmp_path, Writer(), models=models) as server, server.client() as client:
                await client.call_tool("write", {"content": "Ada"})
    (line,) = without_times(told(written))
    assert line["cost"] == 0.3


async def test_the_line_of_a_turn_has_what_became_of_it_and_what_this_turn_has_cost(tmp_path: Path) -> None:
    files = {"tools/models.py": MODELS.replace('["a line"]', '["a line"] * 2')}
    with logging_to_stderr("json") as written:
        async with (
            served(tmp_path, Chatter(), files=files, models={"default_llm": "scripted"}) as server,
            server.client() as client,
        ):
            first: Any = await client.call_tool("chat_chatter", {"message": "one"})
            known = first.structured_content["conversationId"]
            second: Any = await client.call_tool("chat_chatter", {"message": "two", "conversationId": known})
            await client.call_tool("chat_chatter", {"message": "fail", "conversationId": known})
    lines = without_times(told(written))
    assert [(each["call"], each["status"], each["cost"]) for each in lines] == [
        ("chat_chatter", "completed", 0.25),
        ("chat_chatter", "completed", 0.25),
        ("chat_chatter", "failed", 0.0),
    ]
    assert second.meta["goalport/cost"] == {"usd": 0.25, "inputTokens": 60, "outputTokens": 40}
    assert second.meta["goalport/actions"] == 1


async def over_http(served: Web, era: str, identity: str) -> None:
    """Call a tool over the transport of an era, in requests that have an id."""
    address = str(served.http.base_url)
    if era == "sse":
        target: Any = sse_client(f"{address}/sse", headers={"X-Request-Id": identity})
    else:
        served.http.headers["X-Request-Id"] = identity
        target = streamable_http_client(f"{address}/mcp", http_client=served.http)
    async with Client(target, mode="legacy" if era == "sse" else era) as client:
        await client.call_tool("greet", {"content": "Ada"})


@pytest.mark.parametrize("era", [*ERAS, "sse"])
async def test_every_record_of_a_request_has_the_id_that_a_proxy_gave_it(tmp_path: Path, era: str) -> None:
    with logging_to_stderr("json") as written:
        async with web(tmp_path, Greeter()) as server:
            server.http.event_hooks = {}
            await over_http(server, era, "proxy-1/a.b:c")
    assert [each["request_id"] for each in (*told(written), *told(written, "toy"))] == ["proxy-1/a.b:c"] * 2


UNUSABLE: Sequence[Any] = [
    [],
    [("X-Request-Id", "")],
    [("X-Request-Id", "a b")],
    [("X-Request-Id", "x" * 129)],
    [("X-Request-Id", "caf\u00e9".encode())],
    [("X-Request-Id", "a"), ("X-Request-Id", "b")],
]


async def test_a_request_without_a_usable_id_is_given_one_and_others_keep_theirs(tmp_path: Path) -> None:
    app = Site(state_of(tmp_path, store="memory").publisher).app
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url="http://127.0.0.1") as http:
        made = [(await http.get("/health", headers=given)).headers["X-Request-Id"] for given in UNUSABLE]
        assert len({*made}) == len(UNUSABLE)
        assert all(len(each) == 16 and each.isalnum() for each in made)
        kept = await http.get("/health", headers={"X-Request-Id": "Root=1-67891233-abc"})
        assert kept.headers["X-Request-Id"] == "Root=1-67891233-abc"
        refused = await http.get("/health", headers={"Host": "evil.example", "X-Request-Id": "r"})
        assert (refused.status_code, refused.headers["X-Request-Id"]) == (421, "r")


async def test_a_request_over_rest_is_a_line_and_one_that_only_reads_is_logged_at_debug(tmp_path: Path) -> None:
    with logging_to_stderr("json", "debug") as written:
        async with web(tmp_path, Greeter(), Asker()) as server:
            state = (await server.start("judge", {"content": "it"}, wait=20)).json()
            await server.resume(state, True, wait=20)
            await server.start("nothing", {})
            await server.http.get("/api/v1/processes", headers={"Caller": "ada"})
    lines = told(written)
    told_of = [
        (each["level"], each["call"], each["status"], each["caller"]) for each in lines if "openapi" not in each["call"]
    ]
    assert told_of == [
        ("info", "judge", "waiting", "anonymous"),
        ("info", "POST /api/v1/process/{id}/continue", "completed", "anonymous"),
        ("info", "POST /api/v1/process", "refused", "anonymous"),
        ("debug", "GET /api/v1/processes", "completed", "ada"),
    ]
    assert {each["door"] for each in lines} == {"rest"}
    assert lines[0]["process_id"] == state["processId"]
