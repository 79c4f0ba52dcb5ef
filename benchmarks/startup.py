"""Start-up and memory: what comes between a command and its first use, and what waiting costs.

Each time is that of a fresh process. What is imported is read from Python's own report (`-X importtime`), in
a run apart.
"""

import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from benchmarks.report import Table
from benchmarks.servers import BENCHMARKS, GOALPORT, ROOT, Server, goalport_serves, started
from benchmarks.wire import HANDSHAKE, Connection, Wire
from goalport.base.words import counted

__all__ = ["seconds_of", "served_modules", "startup", "workspace_of"]

MODEL_SDKS = frozenset(
    {"anthropic", "boto3", "cohere", "google", "groq", "mistralai", "openai", "pydantic_ai", "torch"}
)
_IMPORT = "from goalport import AgentPlatform"
_HEAD = """\
from goalport import Export, achieves_goal, action, agent
from pydantic import BaseModel
"""
_TYPES = '''
class Draft{n}(BaseModel):
    """What is asked for."""
    subject: str
    length: int = 100

class Outline{n}(BaseModel):
    points: list[str]

class Essay{n}(BaseModel):
    """What comes of it."""
    title: str
    outline: Outline{n}
    text: str
'''
_CLASS = """
@agent(description="Writes essays of kind {n} and others")
class Writer{n}:
"""
_GOAL = """
    @action
    async def outline_{n}(self, draft: Draft{n}) -> Outline{n}:
        return Outline{n}(points=[draft.subject])

    @achieves_goal(description="An essay of kind {n}", export=Export(remote=True, name="write_{n}"))
    @action
    async def write_{n}(self, draft: Draft{n}, outline: Outline{n}) -> Essay{n}:
        return Essay{n}(title=draft.subject, outline=outline, text="")
"""


def startup(*, quick: bool = False) -> Table:
    """The table of start-up times, imports and memory."""
    times, agents, sessions = (1, 3, 5) if quick else (5, 100, 200)
    rows = [
        ("`python -c pass`", _s(seconds_of([sys.executable, "-c", "pass"], times)), ""),
        (f"`{_IMPORT}`", _s(seconds_of([sys.executable, "-c", _IMPORT], times)), ""),
        ("`goalport --help`", _s(seconds_of([GOALPORT, "--help"], times)), "≤ 0.5 s"),
        ("modules of that import", _modules([sys.executable, "-X", "importtime", "-c", _IMPORT]), "no model SDK"),
    ]
    with workspace_of(agents) as workspace:
        ready = [_until_healthy(workspace) for _ in range(times)]
        rows.append((f"`goalport serve` with {agents} agents until `/health` answers", _s(median(ready)), "≤ 3 s"))
        rows.append(("modules of that server", served_modules(workspace), "no model SDK"))
        with started("goalport", goalport_serves(workspace)) as server:
            rows.append((f"memory of that server, with {agents} agents", f"{server.memory:.0f} MB", ""))
    if not quick:
        for agents, goals in ((1_000, 1), (100, 10), (1, 1_000)):
            with workspace_of(agents, goals) as workspace:
                ready = [_until_healthy(workspace) for _ in range(times)]
            what = f"the same with {counted(agents, 'agent')} of {counted(goals, 'goal')}"
            rows.append((what, _s(median(ready)), "≤ 3 s"))
    rows += _waiting(sessions)
    notes = [f"Medians of {times} fresh processes. Memory is what is resident (RSS)."]
    return Table("startup", "Start-up, imports and memory", ("what", "takes", "aim"), rows, notes)


def seconds_of(command: Sequence[str], times: int) -> float:
    """How long a command takes, the median of so many runs."""
    found: list[float] = []
    for _ in range(times):
        began = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True, timeout=60, cwd=ROOT)
        found.append(time.perf_counter() - began)
    return median(found)


@contextmanager
def workspace_of(agents: int, goals: int = 1) -> Generator[Path]:
    """A workspace of so many agents with so many goals each, until the block ends."""
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "agents"
        place.mkdir()
        for number in range(agents):
            (place / f"writer_{number}.py").write_text(_module(number * goals, goals), encoding="utf-8")
        yield Path(folder)


def _module(first: int, goals: int) -> str:
    """A module of one agent with so many goals, whose numbers begin with `first`."""
    numbers = [str(first + each) for each in range(goals)]
    types, methods = ("".join(template.replace("{n}", number) for number in numbers) for template in (_TYPES, _GOAL))
    return _HEAD + types + _CLASS.replace("{n}", numbers[0]) + methods


def _until_healthy(workspace: Path) -> float:
    """From the command to the first answer of `/health`."""
    with started("goalport", goalport_serves(workspace)) as server:
        asked = time.perf_counter()
        connection = HTTPConnection("127.0.0.1", server.port, timeout=10)
        connection.request("GET", "/health")
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if answer.status != 200:
            raise RuntimeError(f"Expected /health to answer 200, but it answered {answer.status}.")
        return server.seconds + time.perf_counter() - asked


def _modules(command: Sequence[str]) -> str:
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60, cwd=ROOT)
    return _counted(done.stderr)


def served_modules(workspace: Path) -> str:
    """What a server has imported once it is ready."""
    command = [sys.executable, "-X", "importtime", *goalport_serves(workspace)]
    with started("goalport", command) as server:
        return _counted("".join(server.said))


def _counted(report: str) -> str:
    names = set(re.findall(r"^import time:.*\| +([\w.]+)$", report, re.MULTILINE))
    sdks = sorted(MODEL_SDKS.intersection(name.partition(".")[0] for name in names))
    return f"{len(names)}, {', '.join(sdks) if sdks else 'no model SDK'}"


def _waiting(sessions: int) -> list[tuple[str, str, str]]:
    with started("goalport", goalport_serves(BENCHMARKS / "workspace")) as server:
        idle = server.memory
        with _sessions(server, sessions):
            per_session = 1024 * (server.memory - idle) / sessions
    return [
        ("memory of a server with 2 agents, idle", f"{idle:.0f} MB", ""),
        (f"memory per idle session of the handshake era, of {sessions}", f"{per_session:.0f} kB", ""),
    ]


@contextmanager
def _sessions(server: Server, count: int) -> Generator[None]:
    """Sessions with their own stream of messages open, as SDK clients keep them."""
    wire = Wire(server.port, HANDSHAKE, "greet", {"name": "Ada"})
    pairs = [_session(wire) for _ in range(count)]
    try:
        yield
    finally:
        for calling, listening in pairs:
            with suppress(OSError):
                listening.close()
                calling.close()


def _session(wire: Wire) -> tuple[Connection, Connection]:
    calling = wire.connect()
    listening = Connection(wire.port)
    listening.socket.sendall(wire.listen(calling.session))
    listening.receive()
    return calling, listening


def _s(seconds: float) -> str:
    return f"{seconds:.2f} s"
