"""How a server shuts down: which calls it waits for, what a second signal does, and which signals children get.

The shutdown is graceful and bounded: open calls get `shutdown_seconds` to finish, then their processes are killed and
the calls are answered. `listener` does so over HTTP; this module does it over stdio.
"""

import multiprocessing
import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final, NoReturn

import anyio
from anyio.abc import TaskStatus

from goalport.serve.state import McpState
from goalport.words import counted

__all__ = [
    "LAST_WORDS",
    "children_end_when_told",
    "finish",
    "leave_at_once",
    "say_who_is_waited_for",
    "stop_on_signal",
]

LAST_WORDS: Final = 2.0
"""Seconds in which the calls of killed processes are answered and streams are closed."""
_HURRIED: Final = 130
"""The exit code of a program that SIGINT ended."""
_WRITING: Final = 0.1
"""Seconds in which the SDK's threads write the last answer to stdout."""


def say_who_is_waited_for(open_calls: int, seconds: float) -> None:
    """Write to stderr how many calls the shutdown waits for, and for how many seconds."""
    if open_calls:
        sys.stderr.write(f"{counted(open_calls, 'call')} may take {seconds:g} s; a second signal ends them now.\n")
        sys.stderr.flush()


def leave_at_once() -> NoReturn:
    """Exit at once with code 130, as a second signal asks for."""
    sys.stderr.write("Ended at once by a second signal.\n")
    sys.stderr.flush()
    os._exit(_HURRIED)


@contextmanager
def children_end_when_told() -> Generator[None]:
    """A context in which processes forked by actions get the default signal handlers.

    A child with the server's handlers would not end at a signal. It would also write to the wakeup pipe of the event
    loop, which it shares with the server, and the server would shut down instead.
    """
    state = True

    def forget() -> None:
        # Python cannot unregister a fork hook, so it does nothing after the context.
        if state:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    if sys.platform != "win32":
        os.register_at_fork(after_in_child=forget)
    try:
        yield
    finally:
        state = False


async def finish(state: McpState) -> None:
    """Wait at most `shutdown_seconds` for processes that still run, which are detached ones, and close the platform."""
    with anyio.move_on_after(state.settings.shutdown_seconds):
        for process in state.platform.processes:
            await process.rest()
    await state.platform.aclose()


async def stop_on_signal(state: McpState, *, task_status: TaskStatus[None]) -> None:
    """Wait for signals: the first shuts the stdio server down gracefully, a second one ends it at once."""
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            number = 0
            async for _ in signals:
                number += 1
                if number > 1:
                    leave_at_once()
                tasks.start_soon(_take_leave, state)


async def _take_leave(state: McpState) -> None:
    """Wait for open calls, kill the processes of those that remain, answer these calls, and exit."""
    say_who_is_waited_for(state.open_calls, state.settings.shutdown_seconds)
    with anyio.move_on_after(state.settings.shutdown_seconds):
        await state.idle()
    await state.platform.aclose()
    with anyio.move_on_after(LAST_WORDS):
        await state.idle()
    await anyio.sleep(_WRITING)
    sys.stderr.flush()
    # A thread that reads stdin cannot be cancelled, so only `os._exit` ends it. That skips Python's cleanup of child
    # processes, which would keep the pipes to the client open.
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(0)
