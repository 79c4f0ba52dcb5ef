"""OpenTelemetry spans for processes, actions, model calls and tools, with the names of the gen_ai conventions.

Spans are exported by the SDK that the embedding program, or `opentelemetry-instrument`, configures. Without an SDK no
span is made, at almost no cost. Texts of people, models and tools are in no span unless the environment variable
`OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT` is `true` (or `span_only`, `span_and_event`); this includes
messages of errors, since they quote such texts. Above: `ai` and `process` make the spans.

An attribute that is known when a span begins is a parameter of its `*_span` function; one that is known later is
recorded by a `note_*` function. Other rooms set no attributes themselves, so all names are in this module.
(Names: github.com/open-telemetry/semantic-conventions-genai, docs/gen-ai.)
"""

import json
import os
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from http import HTTPStatus
from types import MappingProxyType, TracebackType
from typing import Any, Final, Literal

from opentelemetry import context
from opentelemetry.trace import (
    INVALID_SPAN,
    NoOpTracerProvider,
    ProxyTracerProvider,
    Span,
    SpanKind,
    StatusCode,
    get_tracer,
    get_tracer_provider,
    set_span_in_context,
)

from goalport.base.errors import Signal
from goalport.base.secrecy import hide, hide_known, traceback_of

Attribute = str | int | float | bool | tuple[str, ...] | None
"""The value of an attribute; None and empty values are omitted."""
Spent = tuple[int, int, float]
"""Input tokens, output tokens, US dollars."""

Trace = Mapping[str, str]
"""A trace context as HTTP headers, by name: `traceparent` and others."""


_NO_TRACE: Final[Trace] = MappingProxyType({})
_CONTENT: Final = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
_WITH_CONTENT: Final = frozenset({"true", "1", "span_only", "span_and_event"})
_PROVIDERS: Final = {
    "azure": "azure.ai.openai",
    "bedrock": "aws.bedrock",
    "gemini": "gcp.gemini",
    "google": "gcp.gemini",
    "google-gla": "gcp.gemini",
    "google-vertex": "gcp.vertex_ai",
    "mistral": "mistral_ai",
}
"""The names of providers in the conventions, by pydantic-ai's name, where the two differ."""
_tracer = get_tracer("goalport")
_off: AbstractContextManager[Span] = nullcontext(INVALID_SPAN)


def current_trace() -> Trace:
    """The current trace context, which can be stored and sent; empty if no SDK is configured."""
    if not context.get_current() or _tracing_is_off():  # without a context there is nothing to send
        return _NO_TRACE
    from opentelemetry.propagate import inject

    carrier: dict[str, str] = {}
    inject(carrier)
    return carrier


def in_trace_of(headers: Iterable[tuple[bytes, bytes]]) -> AbstractContextManager[object]:
    """A block whose spans belong to the trace in the headers of a request, if there is one."""
    if _tracing_is_off():
        return _off
    return _Within(_context_of({name.decode("latin-1"): value.decode("latin-1") for name, value in headers}))


async def send_trace(request: Any) -> None:
    """Request hook of an HTTP client: add the headers of the current trace."""
    if not _tracing_is_off():
        request.headers.update(current_trace())


def request_span(method: str, route: str) -> AbstractContextManager[Span]:
    """A span around the handling of an HTTP request; `in_trace_of` puts it into the trace of the client."""
    name = f"{method} {route}"
    return _span(name, {"http.request.method": method, "http.route": route}, kind=SpanKind.SERVER)


def note_response(span: Span, status: int) -> None:
    """Record the status of the response; from 500 on the request has failed."""
    if span.is_recording():
        span.set_attribute("http.response.status_code", status)
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            span.set_attribute("error.type", str(status))
            span.set_status(StatusCode.ERROR)


def process_span(
    agent: str, *, process_id: str, description: str = "", trace: Trace = _NO_TRACE
) -> AbstractContextManager[Span]:
    """A span around one run of a process; when a process that waited continues, another span begins.

    `trace` is the trace in which the process was started: all its spans belong to it, whoever continues the process.
    """
    if _tracing_is_off():
        return _off
    attributes: dict[str, Attribute] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": agent,
        "gen_ai.agent.description": description,
        "goalport.process.id": process_id,
    }
    return _span(f"invoke_agent {agent}", attributes, parent=_context_of(trace) if trace else None)


def action_span(action: str, *, agent: str, process_id: str) -> AbstractContextManager[Span]:
    """A span around one action with all its attempts."""
    about = {"goalport.action.name": action, "gen_ai.agent.name": agent, "goalport.process.id": process_id}
    return _span(f"execute_action {action}", about)


def step_span(step: str, *, workflow: str, process_id: str) -> AbstractContextManager[Span]:
    """A span around one branch or round of a workflow, inside the span of an action."""
    about = {"goalport.step.name": step, "goalport.workflow": workflow, "goalport.process.id": process_id}
    return _span(f"execute_step {step}", about)


def model_span(
    model: str,
    *,
    provider: str,
    interaction: str,
    output: str = "text",
    streamed: bool = False,
    settings: Mapping[str, object] | None = None,
) -> AbstractContextManager[Span]:
    """A span around one request of a model.

    `output` is `text` or `json`. `settings` are the hyperparameters by their names in `LlmOptions`; those that the
    conventions define are recorded. The span of a streamed request is not current, since its caller runs meanwhile.
    """
    known = ("temperature", "top_p", "top_k", "max_tokens", "frequency_penalty", "presence_penalty")
    numbers = {name: value for name, value in (settings or {}).items() if isinstance(value, int | float)}
    attributes: dict[str, Attribute] = {
        **_request("chat", model, provider),
        "gen_ai.output.type": output,
        "gen_ai.request.stream": streamed or None,
        "gen_ai.prompt.name": interaction,
        **{f"gen_ai.request.{name}": numbers.get(name) for name in known},
    }
    return _span(f"chat {model}", attributes, kind=SpanKind.CLIENT, current=not streamed)


