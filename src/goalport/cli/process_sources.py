"""Where commands find processes: in the store of the workspace, or at a running server over REST.

Both give a process as the same JSON data. `stored_processes` and `server_client` take a while to load, so only
the one that is needed is imported.
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
JsonObject = dict[str, Any]
"""A process, or an event of one, as JSON data."""
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
    """Whether there are more processes after the last one."""
    none: str = ""
    """The text to show if there are no processes."""


@dataclass(frozen=True)
class OpenQuestion:
    """An open question of a process."""

    question: Mapping[str, Any]
    """The question as JSON data, with `id`, `message` and `schema`."""
    status: Callable[[], Awaitable[str]]
    """Returns the status of the question."""
    answer_or_decline: Callable[[object, str], Awaitable[str]]
    """Answer it, or decline it if the reason is not empty; returns a text. Raises `BadInput` and `AlreadyAnswered`."""
    wait_and_print: Callable[[bool], Awaitable[int]]
    """Wait until its process ends or asks again, and print the result, as JSON if True; returns the exit code."""


class ProcessSource(Protocol):
    """Where processes are."""

    options: str
    """The command-line options that name this source, with a space before them."""
    live: bool
    """Whether `events` follows the events of a process as they happen, until it has ended."""

    async def page(self, statuses: Sequence[str], limit: int, after: str) -> Page:
        """A page of the processes with these statuses, the newest first."""
        ...

    async def view(self, process_id: str) -> JsonObject: ...

    def events(self, process_id: str) -> AsyncIterator[JsonObject]:
        """The events of a process, from its beginning."""
        ...

    def open_question(
        self, process_id: str, question_id: str | None, *, wait: bool
    ) -> AbstractAsyncContextManager[OpenQuestion]:
        """An open question of a process. `wait` says whether `OpenQuestion.wait_and_print` will be called."""
        ...

    async def kill(self, process_id: str, reason: str) -> str:
        """End a process; returns a text that says so."""
        ...


@contextmanager
def runner_here() -> Generator[asyncio.Runner]:
    """A runner for several coroutines on one event loop: the loop of the shell, or a new one for this block."""
    if runner := SHELL_LOOP.get():
        yield runner
    else:
        with asyncio.Runner() as runner:
            yield runner


def run_here(work: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end on the event loop of the shell, or on a new one."""
    with runner_here() as runner:
        return runner.run(work)


async def source_of(server: str | None, folder: Path, process_id: str = "", *, of_all: bool = False) -> ProcessSource:
    """The server at the URL `server`; without one the store of a workspace, or its server if the store is in memory.

    If `process_id` is a process of this shell, it is the shell. With `of_all`, a server lists those of all callers.
    """
    root = workspace_root(folder)
    if server is not None:
        from goalport.cli.server_client import RemoteProcesses

        return RemoteProcesses(server, f" --server {hide(server)}", of_all=of_all)
    from goalport.workspace.settings import load_settings

    settings, place = load_settings(root), "" if folder == Path() else f" --workspace {folder}"
    found: ProcessSource
    if settings.store != "memory":
        from goalport.cli.stored_processes import StoredProcesses

        found = StoredProcesses(settings, place)
    else:
        from goalport.cli.server_client import RemoteProcesses, address_in

        found = RemoteProcesses(address_in(settings.host, settings.port), place, hint=NOTHING_STORED, of_all=of_all)
    if not process_id or SHELL_LOOP.get() is None or folder != Path():
        return found
    from goalport.cli.stored_processes import in_shell

    return await in_shell(process_id, found)
