"""The Prometheus metrics of a server: their names and labels, and their text for a scraper.

With several workers, each writes its numbers to files in a folder of the supervisor, where prometheus_client adds them
up; so any worker can be scraped. Labels are names in the workspace, never ids of processes or callers.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

_FOLDER: Final = "PROMETHEUS_MULTIPROC_DIR"
"""The variable that makes prometheus_client add up the numbers of several processes; its value is a folder."""
_CALL_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_LAG_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)
_UNKNOWN: Final = "unknown"


class Metrics:
    """The metrics of one server, or of one of its workers."""

    def __init__(self, version: str) -> None:
        self._registry = CollectorRegistry()

        def counter(name: str, words: str, *labels: str) -> Counter:
            return Counter(f"goalport_{name}", words, labels, registry=self._registry)

        def gauge(name: str, words: str, *labels: str, workers: Any = "livesum") -> Gauge:
            named = f"goalport_{name}"
            return Gauge(named, words, labels, registry=self._registry, multiprocess_mode=workers)

        def histogram(name: str, words: str, *labels: str, buckets: Iterable[float]) -> Histogram:
            return Histogram(f"goalport_{name}", words, labels, registry=self._registry, buckets=tuple(buckets))

        call = "door", "goal"
        self._calls = counter("calls", "Calls that have ended.", *call, "status")
        self._seconds = histogram("call_seconds", "How long calls took.", *call, buckets=_CALL_SECONDS)
        self._responses = counter("http_responses", "Responses over HTTP.", "status")
        self._refusals = counter("refusals", "Calls and connections that a limit refused.", "limit")
        self._requests = counter("model_requests", "Requests of models by processes.", "model")
        self._tokens = counter("model_tokens", "Tokens of models.", "model", "type")
        self._cost = counter("model_cost_dollars", "What models cost, in US dollars.", "model")
        self._upstream_calls = counter("upstream_calls", "Calls of upstream servers.", "server")
        self._upstream_failures = counter("upstream_failures", "Those that gave no result.", "server")
        self._lag = histogram("event_loop_lag_seconds", "How late the event loop was.", buckets=_LAG_SECONDS)
        self.open_calls = gauge("open_calls", "Calls that are being answered.")
        self.open_connections = gauge("open_connections", "Open connections of clients.")
        self.audit_lost = gauge("audit_lost", "Entries of the audit log that could not be written.")
        self.ready = gauge("ready", "1 if calls can be answered, by every worker.", workers="livemin")
        self.load_problems = gauge("load_problems", "What could not be loaded or published.", workers="livemax")
        self._model_seconds = histogram("model_seconds", "How long models took.", "model", buckets=_CALL_SECONDS)
        self._model_failures = counter("model_failures", "Requests of models that failed.", "model")
        took = histogram("store_seconds", "How long the store took.", "kind", buckets=_CALL_SECONDS)
        errors = counter("store_errors", "Transactions of the store that failed.", "kind")
        self._take_overs = counter("take_overs", "Processes that went on here after their program had ended.")
        self._resident = gauge("resident_bytes", "Memory of the processes that serve.")
        self._descriptors = gauge("open_descriptors", "Files and sockets that they have open.")
        self._most_descriptors = gauge("max_descriptors", "How many they may have open.")
        self.store_free = gauge("store_free_bytes", "Space left on the disk of the store.", workers="livemin")
        words = "1 if what is new can be stored."
        self.store_writable = gauge("store_writable", words, workers="livemin")
        self._upstream_up = gauge("upstream_up", "1 if the server is up.", "server", workers="livemin")
        words = "The share of the group's servers that are up: 1, 0.5 (some) or 0."
        self._group_up = gauge("tool_group_up", words, "group", workers="livemin")
        gauge("workers", "The processes that serve.").set(1)
        gauge("info", "The version.", "version", workers="livemax").labels(version).set(1)
        # Finding a metric by its labels takes longer than counting.
        self._of_calls: dict[tuple[str, str, str], tuple[Counter, Histogram]] = {}
        self._of_responses: dict[int, Counter] = {}
        self._of_store = {kind: (took.labels(kind), errors.labels(kind)) for kind in ("read", "write")}
        self._counted: dict[tuple[str, str], int] = {}
        """The last totals that were recorded: upstream servers count by themselves, and so do take-overs."""

    def call(self, door: str, goal: str, status: str, seconds: float) -> None:
        """Count a call that has ended; `goal` is empty if the server has no goal of that name."""
        key = door, goal or _UNKNOWN, status
        if key not in self._of_calls:
            self._of_calls[key] = self._calls.labels(*key), self._seconds.labels(*key[:2])
        ended, took = self._of_calls[key]
        ended.inc()
        took.observe(seconds)

    def response(self, status: int) -> None:
        """Count a response over HTTP."""
        if status not in self._of_responses:
            self._of_responses[status] = self._responses.labels(str(status))
        self._of_responses[status].inc()

    def refusal(self, limit: str) -> None:
        """Count something that a limit refused; `limit` is the name of its setting."""
        self._refusals.labels(limit).inc()

    def spending(self, model: str, input_tokens: int, output_tokens: int, cost: float) -> None:
        """Count a request of a model, from any thread."""
        self._requests.labels(model or _UNKNOWN).inc()
        self._tokens.labels(model or _UNKNOWN, "input").inc(max(0, input_tokens))
        self._tokens.labels(model or _UNKNOWN, "output").inc(max(0, output_tokens))
        self._cost.labels(model or _UNKNOWN).inc(max(0.0, cost))

    def lag(self, seconds: float) -> None:
        """Record how late the event loop was."""
        self._lag.observe(max(0.0, seconds))

    def upstream(self, server: str, *, up: bool, calls: int, failures: int) -> None:
        """Record the state of an upstream server, and its total numbers of calls and failures so far."""
        self._upstream_up.labels(server).set(int(up))
        for kind, counted, now in (("c", self._upstream_calls, calls), ("f", self._upstream_failures, failures)):
            before = self._counted.get((kind, server), 0)
            counted.labels(server).inc(now - before if now >= before else now)
            self._counted[kind, server] = now

    def model_request(self, model: str, seconds: float, failed: bool) -> None:  # noqa: FBT001 - a hook's
        """Count a request of a model that has ended, from any thread."""
        self._model_seconds.labels(model or _UNKNOWN).observe(seconds)
        self._model_failures.labels(model or _UNKNOWN).inc(failed)

    def transaction(self, kind: str, seconds: float, failed: bool) -> None:  # noqa: FBT001 - a hook's
        """Count a transaction of the store, which is a `read` or a `write`."""
        took, errors = self._of_store[kind]
        took.observe(seconds)
        errors.inc(failed)

    def take_overs(self, number: int) -> None:
        """Record how many processes this program has taken over so far from programs that ended."""
        self._take_overs.inc(number - self._counted.get(("t", ""), 0))
        self._counted["t", ""] = number

    def note_process(self) -> None:
        """Record the memory and open descriptors of this process, if the operating system (Linux) reports them."""
        with suppress(OSError, ImportError):
            import resource  # not on Windows

            pages = int(Path("/proc/self/statm").read_text().split()[1])
            self._resident.set(pages * os.sysconf("SC_PAGE_SIZE"))
            self._descriptors.set(sum(1 for _ in Path("/proc/self/fd").iterdir()))
            self._most_descriptors.set(resource.getrlimit(resource.RLIMIT_NOFILE)[0])

    def group(self, name: str, share: float) -> None:
        """Record the share of a tool group's servers that are up: 1, 0.5 (some) or 0."""
        self._group_up.labels(name).set(share)

    def text(
        self, accept: str, processes: Mapping[str, int] | None, store: tuple[int, float] | None
    ) -> tuple[bytes, str]:
        """All metrics in the format that a scraper accepts, by its header `Accept`, and the media type.

        `processes` are the numbers of stored processes by status. `store` is the size of the store in bytes and the age
        of the oldest open question in seconds. None: not known now.
        """
        # Numbers of the store are not added up, since the workers of a server share it.
        families: list[Metric] = []
        if processes is not None:
            words = "Processes that are kept, by status."
            families.append(by_status := GaugeMetricFamily("goalport_processes", words, labels=["status"]))
            for status, number in processes.items():
                by_status.add_metric([status], number)
        if store is not None:
            oldest = "How long the oldest open question has waited."
            families += [
                GaugeMetricFamily("goalport_store_bytes", "Space that the store takes.", value=store[0]),
                GaugeMetricFamily("goalport_oldest_question_seconds", oldest, value=store[1]),
            ]
        registry = CollectorRegistry()
        if os.environ.get(_FOLDER):
            MultiProcessCollector(registry)
        else:
            registry.register(_Families(self._registry.collect))
        registry.register(_Families(lambda: families))
        encode, media_type = choose_encoder(accept)
        return encode(registry), media_type


class _Families(Collector):
    """A collector of metrics that a function returns."""

    def __init__(self, collect: Callable[[], Iterable[Metric]]) -> None:
        self.collect = collect
