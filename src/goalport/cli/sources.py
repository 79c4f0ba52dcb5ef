"""Where processes are looked at and changed: in the store of the workspace, or at a running server over REST.

Both show a process as the same JSON data. `stored` and `served` are loaded when it is known which is wanted, because
each takes a while to load.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from cyclopts import Parameter

from goalport.base.secrecy import hide
from goalport.cli.options import workspace_root
from goalport.cli.terminal import Record

T = TypeVar("T")
View = dict[str, Any]
NOTHING_STORED = (
    'Nothing is stored here: with the setting store = "memory", processes and conversations end with their program.'
    " Without that setting they are kept."
)
Server = Annotated[
    str | None,
    Parameter(
        help="A running server, over REST; the key in GOALPORT_KEY is sent along. Default: the store of"
        ' the workspace; with the setting store = "memory" the server at its host and port.',
    ),
]


def local_time(moment: datetime) -> str:
    """A time in the zone of this machine, to the second."""
    return moment.astimezone().isoformat(" ", "seconds")


@dataclass(frozen=True)
class Page:
    """A page of a list of processes."""

    lines: Sequence[Record]
    more: bool = False
    """Whether there are more below the last one."""
    none: str = ""
    """What is said if there is none."""


class Asked(Protocol):
    """An open question of a process."""

    @property
    def question(self) -> Mapping[str, Any]:
        """The question as JSON data, with `id`, `message` and `schema`."""
        ...

    async def status(self) -> str:
        """What has become of it."""
        ...

    async def settle(self, response: object, declined: str) -> str:
        """Answer or decline it; what is said of that. Raises `BadInput` and `AlreadyAnswered`."""
        ...

    async def end(self, *, structured: bool) -> int:
        """Wait until its process ends or asks again, and print the result; the exit code."""
        ...


class Source(Protocol):
    """Where processes are."""

    @property
    def options(self) -> str:
        """The options that name it again in another command, with a space before them."""
        ...

    async def page(self, statuses: Sequence[str], limit: int, after: str) -> Page:
        """A page of the processes with these statuses, the newest first."""
        ...

    async def view(self, process_id: str, *, events: bool) -> View:
        """A process as JSON data, with what is known of its `events` so far if that is wanted."""
        ...

    def following(self, process_id: str) -> AsyncIterator[View] | None:
        """Its events from the first one on and as they happen; None: they are in its view."""
        ...

    def asked(self, process_id: str, question_id: str | None, *, wait: bool) -> AbstractAsyncContextManager[Asked]:
        """A question of a process; `wait`: `Asked.end` is wanted."""
        ...

    async def kill(self, process_id: str, reason: str) -> str:
        """End a process; what is said of that."""
        ...


@dataclass(frozen=True)
class ShellSource:
    """What a shell adds: its own processes, and the event loop on which they run."""

    beside: Callable[[Source], Source]
    """The shell's own processes, and those of the given source."""
    runner: asyncio.Runner


_shell: ContextVar[ShellSource | None] = ContextVar("shell", default=None)


@contextmanager
def in_shell(added: ShellSource) -> Generator[None]:
    """Let the commands of this block find the processes of a shell too."""
    token = _shell.set(added)
    try:
        yield
    finally:
        _shell.reset(token)


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end what a command does: on the event loop of a shell, or on one of its own."""
    shell = _shell.get()
    return asyncio.run(work) if shell is None else shell.runner.run(work)


@contextmanager
def runner_here() -> Generator[asyncio.Runner]:
    """What runs one piece of work after another on the same event loop: that of a shell, or one of its own."""
    shell = _shell.get()
    if shell is not None:
        yield shell.runner
        return
    with asyncio.Runner() as runner:
        yield runner


def source_of(server: str | None, folder: Path, *, of_all: bool = False) -> Source:
    """The server that was named; without one the store of a workspace, or its server if the store is in memory.

    In a shell, and without a server, its own processes are there too. `of_all`: a server lists those of all callers.
    """
    root, shell = workspace_root(folder), _shell.get()
    if server is not None:
        from goalport.cli.served import ServedProcesses

        return ServedProcesses(server, f" --server {hide(server)}", of_all=of_all)
    from goalport.workspace.settings import load_settings

    settings, place = load_settings(root), "" if folder == Path() else f" --workspace {folder}"
    if settings.store != "memory":
        from goalport.cli.stored import StoredProcesses

        found: Source = StoredProcesses(settings, place)
    else:
        from goalport.cli.served import ServedProcesses, address_in

        address = address_in(settings.host, settings.port)
        found = ServedProcesses(address, place, hint=NOTHING_STORED, of_all=of_all)
    return found if shell is None or folder != Path() else shell.beside(found)