def embeddings_span(model: str, *, provider: str = "") -> AbstractContextManager[Span]:
    """A span around one request of an embedding service."""
    return _span(f"embeddings {model}", _request("embeddings", model, provider), kind=SpanKind.CLIENT)


def tool_span(tool: str, *, call_id: str = "", description: str = "") -> AbstractContextManager[Span]:
    """A span around one call of a tool by a model."""
    about = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": tool, "gen_ai.tool.type": "function"}
    about |= {"gen_ai.tool.call.id": call_id, "gen_ai.tool.description": description}
    return _span(f"execute_tool {tool}", about)


def note_reply(span: Span, spent: Spent, *, model: str = "", finish: str = "", cached_tokens: int = 0) -> None:
    """Record the reply of a model: its tokens and cost in US dollars, the model's reported name, the finish reason."""
    if span.is_recording():
        tokens_in, tokens_out, cost = spent
        attributes: dict[str, Attribute] = {
            "gen_ai.response.model": model,
            "gen_ai.response.finish_reasons": (finish,) if finish else None,
            "gen_ai.usage.input_tokens": tokens_in,
            "gen_ai.usage.output_tokens": tokens_out,
            "gen_ai.usage.cache_read.input_tokens": cached_tokens or None,
            "operation.cost": cost,
        }
        span.set_attributes(_present(attributes))


def note_end(span: Span, of: Literal["action", "process"], status: str, spent: Spent) -> None:
    """Record the status and total usage of an action or a process, under our own names: calls have standard names."""
    if span.is_recording():
        span.set_attribute(f"goalport.{of}.status", status)
        names = ("goalport.usage.input_tokens", "goalport.usage.output_tokens", "goalport.cost")
        span.set_attributes(dict(zip(names, spent, strict=True)))


def note_contents(span: Span, said: Iterable[tuple[str, str]], answer: str) -> None:
    """Record the messages to a model, as pairs of role and text, and its reply, if the environment allows contents."""
    if span.is_recording() and _content_wanted():
        for name, turns in (("input", said), ("output", [("assistant", answer)])):
            messages = [{"role": role, "parts": [{"type": "text", "content": text}]} for role, text in turns]
            span.set_attribute(f"gen_ai.{name}.messages", hide_known(json.dumps(messages, ensure_ascii=False)))


def note_tool(span: Span, *, arguments: str, result: str, is_error: bool) -> None:
    """Record a call of a tool; its arguments and its result only if the environment allows contents."""
    if span.is_recording():
        if is_error:
            span.set_attribute("error.type", "tool_error")
            span.set_status(StatusCode.ERROR)
        if _content_wanted():
            said = {"gen_ai.tool.call.arguments": arguments, "gen_ai.tool.call.result": result}
            span.set_attributes({name: hide_known(text) for name, text in said.items()})


def note_failure(span: Span, error: BaseException) -> None:
    """Record a failure; an exception that leaves the block of a span is recorded without this."""
    if span.is_recording():
        kind = type(error)
        span.set_attribute("error.type", f"{kind.__module__}.{kind.__qualname__}".removeprefix("builtins."))
        if _content_wanted():
            told = {
                "exception.type": kind.__qualname__,
                "exception.message": hide(str(error)),
                "exception.stacktrace": traceback_of(error),
            }
            span.add_event("exception", told)
            span.set_status(StatusCode.ERROR, hide(str(error)))
        else:
            span.set_status(StatusCode.ERROR)


class _Within:
    """A block in which a context of OpenTelemetry is attached."""

    def __init__(self, within: context.Context) -> None:
        self._within = within

    def __enter__(self) -> None:
        self._token = context.attach(self._within)

    def __exit__(self, *_: object) -> None:
        context.detach(self._token)


class _Recording:
    """A block that ends a span, in which it is current; exceptions that are no `Signal` mark the span as failed."""

    __slots__ = ("_current", "_span", "_token")

    def __init__(self, span: Span, *, current: bool) -> None:
        self._span = span
        self._current = current

    def __enter__(self) -> Span:
        if self._current:
            self._token = context.attach(set_span_in_context(self._span))
        return self._span

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current:
            context.detach(self._token)
        if isinstance(error, Exception) and not isinstance(error, Signal):
            note_failure(self._span, error)
        self._span.end()


def _tracing_is_off() -> bool:
    # Checked first, because a process without models takes only microseconds.
    return isinstance(get_tracer_provider(), (ProxyTracerProvider, NoOpTracerProvider))


def _span(
    name: str,
    attributes: Mapping[str, Attribute],
    *,
    kind: SpanKind = SpanKind.INTERNAL,
    current: bool = True,
    parent: context.Context | None = None,
) -> AbstractContextManager[Span]:
    if _tracing_is_off():
        return _off
    return _Recording(_tracer.start_span(name, parent, kind=kind, attributes=_present(attributes)), current=current)


def _context_of(carrier: Mapping[str, str]) -> context.Context:
    from opentelemetry.propagate import extract

    return extract(carrier)


def _request(operation: str, model: str, provider: str) -> dict[str, Attribute]:
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDERS.get(provider, provider),
        "gen_ai.request.model": model,
    }


def _present(attributes: Mapping[str, Attribute]) -> dict[str, str | int | float | bool | tuple[str, ...]]:
    return {name: value for name, value in attributes.items() if value is not None and value != ""}


def _content_wanted() -> bool:
    return os.environ.get(_CONTENT, "").lower() in _WITH_CONTENT
