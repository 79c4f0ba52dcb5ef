"""What it costs to know who calls: the guard alone, and calls to servers with and without credentials.

The identity provider is in this process and counts what it is asked for. All servers take turns.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any, Final

from anyio.from_thread import start_blocking_portal

from benchmarks.calls import loaded, loading, microseconds
from benchmarks.load import Job, Measured
from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS, goalport_serves, started
from benchmarks.wire import ERAS
from goalport.server.auth import Authentication, AuthGuard
from goalport.server.auth.keys import new_key
from goalport.workspace.settings import load_settings
from tests.rooms.auth.issuers import RESOURCE, Issuer, issuing

__all__ = ["Way", "auth", "issuer_here", "ways_to_know"]

_OPEN, _BY_KEY, _BY_JWT = "nobody is asked", "API key", "JWT"
_CONNECTIONS: Final = 16
_HOUR: Final = 3_600

_Receive = Callable[[], Awaitable[Any]]
_Send = Callable[[Any], Awaitable[None]]


@dataclass(frozen=True)
class Way:
    """A way to know who calls: what the server is told, and what clients send."""

    name: str
    settings: Mapping[str, Any]
    token: str

    @property
    def environment(self) -> Mapping[str, str]:
        """The settings as variables, and a secret: a server that has one hides it in its log, and most have one."""
        told = {f"GOALPORT_AUTH__{name.upper()}": json.dumps(value) for name, value in self.settings.items()}
        return {"GOALPORT_PUBLIC_URL": RESOURCE, "OPENAI_API_KEY": "sk-only-for-this-benchmark", **told}


def auth(*, quick: bool = False) -> Table:
    """The table of what authentication costs."""
    rounds, seconds, number = (1, 0.1, 200) if quick else (7, 0.6, 20_000)
    with issuer_here() as issuer:
        ways = list(ways_to_know(issuer))
        rows = [row for way in ways[1:] for row in asyncio.run(_guard_alone(way, issuer, number))]
        issuer.requests.clear()
        measured = _in_turn(ways, rounds, seconds)
        asked = issuer.requests.total()
    for era in ERAS:
        rows += [_row(measured, era, way.name) for way in ways]
    calls = sum(each.calls for (_, name), some in measured.items() if name == _BY_JWT for each in some)
    rows.append((f"requests to the provider for {calls:,} calls", str(asked), "", "", "2, at the start"))
    note = (
        f"Medians of {rounds} rounds of {seconds:g} s at {_CONNECTIONS} connections. *ratio*: calls per second over"
        " those of the server that asks nobody, median over the rounds. *the guard alone*: processor time for one"
        " request, with nothing behind it; a token is remembered for a minute after it was verified."
    )
    return Table("auth", "Knowing who calls", ("what", "calls/s", "CPU µs", "ratio", "aim"), rows, [note])


@contextmanager
def issuer_here() -> Generator[Issuer]:
    """An identity provider in this process, until the block ends."""
    with start_blocking_portal() as portal, portal.wrap_async_context_manager(issuing()) as issuer:
        yield issuer


def ways_to_know(issuer: Issuer) -> Generator[Way]:
    """The ways to know who calls; in the first one, nobody is asked."""
    key = new_key("benchmark", ("goals:read", "goals:write"), None)
    entries = [{**key.entry.model_dump(mode="json"), "sha256": key.entry.sha256.get_secret_value()}]
    yield Way(_OPEN, {}, "")
    yield Way(_BY_KEY, {"key_entries": entries}, key.key.get_secret_value())
    token = issuer.token(exp=int(time.time()) + _HOUR)
    yield Way(_BY_JWT, {"issuers": [{"issuer": issuer.issuer}]}, token)


async def _guard_alone(way: Way, issuer: Issuer, number: int) -> Sequence[Sequence[str]]:
    """The rows of the guard with nothing behind it: for a credential that comes again, and for JWTs that are new."""
    with tempfile.TemporaryDirectory() as folder:
        settings = load_settings(Path(folder), public_url=RESOURCE, auth=dict(way.settings))
        authentication = Authentication.of(settings)
    assert authentication is not None
    async with authentication.running():
        guard = AuthGuard(_nothing, authentication, ())
        known = await _each(guard, [way.token] * number)
        rows = [(f"the guard alone, {way.name}", "", f"{known:.0f}", "", "≤ 150")]
        if way.name == _BY_JWT:
            end = int(time.time()) + _HOUR
            new = await _each(guard, [issuer.token(exp=end, jti=str(each)) for each in range(min(number, 2_000))])
            rows.append(("the guard alone, JWT that is new", "", f"{new:.0f}", "", ""))
    return rows


async def _each(guard: AuthGuard, tokens: Sequence[str]) -> float:
    """The processor time of one request, in microseconds."""
    scopes = [_scope(each) for each in tokens]
    await guard(_scope(tokens[0]), _never, _ignore)
    began = time.process_time()
    for each in scopes:
        await guard(each, _never, _ignore)
    return 1e6 * (time.process_time() - began) / len(scopes)


def _scope(token: str) -> dict[str, Any]:
    usual = [(b"host", b"127.0.0.1"), (b"accept", b"*/*"), (b"content-type", b"application/json")]
    headers = [*usual, (b"authorization", f"Bearer {token}".encode())]
    return {"type": "http", "method": "POST", "path": "/mcp", "query_string": b"", "headers": headers}


async def _nothing(scope: Any, _receive: _Receive, _send: _Send) -> None:
    assert scope["user"].is_authenticated


async def _never() -> Any:
    raise AssertionError("the guard reads no bodies")


async def _ignore(message: Any) -> None:
    raise AssertionError(f"the guard refused the request: {message}")


def _in_turn(ways: Sequence[Way], rounds: int, seconds: float) -> Mapping[tuple[str, str], Sequence[Measured]]:
    found: dict[tuple[str, str], list[Measured]] = {(era, way.name): [] for era in ERAS for way in ways}
    with ExitStack() as stack:
        command = goalport_serves(BENCHMARKS / "workspace")
        servers = [stack.enter_context(started(way.name, command, settings=way.environment)) for way in ways]
        load = stack.enter_context(loading())
        for turn in range(rounds):
            for era in ERAS:
                for number in range(len(ways)):
                    at = (turn + number) % len(ways)
                    found[era, ways[at].name].append(loaded(servers[at], _job(ways[at], era, seconds), load))
    return found


def _job(way: Way, era: str, seconds: float) -> Job:
    greet = Job(0, 0, era, "greet", {"name": "Ada"}, "Hello, Ada!", tokens=(way.token,))
    return replace(greet, connections=_CONNECTIONS, seconds=seconds)


def _row(measured: Mapping[tuple[str, str], Sequence[Measured]], era: str, name: str) -> Sequence[str]:
    found, without = measured[era, name], measured[era, _OPEN]
    ratio = median(each.throughput / other.throughput for each, other in zip(found, without, strict=True))
    aim = {_BY_JWT: "≥ 0.9"}.get(name, "")
    compared = "" if name == _OPEN else f"{ratio:.2f}"
    return (
        f"{era}, {name}",
        f"{median(each.throughput for each in found):.0f}",
        microseconds(found),
        compared,
        aim,
    )


if __name__ == "__main__":
    print(auth().markdown)
