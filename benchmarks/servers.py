"""Servers as processes: started, found ready, asked for their memory, ended.

Above are the tables that measure them. Nothing here outlives the block that started it.
"""

import os
import queue
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import IO

__all__ = ["BENCHMARKS", "FASTMCP", "GOALPORT", "ROOT", "Server", "goalport_serves", "started"]

BENCHMARKS = Path(__file__).parent
ROOT = BENCHMARKS.parent
GOALPORT = str(Path(sys.executable).with_name("goalport"))
FASTMCP = ROOT / "tests" / "clients" / ".venvs" / "fastmcp" / "bin" / "python"
"""The Python that `make clients` prepares for FastMCP."""
_READY = re.compile(r"ready on http://127\.0\.0\.1:(\d+)/mcp")
_PATIENCE = 60.0


@dataclass(frozen=True)
class Server:
    """A server that answers."""

    name: str
    pid: int
    port: int
    seconds: float
    """From its start until it said that it was ready."""
    said: tuple[str, ...]
    """The lines on standard error until then."""

    @property
    def memory(self) -> float:
        """Resident MB; 0 where the machine does not tell."""
        try:
            status = Path(f"/proc/{self.pid}/status").read_text(encoding="utf-8")
        except OSError:
            return 0.0
        found = re.search(r"VmRSS:\s+(\d+) kB", status)
        return int(found[1]) / 1024 if found else 0.0


def goalport_serves(workspace: Path) -> list[str]:
    """The command that serves a workspace on a free port."""
    return [GOALPORT, "serve", "--workspace", str(workspace), "--host", "127.0.0.1", "--port", "0"]


@contextmanager
def started(
    name: str, command: Sequence[str], *, settings: Mapping[str, str] | None = None, until: re.Pattern[str] = _READY
) -> Generator[Server]:
    """A server that runs until the block ends. Raises `RuntimeError` with its last words when it does not get ready.

    `settings` are variables of its environment, `until` matches the line that says that it is ready.
    """
    with tempfile.TemporaryDirectory() as scratch:
        places = {"HOME": scratch, "GOALPORT_DATA_DIR": f"{scratch}/data", "NO_COLOR": "1"}
        environment = os.environ | places | dict(settings or {})
        began = time.perf_counter()
        process = subprocess.Popen(
            command,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
            cwd=ROOT,
            start_new_session=True,  # Linux shares cores among sessions first, and workers have sessions of their own
        )
        lines: queue.Queue[str] = queue.Queue()
        assert process.stderr is not None
        reader = Thread(target=_copy, args=(process.stderr, lines), daemon=True)
        reader.start()
        try:
            said = _until_ready(name, lines, until)
            port = next(filter(None, map(_READY.search, said)), None)
            assert port is not None
            yield Server(name, process.pid, int(port[1]), time.perf_counter() - began, said)
        finally:
            _end(process)
            reader.join(timeout=5)


def _copy(stream: IO[str], lines: "queue.Queue[str]") -> None:
    # Read to the end: a full pipe would stop the server that writes into it.
    with stream:
        for line in stream:
            lines.put(line)
    lines.put("")


def _until_ready(name: str, lines: "queue.Queue[str]", ready: re.Pattern[str]) -> tuple[str, ...]:
    said: list[str] = []
    until = time.perf_counter() + _PATIENCE
    with suppress(queue.Empty):
        while line := lines.get(timeout=max(0.0, until - time.perf_counter())):
            said.append(line)
            if ready.search(line):
                return tuple(said)
    raise RuntimeError(f"{name} ended, or was not ready after {_PATIENCE:g} s. It said:\n{''.join(said[-20:])}")


def _end(process: subprocess.Popen[str]) -> None:
    process.terminate()
    try:
        process.wait(timeout=10)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
