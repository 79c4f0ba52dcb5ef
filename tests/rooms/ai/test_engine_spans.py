"""The spans of a request: each turn of the model and each call of a tool, beside one another in what asked for them."""

from collections.abc import Generator

import pytest
from opentelemetry.trace import StatusCode, get_tracer

from goalport.errors import ModelUnavailable, ToolError
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


async def test_a_streamed_request_has_a_span_too(spans: Spans) -> None:
    ai = ai_with(ScriptedModel(["one two"]))

    assert [piece async for piece in ai.streaming().text("Go")] == ["one ", "two"]
    assert spans.attributes("chat scripted")["gen_ai.request.stream"] is True
