"""What a server keeps in memory: large results of ended processes, idle sessions, processes that wait for people."""

import tempfile
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from statistics import median

from benchmarks.load import Job, measure
from benchmarks.report import Table
from benchmarks.servers import Server, goalport_serves, started
from benchmarks.wire import HANDSHAKE, MODERN, Wire

__all__ = ["memory"]

_STORES = ("memory", "sqlite")
_KB = 400
_PORTION = 50
_AGENTS = """\
from goalport import Export, OperationContext, UserInput, WaitFor, achieves_goal, action, agent
from pydantic import BaseModel

class Wanted(BaseModel):
    kb: int

class Row(BaseModel):
    number: int
    text: str

class Report(BaseModel):
    rows: list[Row]

class Word(BaseModel):
    word: str

class Said(BaseModel):
    text: str

class Heard(BaseModel):
    text: str

@agent(description="Reports as much as is wanted")
class Reporter:
    @achieves_goal(description="A report", export=Export(remote=True, name="report", starting_input_types=[Wanted]))
    async def report(self, wanted: Wanted) -> Report:
        return Report(rows=[Row(number=n, text=f"{n:<175}") for n in range(wanted.kb * 5)])

@agent(description="Asks a person")
class Asking:
    @action
    def which(self, user_input: UserInput) -> WaitFor[Word]:
        return WaitFor.form_submission("Which word?", Word)

    @achieves_goal(description="What follows an answer", export=Export(remote=True, name="ask"))
    async def go_on(self, word: Word) -> Said:
        return Said(text=word.word)

@agent(description="Asks a person in the middle of an action")
class AskingInside:
    @achieves_goal(description="What was heard", export=Export(remote=True, name="ask_inside", long=True))
    async def hear(self, user_input: UserInput, context: OperationContext) -> Heard:
        return Heard(text=(await context.ask("Which word?", Word)).word)
"""
_ASKING = {"ask": "wait between actions", "ask_inside": "wait in the middle of one"}
"""The goals that ask, and what their processes do then."""


def memory(*, quick: bool = False) -> Table:
    """The table of what a server keeps in memory."""
    results, sessions, waiting, calls = (3, 5, 5, 10) if quick else (1_000, 1_000, 5_000, 200)
    rows = list(_results("sqlite", results))
    rows += _sessions(sessions)
    rows += [row for store in _STORES for row in _waiting(store, waiting, calls)]
    note = (
        "Resident memory (RSS) above that of the same server when it was idle, after its first calls. A result is a"
        f" list of {_KB * 5:,} objects. The sessions have made a call each. *CPU*: processor time of a call with a"
        f" small result, with the processes that wait over that of a server without any, in turns of {calls} calls;"
        " medians of 5."
    )
    return Table("memory", "What a server keeps in memory", ("what", "store", "takes", "aim"), rows, [note])


@contextmanager
def _server(store: str) -> Generator[Server]:
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "agents").mkdir()
        (Path(folder) / "agents" / "agents.py").write_text(_AGENTS, encoding="utf-8")
        with started("goalport", goalport_serves(Path(folder)), settings={"GOALPORT_STORE": store}) as server:
            measure(replace(_small(server), calls=20))
            yield server


def _small(server: Server) -> Job:
    return Job(server.port, server.pid, MODERN, "report", {"kb": 0}, '"rows":[]')


def _results(store: str, count: int) -> Iterator[tuple[str, str, str, str]]:
    with _server(store) as server:
        idle = server.memory
        report = replace(_small(server), arguments={"kb": _KB}, expect=f'"number":{_KB * 5 - 1}')
        _make(report, count)
        yield f"{count:,} results of {_KB} kB", store, f"{server.memory - idle:.0f} MB", "≤ 60 MB"


def _sessions(count: int) -> Iterator[tuple[str, str, str, str]]:
    with _server("sqlite") as server:
        wire = Wire(server.port, HANDSHAKE, "report", {"kb": 0})
        _open_session(wire)
        idle = server.memory
        for _ in range(count):
            _open_session(wire)
        each = 1024 * (server.memory - idle) / count
        yield f"an idle session, of {count:,}", "sqlite", f"{each:.0f} kB", "≤ 20 kB"


def _open_session(wire: Wire) -> None:
    """Open a session, make a call, and close the connection without a word, as a client does that comes back."""
    connection = wire.connect()
    connection.send()
    while not connection.receive():
        pass
    connection.socket.close()


def _waiting(store: str, count: int, calls: int) -> Iterator[tuple[str, str, str, str]]:
    with _server(store) as server, _server(store) as empty:
        called = f"CPU of a call while {count:,}"
        for tool, waits in _ASKING.items():
            idle = server.memory
            _make(replace(_small(server), tool=tool, arguments={"content": "x"}, expect="waits for a person"), count)
            per_thousand = 1_000 * (server.memory - idle) / count
            ratio = median(_cpu_of_a_call(server, calls) / _cpu_of_a_call(empty, calls) for _ in range(5))
            yield f"1,000 processes that {waits}, of {count:,}", store, f"{per_thousand:.1f} MB", "≤ 20 MB"
            yield f"{called} {waits}", store, f"{ratio:.2f} ×", "≤ 1.2 ×"
            called = f"…, and while {count:,} more"


def _make(job: Job, count: int) -> None:
    """Make so many calls, in several jobs, as a job ends when it has taken half a minute."""
    for begun in range(0, count, _PORTION):
        done = measure(replace(job, calls=min(_PORTION, count - begun)))
        if done.errors or done.calls < min(_PORTION, count - begun):
            raise RuntimeError(
                f"Expected {_PORTION} answers, but got {done.calls}, of which {done.errors} were errors."
            )


def _cpu_of_a_call(server: Server, calls: int) -> float:
    return measure(replace(_small(server), calls=calls)).server_cpu or 1.0
