"""How a server ends: who is waited for, what a second signal means, and what forked processes inherit of it.

The end is graceful and bounded: calls that are open get `shutdown_seconds` to finish, then their processes are killed
and they are answered. `listener` does so over HTTP; over stdio it is done here.
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
"""Seconds in which killed calls are answered and streams take their leave."""
_HURRIED: Final = 130
"""The exit code of a program that was interrupted."""
_WRITING: Final = 0.1
"""Seconds in which the last answer goes from us through the SDK's threads into the pipe."""


def say_who_is_waited_for(open_calls: int, seconds: float) -> None:
    """Tell whoever ended the server why it is not gone yet."""
    if open_calls:
        sys.stderr.write(f"{counted(open_calls, 'call')} may take {seconds:g} s; a second signal ends them now.\n")
        sys.stderr.flush()


def leave_at_once() -> NoReturn:
    """What a second signal means: whoever sends it does not want to wait for anything."""
    sys.stderr.write("Ended at once by a second signal.\n")
    sys.stderr.flush()
    os._exit(_HURRIED)


@contextmanager
def children_end_when_told() -> Generator[None]:
    """The time in which this process is a server: what actions fork meanwhile takes signals as a new program does.

    A child that took signals as its server does would not end when it is told, and by the pipe that wakes the event
    loop, which it shares, the server would hear of the signal and end instead.
    """
    state = True

    def forget() -> None:
        # A hook like this cannot be taken back.
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
    """Detached processes get the time of a shutdown to end, the others were killed with their calls."""
    with anyio.move_on_after(state.settings.shutdown_seconds):
        for process in state.platform.processes:
            await process.rest()
    await state.platform.aclose()


async def stop_on_signal(state: McpState, *, task_status: TaskStatus[None]) -> None:
    """Wait for signals: the first ends the server over stdio as the module says, a second one at once."""
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
    """As over HTTP: calls that are open get their time, then they are ended and answered."""
    say_who_is_waited_for(state.open_calls, state.settings.shutdown_seconds)
    with anyio.move_on_after(state.settings.shutdown_seconds):
        await state.idle()
    await state.platform.aclose()
    with anyio.move_on_after(LAST_WORDS):
        await state.idle()
    await anyio.sleep(_WRITING)
    sys.stderr.flush()
    # A thread waits for the client's next line and cannot be called back; only the process can end it. Then Python does
    # not end what actions have forked, which would keep the pipes to the client open.
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(0)
