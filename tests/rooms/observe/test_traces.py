"""Traces of callers go on in goalport's spans, and from there to upstream servers and providers of models."""

import json
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any, ClassVar

import pytest
from opentelemetry import trace
from opentelemetry.trace import SpanKind

from goalport import A2aAgent
from goalport.base.observe import REQUEST_ID
from goalport.base.observe.log_lines import JsonFormatter
from tests.rooms.llm.asking import call
from tests.rooms.llm.servers import chat, serving
from tests.rooms.rest import web as rest
from tests.rooms.rest.web import web
from tests.rooms.serve.served import served
from tests.rooms.serve.test_call_log import Asker, Greeter
from tests.rooms.serve.test_upstream import until
from tests.rooms.upstream.agent_server import agent_served
from tests.spans import Spans, recorded_spans

HEADER, META = "a" * 32, "b" * 32


@pytest.fixture
def spans() -> Generator[Spans]:
    with recorded_spans() as found:
        yield found


def parent(of: str) -> str:
    return f"00-{of}-{'1' * 16}-01"


def traces(spans: Spans, name: str) -> set[str]:
    """The ids of the traces that the spans of a name are parts of."""
    return {f"{each.context.trace_id:032x}" for each in spans.all if each.name == name and each.context}


@pytest.mark.parametrize(("meta", "expected"), [({}, HEADER), ({"traceparent": parent(META)}, META)])
async def test_the_trace_of_a_call_is_that_of_its_message_or_else_of_its_request(
    tmp_path: Path, spans: Spans, meta: Mapping[str, str], expected: str
) -> None:
    # By hand, since the SDK's client always sends a trace of its own in the message.
    params = {"name": "greet", "arguments": {"content": "Ada"}, "_meta": meta}
    headers = {"Accept": "application/json, text/event-stream", "traceparent": parent(HEADER)}
    async with web(tmp_path, Greeter(), stateless=True) as server:
        server.http.event_hooks = {}
        call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        answer = await server.http.post("/mcp", json=call, headers=headers)
    assert answer.status_code == 200
    assert traces(spans, "invoke_agent Greeter") == {expected}
    assert traces(spans, "execute_action Greeter.greet") == {expected}


async def test_a_process_stays_in_its_trace_wherever_it_goes_on(tmp_path: Path, spans: Spans) -> None:
    async with web(tmp_path, Asker(), store="sqlite") as server:
        server.http.event_hooks = {}
        server.http.headers["traceparent"] = parent(HEADER)
        state = (await server.start("judge", {"content": "it"}, wait=20)).json()
    async with served(tmp_path, Asker(), store="sqlite") as other:
        await other.platform.answer(state["processId"], response=True)
        await (await other.platform.process(state["processId"])).wait()
    assert spans.names.count("invoke_agent Asker") == 2
    assert traces(spans, "invoke_agent Asker") == {HEADER}
    request = spans.one("POST /api/v1/process")
    assert request.parent is not None
    assert request.parent.span_id == int("1" * 16, 16)
    assert {each.parent.span_id for each in spans.all if each.name == "invoke_agent Asker" and each.parent} == {
        request.context.span_id if request.context else 0
    }


class Listening(rest.ByHeader):
    """Keeps the traces that come in headers."""

    came: ClassVar[set[bytes]] = set()
    ids: ClassVar[set[bytes]] = set()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.ids.update(value for name, value in scope.get("headers", ()) if name == b"x-request-id")
        self.came.update(value for name, value in scope.get("headers", ()) if name == b"traceparent")
        await super().__call__(scope, receive, send)


async def test_an_upstream_server_gets_the_trace_with_the_message_and_with_the_request(
    tmp_path: Path, spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rest, "ByHeader", Listening)
    (tmp_path / "near").mkdir()
    (tmp_path / "far").mkdir()
    async with web(tmp_path / "far", Greeter()) as far:
        server = {"url": f"{far.http.base_url}/mcp", "type": "http"}
        config = {"mcpServers": {"far": server}, "toolGroups": {"far": {"include": ["greet"], "exports": True}}}
        (tmp_path / "near/mcp_config.json").write_text(json.dumps(config))
        async with (
            served(tmp_path / "near", upstream_wait_seconds=20) as near,
            near.state.publisher.connected(),
            near.client() as client,
        ):
            await until(lambda: "greet" in near.state.publication.tools)
            identity = REQUEST_ID.set("mine-7")
            with trace.get_tracer("goalport").start_as_current_span("mine") as mine:
                await client.call_tool("greet", {"content": "Ada"})
            REQUEST_ID.reset(identity)
    expected = f"{mine.get_span_context().trace_id:032x}"
    assert traces(spans, "invoke_agent Greeter") == {expected}
    assert expected.encode() in {each.split(b"-")[1] for each in Listening.came}
    assert b"mine-7" in Listening.ids


async def test_a_request_over_rest_has_a_span_and_its_lines_in_the_log_name_it(
    tmp_path: Path, spans: Spans, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(caplog.handler, "formatter", JsonFormatter())
    async with web(tmp_path, Greeter()) as server:
        server.http.event_hooks = {}
        server.http.headers["traceparent"] = parent(HEADER)
        await server.start("greet", {"content": "Ada"}, wait=20)
        await server.start("no such goal", {})
    good, bad = (each for each in spans.all if each.name == "POST /api/v1/process")
    assert [dict(each.attributes or {}) for each in (good, bad)] == [
        {"http.request.method": "POST", "http.route": "/api/v1/process", "http.response.status_code": status}
        for status in (200, 422)
    ]
    assert (good.kind, traces(spans, "POST /api/v1/process")) == (SpanKind.SERVER, {HEADER})
    assert {each.parent.span_id for each in spans.all if each.name == "invoke_agent Greeter" and each.parent} == {
        good.context.span_id if good.context else 0
    }
    lines = [json.loads(line) for line in caplog.text.splitlines() if line.startswith("{")]
    (said,) = [each for each in lines if each["logger"] == "toy"]
    assert said["trace_id"] == HEADER
    action = spans.one("execute_action Greeter.greet").context
    assert action is not None
    assert int(said["span_id"], 16) == action.span_id


async def test_a_provider_of_models_gets_the_trace_of_the_request(spans: Spans) -> None:
    async with serving(chat("Hello.")) as server:
        with trace.get_tracer("goalport").start_as_current_span("mine"):
            await server.model().reply(call("Hi"))
        (sent,) = {each["traceparent"] for each in server.headers}
    assert {sent.split("-")[1]} == traces(spans, "mine")


async def test_an_agent_gets_the_trace_with_each_request(spans: Spans) -> None:
    async with agent_served() as (agent, address):
        with trace.get_tracer("goalport").start_as_current_span("mine"):
            await A2aAgent(address, skill="echo").ask("hi")
    assert len(agent.headers) == 3
    assert {each["traceparent"].split("-")[1] for each in agent.headers} == traces(spans, "mine")
