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
SHELL_LOOP: ContextVar[asyncio.Runner | None] = ContextVar("shell_loop", default=None)
"""The event loop of the shell in which a command runs; None outside of one."""


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

    options: str
    """The options that name it again in another command, with a space before them."""
    live: bool
    """Whether `events` follows them as they happen, until the process has ended."""

    async def page(self, statuses: Sequence[str], limit: int, after: str) -> Page:
        """A page of the processes with these statuses, the newest first."""
        ...

    async def view(self, process_id: str) -> View: ...

    def events(self, process_id: str) -> AsyncIterator[View]:
        """What has happened in a process, from its beginning."""
        ...

    def asked(self, process_id: str, question_id: str | None, *, wait: bool) -> AbstractAsyncContextManager[Asked]:
        """A question of a process; `wait`: `Asked.end` is wanted."""
        ...

    async def kill(self, process_id: str, reason: str) -> str:
        """End a process; what is said of that."""
        ...


@contextmanager
def runner_here() -> Generator[asyncio.Runner]:
    """What runs one piece of work after another on the same event loop: that of a shell, or one of its own."""
    if runner := SHELL_LOOP.get():
        yield runner
    else:
        with asyncio.Runner() as runner:
            yield runner


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run to the end what a command does."""
    with runner_here() as runner:
        return runner.run(work)


async def source_of(server: str | None, folder: Path, process_id: str = "", *, of_all: bool = False) -> Source:
    """The server that was named; without one the store of a workspace, or its server if the store is in memory.

    A process of the shell in which this runs is there. `of_all`: a server lists the processes of all callers.
    """
    root = workspace_root(folder)
    if server is not None:
        from goalport.cli.served import ServedProcesses

        return ServedProcesses(server, f" --server {hide(server)}", of_all=of_all)
    from goalport.workspace.settings import load_settings

    settings, place = load_settings(root), "" if folder == Path() else f" --workspace {folder}"
    found: Source
    if settings.store != "memory":
        from goalport.cli.stored import StoredProcesses

        found = StoredProcesses(settings, place)
    else:
        from goalport.cli.served import ServedProcesses, address_in

        found = ServedProcesses(address_in(settings.host, settings.port), place, hint=NOTHING_STORED, of_all=of_all)
    if not process_id or SHELL_LOOP.get() is None or folder != Path():
        return found
    from goalport.cli.stored import in_shell

    return await in_shell(process_id, found)
