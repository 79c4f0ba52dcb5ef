"""Where processes are looked at and changed: in the store of the workspace, or at a running server over REST.

Both show a process as the same JSON data. `stored` and `served` are loaded when it is known which is wanted, because
each takes a while to load.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, Protocol, TypeVar

from cyclopts import Parameter

from goalport.base.secrecy import hide
from goalport.cli.options import workspace_root
from goalport.cli.terminal import Record

T = TypeVar("T")
View = dict[str, Any]
"""A process as JSON data."""
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


class Page(NamedTuple):
    """A page of a list of processes."""

    lines: Sequence[Record]
    more: bool = False
    """Whether there are more below the last one."""
    none: str = ""
    """What is said if there is none."""


@dataclass(frozen=True)
class Asked:
    """An open question of a process."""

    question: Mapping[str, Any]
    """The question as JSON data, with `id`, `message` and `schema`."""
    status: Callable[[], Awaitable[str]]
    """Says what has become of it."""
    settle: Callable[[object, str], Awaitable[str]]
    """Answer it, or decline it for a reason; what is said of that. Raises `BadInput` and `AlreadyAnswered`."""
    end: Callable[[bool], Awaitable[int]]
    """Wait until its process ends or asks again, and print the result, perhaps structured; the exit code."""


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
        """A process, with what is known of its `events` so far if that is wanted."""
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


@dataclass
class OpenShell:
    """What a shell adds for its commands."""

    runner: asyncio.Runner
    """The event loop on which its processes run."""
    with_processes: Callable[[Source], Source]
    """Adds its own processes to those of a source."""


SHELL: ContextVar[OpenShell | None] = ContextVar("shell", default=None)
"""The shell in which a command runs; None outside of one."""


@contextmanager
def runner_here() -> Generator[asyncio.Runner]:
    """What runs one piece of work after another on the same event loop: that of a shell, or one of its own."""
    if shell := SHELL.get():
        yield shell.runner
    else:
        with asyncio.Runner() as runner:
            yield runner


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end what a command does."""
    with runner_here() as runner:
        return runner.run(work)


def source_of(server: str | None, folder: Path, *, of_all: bool = False) -> Source:
    """The server that was named; without one the store of a workspace, or its server if the store is in memory.

    In a shell, and without a server, its own processes are there too. `of_all`: a server lists those of all callers.
    """
    root, shell = workspace_root(folder), SHELL.get()
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
    return found if shell is None or folder != Path() else shell.with_processes(found)
