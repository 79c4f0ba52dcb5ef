"""Spans: their names and attributes, what fails them, and what is never in them."""

import subprocess
import sys
from collections.abc import Generator

import pytest
from opentelemetry.trace import SpanKind, StatusCode

from goalport.base.errors import InvalidModelOutput, ReplanRequested
from goalport.base.observe.spans import (
    action_span,
    embeddings_span,
    model_span,
    note_contents,
    note_end,
    note_reply,
    note_tool,
    process_span,
    tool_span,
)
from tests.spans import Spans, recorded_spans


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Generator[Spans]:
    monkeypatch.delenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", raising=False)
    with recorded_spans() as recorded:
        yield recorded


def _ask() -> None:
    with (
        process_span("Writer", process_id="p1", description="Writes"),
        action_span("draft", agent="Writer", process_id="p1"),
        model_span(
            "gpt-5",
            provider="azure",
            interaction="draft-Story",
            output="json",
            settings={"temperature": 0.5, "model": "x"},
        ) as asked,
    ):
        note_contents(asked, [("system", "Be brief"), ("user", "my secret")], "its answer")
        note_reply(asked, (10, 5, 0.25), model="gpt-5-2026", finish="stop", cached_tokens=4)


def test_a_model_call_stands_in_its_action_and_that_in_its_process(spans: Spans) -> None:
    _ask()
    assert spans.parent("chat gpt-5") == "execute_action draft"
    assert spans.parent("execute_action draft") == "invoke_agent Writer"
    assert spans.parent("invoke_agent Writer") is None


def test_a_model_call_tells_model_provider_settings_tokens_and_cost_in_the_terms_of_the_conventions(
    spans: Spans,
) -> None:
    _ask()
    assert spans.one("chat gpt-5").kind is SpanKind.CLIENT
    assert spans.attributes("chat gpt-5") == {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "azure.ai.openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.request.temperature": 0.5,
        "gen_ai.output.type": "json",
        "gen_ai.prompt.name": "draft-Story",
        "gen_ai.response.model": "gpt-5-2026",
        "gen_ai.response.finish_reasons": ("stop",),
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 5,
        "gen_ai.usage.cache_read.input_tokens": 4,
        "operation.cost": 0.25,
    }


def test_a_process_tells_its_agent_and_what_it_spent_under_names_that_nobody_adds_to_the_calls(spans: Spans) -> None:
    with process_span("Writer", process_id="p1", description="Writes") as process:
        note_end(process, "process", "completed", (10, 5, 0.25))
    assert spans.attributes("invoke_agent Writer") == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "Writer",
        "gen_ai.agent.description": "Writes",
        "goalport.process.id": "p1",
        "goalport.process.status": "completed",
        "goalport.usage.input_tokens": 10,
        "goalport.usage.output_tokens": 5,
        "goalport.cost": 0.25,
    }


def test_what_was_said_is_in_no_span_unless_the_environment_asks_for_it(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    _ask()
    assert "secret" not in "".join(each.to_json() for each in spans.all)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    _ask()
    said = spans.all[-3].attributes or {}
    assert said["gen_ai.input.messages"] == (
        '[{"role": "system", "parts": [{"type": "text", "content": "Be brief"}]},'
        ' {"role": "user", "parts": [{"type": "text", "content": "my secret"}]}]'
    )
    assert '"its answer"' in str(said["gen_ai.output.messages"])


def test_a_tool_call_tells_what_is_called_and_its_texts_only_when_asked_for(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tool_span("add", call_id="c1", description="Adds") as called:
        note_tool(called, arguments='{"a": 1}', result="2", is_error=False)
    assert spans.attributes("execute_tool add") == {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.name": "add",
        "gen_ai.tool.type": "function",
        "gen_ai.tool.call.id": "c1",
        "gen_ai.tool.description": "Adds",
    }
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "SPAN_ONLY")
    with tool_span("divide") as called:
        note_tool(called, arguments='{"a": 1}', result="no", is_error=True)
    told = spans.attributes("execute_tool divide")
    assert told["gen_ai.tool.call.arguments"] == '{"a": 1}'
    assert told["gen_ai.tool.call.result"] == "no"
    assert told["error.type"] == "tool_error"
    assert spans.one("execute_tool divide").status.status_code is StatusCode.ERROR


def test_a_failure_is_told_by_its_kind_and_its_words_only_when_contents_are_wanted(
    spans: Spans, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        with action_span("draft", agent="Writer", process_id="p"):
            raise InvalidModelOutput("Story", ["no title"], "my secret")

    with pytest.raises(InvalidModelOutput):
        fail()
    failed = spans.one("execute_action draft")
    assert failed.status.status_code is StatusCode.ERROR
    assert (failed.attributes or {})["error.type"] == "goalport.base.errors.InvalidModelOutput"
    assert "secret" not in failed.to_json()
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    with pytest.raises(InvalidModelOutput):
        fail()
    assert "my secret" in str(spans.all[-1].status.description)
    assert spans.all[-1].events[0].name == "exception"


def test_a_signal_is_no_failure(spans: Spans) -> None:
    with pytest.raises(ReplanRequested), action_span("draft", agent="Writer", process_id="p"):
        raise ReplanRequested("another way")
    assert spans.one("execute_action draft").status.status_code is StatusCode.UNSET


def test_a_streamed_call_is_not_the_current_span_of_the_code_that_reads_it(spans: Spans) -> None:
    with model_span("gpt-5", provider="openai", interaction="x", streamed=True), tool_span("reader"):
        pass
    assert spans.parent("execute_tool reader") is None
    assert spans.attributes("chat gpt-5")["gen_ai.request.stream"] is True


def test_embeddings_have_a_span_of_their_own(spans: Spans) -> None:
    with embeddings_span("text-embedding-3-small", provider="openai"):
        pass
    assert spans.attributes("embeddings text-embedding-3-small")["gen_ai.operation.name"] == "embeddings"


def test_without_an_sdk_no_span_is_made_and_an_application_loads_none() -> None:
    program = """
import sys
from goalport.base.observe.spans import model_span, note_reply, process_span
with process_span("A", process_id="p") as outer, model_span("m", provider="openai", interaction="i") as span:
    note_reply(span, (1, 1, 0.1))
assert outer is span, "each span is an object of its own"
assert not any(name.startswith("opentelemetry.sdk") for name in sys.modules)
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=30)
