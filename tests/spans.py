"""Spans as tests see them: a real SDK with its in-memory exporter, set up once, since a program can only once."""

from collections.abc import Generator
from contextlib import contextmanager
from functools import cache

from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter


class Spans:
    """The spans that ended so far, oldest first, of goalport alone."""

    def __init__(self, exporter: InMemorySpanExporter) -> None:
        self._exporter = exporter

    @property
    def all(self) -> list[ReadableSpan]:
        ended = self._exporter.get_finished_spans()
        return [each for each in ended if each.instrumentation_scope and each.instrumentation_scope.name == "goalport"]

    @property
    def of_others(self) -> list[str]:
        """The names of spans that other libraries made."""
        ended = self._exporter.get_finished_spans()
        return [each.name for each in ended if each not in self.all]

    @property
    def names(self) -> list[str]:
        return [each.name for each in self.all]

    def one(self, name: str) -> ReadableSpan:
        """The only span of a name."""
        (found,) = (each for each in self.all if each.name == name)
        return found

    def attributes(self, name: str) -> dict[str, object]:
        return dict(self.one(name).attributes or {})

    def parent(self, name: str) -> str | None:
        """The name of the span that another one, known by its name, stands in."""
        above = self.one(name).parent
        return next(
            (each.name for each in self.all if above and each.context and each.context.span_id == above.span_id), None
        )


@cache
def _exporter() -> InMemorySpanExporter:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


@contextmanager
def recorded_spans() -> Generator[Spans]:
    """What ends within the block."""
    exporter = _exporter()
    exporter.clear()
    yield Spans(exporter)
    exporter.clear()
