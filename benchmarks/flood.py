"""The table of a flood: a hundred callers, of whom one calls as much as it can, and how long the others wait.

Two processes make the load, one for the flood and one for the others. `calls` has what they and the servers are.
"""

import json
from collections.abc import Generator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from statistics import median
from typing import Any

from benchmarks.calls import OURS, Load, loading
from benchmarks.load import Job, Measured
from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS, Server, goalport_serves, started
from benchmarks.wire import MODERN
from goalport.server.auth.keys import new_key

__all__ = ["flood"]

_AIM = "≤ 1.5"
_SAYS = (
    "{callers} callers with an API key and one connection each call a goal that sleeps {sleep:g} s, again and again;"
    " one more has {flood} connections. Medians of {rounds} rounds of {seconds:g} s. *p50* and *p99* are those of the"
    " {callers}, *ratio* is their p99 over the one without a flood, median over the rounds."
    " The limits: `total_calls = {places}`, `waiting_calls = {flood}`."
)


def flood(*, quick: bool = False) -> Table:
    """The table of the others' latencies, without a flood and with one."""
    callers, flooding, rounds, seconds = (9, 20, 1, 0.5) if quick else (99, 300, 5, 4.0)
    sleep, places = (0.1, 12) if quick else (0.5, 120)
    limits: Mapping[str, Any] = {"total_calls": places, "waiting_calls": flooding}
    job = Job(0, 0, MODERN, "sleep", {"seconds": sleep}, "Slept", connections=callers, seconds=seconds, warm_up=sleep)
    with _serving(callers + 1, limits) as (server, keys), loading() as polite, loading() as rude:
        ours = replace(job, port=server.port, pid=server.pid, tokens=keys[1:])
        theirs = replace(ours, tokens=keys[:1], connections=flooding, seconds=seconds + 2 * sleep, warm_up=0)
        pairs = [(polite(ours), _measured(polite, rude, ours, theirs)) for _ in range(rounds)]
    ratio = median(during.p99 / alone.p99 for alone, during in pairs)
    names = ("alone", "", ""), ("during the flood", f"{ratio:.2f}", _AIM)
    rows = [
        (name, *_latencies(found), *rest) for (name, *rest), found in zip(names, zip(*pairs, strict=True), strict=True)
    ]
    says = _SAYS.format(callers=callers, sleep=sleep, flood=flooding, rounds=rounds, seconds=seconds, places=places)
    return Table(
        "flood", "One caller floods the server", ("the others", "p50", "p99", "errors", "ratio", "aim"), rows, [says]
    )


@contextmanager
def _serving(callers: int, limits: Mapping[str, Any]) -> Generator[tuple[Server, Sequence[str]]]:
    """A server and the API keys of its callers."""
    made = [new_key(f"caller{number}", ["goals:write"], None) for number in range(callers)]
    settings = {
        "GOALPORT_AUTH__KEY_ENTRIES": json.dumps([each.entry.record() for each in made]),
        "GOALPORT_LIMITS": json.dumps(limits),
    }
    with started(OURS, goalport_serves(BENCHMARKS / "workspace"), settings=settings) as server:
        yield server, [each.key.get_secret_value() for each in made]


def _latencies(found: Sequence[Measured]) -> tuple[str, str, str]:
    p50, p99 = (median(getattr(each, part) for each in found) for part in ("p50", "p99"))
    return f"{p50:.0f} ms", f"{p99:.0f} ms", str(sum(each.errors for each in found))


def _measured(polite: Load, rude: Load, ours: Job, theirs: Job) -> Measured:
    """What the polite callers measure, while the other floods."""
    with ThreadPoolExecutor(1) as thread:
        flooding = thread.submit(rude, theirs)
        found = polite(ours)
        flooding.result()
    return found
