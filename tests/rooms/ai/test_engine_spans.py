"""The spans of a request: each turn of the model and each call of a tool, beside one another in what asked for them."""

import json
from collections.abc import Generator

import pytest
from opentelemetry.trace import StatusCode, get_tracer

from goalport.base.errors import ModelUnavailable, ToolError
from goalport.models.llm import TokenUsage
from goalport.testing import ScriptedModel, calls_tool
from tests.rooms.ai.scripted import ai_with
from tests.spans import Spans, recorded_spans


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Generator[Spans]:
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    with recorded_spans() as recorded:
        yield recorded


def add(a: float, b: float) -> float:
    """Add two numbers."""
    return a + b


def fail() -> str:
    raise ToolError("no")


async def test_each_turn_and_each_call_of_a_tool_has_a_span(spans: Spans) -> None:
    model = ScriptedModel([[calls_tool("add", a=1, b=2), calls_tool("fail")], "3"])

    with get_tracer("goalport").start_as_current_span("above"):
        await ai_with(model).with_llm(temperature=0.5).with_id("sum").with_tools(add, fail).generate_text("1 + 2?")

    assert sorted(spans.names) == ["above", "chat scripted", "chat scripted", "execute_tool add", "execute_tool fail"]
    assert spans.parent("execute_tool add") == "above"
    assert spans.one("execute_tool fail").status.status_code is StatusCode.ERROR
    asked = next(each.attributes or {} for each in spans.all if each.name == "chat scripted")
    assert asked["gen_ai.prompt.name"] == "sum"
    assert asked["gen_ai.request.temperature"] == 0.5
    assert asked["gen_ai.usage.input_tokens"] == 100
    assert asked["gen_ai.response.finish_reasons"] == ("tool_call",)


async def test_a_request_that_fails_fails_its_span(spans: Spans) -> None:
    with pytest.raises(ModelUnavailable):
        await ai_with(ScriptedModel([ModelUnavailable("gone")])).generate_text("Go")

    assert spans.one("chat scripted").status.status_code is StatusCode.ERROR


async def test_tokens_that_a_provider_had_in_its_cache_are_told_apart(spans: Spans) -> None:
    usage = TokenUsage(input_tokens=100, output_tokens=10, cache_read_tokens=80)

    await ai_with(ScriptedModel(["done"], usage=usage)).generate_text("Go")

    asked = spans.attributes("chat scripted")
    assert (asked["gen_ai.usage.input_tokens"], asked["gen_ai.usage.cache_read.input_tokens"]) == (100, 80)


async def test_what_was_said_is_in_a_span_with_its_roles_only_when_contents_are_wanted(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def ask() -> None:
        model = ScriptedModel([calls_tool("add", a=1, b=2), "It is 3"])
        await ai_with(model).with_system_prompt("Be brief").with_tools(add).generate_text("1 + 2?")

    await ask()
    assert not any("messages" in name for each in spans.all for name in each.attributes or {})
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    await ask()
    asked = [each.attributes or {} for each in spans.all if each.name == "chat scripted"][-1]
    said = json.loads(str(asked["gen_ai.input.messages"]))
    parts = [(each["role"], each["parts"][0]["content"]) for each in said]
    assert parts[0] == ("system", "Be brief")
    assert parts[1] == ("user", "1 + 2?")
    assert [role for role, _ in parts[2:]] == ["assistant", "tool"]
    assert parts[3][1] == "3.0"
    assert "It is 3" in str(asked["gen_ai.output.messages"])


async def test_a_streamed_request_has_a_span_too(spans: Spans) -> None:
    ai = ai_with(ScriptedModel(["one two"]))

    assert [piece async for piece in ai.streaming().text("Go")] == ["one ", "two"]
    assert spans.attributes("chat scripted")["gen_ai.request.stream"] is True
