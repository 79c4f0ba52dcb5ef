"""Starts goalport's servers and other people's clients as processes, and ends them. No test is in here."""

import json
import os
import queue
import re
import shutil
import subprocess
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread, Timer
from typing import IO, Any, NoReturn

import pytest

from tests.programs import GOALPORT, fork
from tests.proxies import round_robin_beside

CLIENTS = Path(__file__).parent
ROOT = CLIENTS.parents[1]
NODE_PACKAGES = CLIENTS / "node" / "node_modules"
CONFORMANCE = str(NODE_PACKAGES / "@modelcontextprotocol/conformance/dist/index.js")
INSPECTOR = str(NODE_PACKAGES / "@modelcontextprotocol/inspector/clients/launcher/build/index.js")
MCP_REMOTE = str(NODE_PACKAGES / "mcp-remote/dist/proxy.js")
READY = re.compile(r"goalport ready on (?P<address>http://127\.0\.0\.1:\d+)/mcp")


def lack(message: str) -> NoReturn:
    """Leave a test out for what the machine does not have; where clients are required, fail it."""
    if os.environ.get("GOALPORT_CLIENTS") == "required":
        pytest.fail(message)
    pytest.skip(message)


def installed(program: str, package: str = "", path: str | None = None) -> str:
    """Where a program is that its package, by default of the same name, installs."""
    return shutil.which(program, path=path) or lack(
        f"{program} is not there; Debian and Ubuntu have it: apt-get install {package or program}"
    )


def environment(scratch: Path, **more: str) -> dict[str, str]:
    """This process's environment with a home and a data folder that nobody else uses."""
    places = {"HOME": str(scratch), "GOALPORT_DATA_DIR": str(scratch / "data")}
    return {**os.environ, **places, "NO_COLOR": "1", **more}


def run(
    command: Sequence[str], scratch: Path, seconds: float = 60, typed: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """Run a client to its end, whatever its exit code says; `typed` is its input, `more` of its environment."""
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=seconds,
        env=environment(scratch, **more),
        cwd=scratch,
        check=False,
        input=typed,
    )


@contextmanager
def obeying(command: Sequence[str], scratch: Path, seconds: float = 60) -> Generator[Callable[[Any], Any]]:
    """A client that waits for what to call, a line of JSON each; the value calls it and returns what it told."""
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment(scratch), cwd=scratch
    ) as client:
        assert client.stdin is not None
        assert client.stdout is not None
        bound = Timer(seconds, client.kill)
        bound.start()

        def tell(request: Any) -> Any:
            assert client.stdin is not None
            assert client.stdout is not None
            client.stdin.write(json.dumps(request) + "\n")
            client.stdin.flush()
            said = client.stdout.readline()
            assert said, f"{command[0]} ended, or took more than {seconds} s, before it answered {request}"
            return json.loads(said)

        try:
            yield tell
            client.stdin.close()
            assert client.wait() == 0
        finally:
            client.kill()
            bound.cancel()


@contextmanager
def started(
    command: Sequence[str], ready: re.Pattern[str], env: Mapping[str, str], seconds: float = 60
) -> Generator[re.Match[str]]:
    """A process that serves until the block ends; entered when it says on stderr that it is ready."""
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=env) as process:
        assert process.stderr is not None
        with _read(process.stderr) as lines:
            try:
                yield _first_match(ready, lines, seconds)
            finally:
                process.terminate()
                _end(process)


@contextmanager
def _read(stream: IO[str]) -> Generator["queue.Queue[str]"]:
    """The lines of a stream that ends when the block does."""
    lines: queue.Queue[str] = queue.Queue()
    reader = Thread(target=_copy, args=(stream, lines))
    reader.start()
    try:
        yield lines
    finally:
        reader.join()


def _copy(stream: IO[str], lines: "queue.Queue[str]") -> None:
    # Read to the end: a full pipe would stop the process that writes into it.
    for line in stream:
        lines.put(line)
    lines.put("")


def _first_match(pattern: re.Pattern[str], lines: "queue.Queue[str]", seconds: float) -> re.Match[str]:
    seen: list[str] = []
    came = "its end"
    try:
        while line := lines.get(timeout=seconds):
            seen.append(line)
            if match := pattern.search(line):
                return match
    except queue.Empty:
        came = f"{seconds} s of silence"
    said = "".join(seen)
    raise AssertionError(f"Expected a line like {pattern.pattern!r} on stderr; {came} came instead, after:\n{said}")


def _end(process: subprocess.Popen[str]) -> None:
    try:
        process.wait(timeout=20)
    except subprocess.TimeoutExpired:
        process.kill()
        raise


@dataclass(frozen=True)
class Served:
    """A workspace that is being served over HTTP, and may be started over stdio besides."""

    workspace: Path
    address: str

    def target(self, transport: str) -> list[str]:
        """What a client is told: an address, or the command to start."""
        if transport == "stdio":
            return [GOALPORT, "serve", "--workspace", str(self.workspace), "--transport", "stdio"]
        return [f"{self.address}/{'sse' if transport == 'sse' else 'mcp'}"]


@contextmanager
def serving(workspace: Path, scratch: Path, *options: str, port: str = "0", **settings: str) -> Generator[Served]:
    arguments = ["serve", "--workspace", str(workspace), "--port", port, *options]
    env = environment(scratch, **{f"GOALPORT_{name.upper()}": value for name, value in settings.items()})
    reading, writing = os.pipe()
    server = fork(arguments, env, stderr=writing)
    os.close(writing)
    with os.fdopen(reading, encoding="utf-8") as errors, _read(errors) as lines:
        try:
            yield Served(workspace, _first_match(READY, lines, 60)["address"])
        finally:
            server.terminate()
            server.join(20)
            server.kill()


@contextmanager
def serving_twice(workspace: Path, scratch: Path, store: str = "sqlite") -> Generator[Served]:
    """Two servers on one store, and a proxy before them that sends the requests to each in turn."""
    settings = {"store": store, "state_keys": "k" * 32}
    with (
        serving(workspace, scratch, **settings) as one,
        serving(workspace, scratch, **settings) as other,
        round_robin_beside([one.address, other.address]) as proxy,
    ):
        yield Served(workspace, proxy.address)
        assert proxy.refused == 0
        assert min(proxy.sent[each.address] for each in (one, other)) > 0
