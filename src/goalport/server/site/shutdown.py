"""How a server shuts down: which calls it waits for, what a second signal does, and which signals children get.

The shutdown is graceful and bounded: open calls get `shutdown_seconds` to finish, then their processes are killed and
the calls are answered. `listener` begins it over HTTP, this module over stdio.
"""

import asyncio
import multiprocessing
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Generator
from contextlib import contextmanager
from typing import Final, NoReturn

import anyio
import anyio.lowlevel
from anyio.abc import TaskStatus
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.observe import tell
from goalport.base.words import counted
from goalport.server.auth.guard import GONE, receive_until, route_path
from goalport.server.doors.mcp.door import SSE_PATH
from goalport.server.publish.publisher import Publisher
from goalport.server.workers import reload_signals

ANSWER_SECONDS: Final = 2.0
"""Seconds in which the calls of killed processes are answered and streams are closed."""
_INTERRUPTED: Final = 130
"""The exit code of a program that SIGINT ended."""
_CLOSE_SECONDS: Final = 15.0
"""The most seconds in which processes are killed and connections are closed, before the program ends anyway."""
_EVENTS: Final = b"text/event-stream"
_WRITE_SECONDS: Final = 0.1
"""Seconds in which the SDK's threads write the last answer to stdout."""


class EndedStreams:
    """ASGI middleware that ends streams of events when the server shuts down, which is when `closing` is set.

    One that a client has opened by GET then ends as if the client had left, unless answers of calls come on it, as on
    `/sse`. Any whose app returns in its midst is completed.
    """

    def __init__(self, app: ASGIApp, closing: asyncio.Event) -> None:
        self._app = app
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        streams = False
        ends_early = scope["type"] == "http" and scope["method"] == "GET" and route_path(scope) != SSE_PATH

        async def watched_send(message: Message) -> None:
            nonlocal streams
            if message["type"] == "http.response.start":
                streams = any(value.startswith(_EVENTS) for _, value in message.get("headers", ()))
            elif not message.get("more_body"):
                streams = False
            await send(message)

        async def receive_or_end() -> Message:
            message = await receive_until(self._closing, receive)
            return message or (GONE if streams else await receive())

        await self._app(scope, receive_or_end if ends_early else receive, watched_send)
        if streams:
            await send({"type": "http.response.body"})


async def drain(
    publisher: Publisher,
    close: Callable[[], Awaitable[None]],
    answered: Callable[[], Awaitable[None]] = anyio.lowlevel.checkpoint,
) -> None:
    """Wait at most `shutdown_seconds` for open calls, then `close`, which kills processes, and await the last answers.

    `answered` waits for requests of which it is not known yet that they are calls. Says on stderr how many calls it
    waits for.
    """
    calls, seconds = publisher.calls, publisher.settings.shutdown_seconds
    if calls.number:
        tell(f"{counted(calls.number, 'call')} may take {seconds:g} s; a second signal ends them now.")
    with anyio.move_on_after(seconds):
        await calls.ended()
        await answered()
        await calls.ended()  # those that such requests have begun and whose answers have
    await close()
    with anyio.move_on_after(ANSWER_SECONDS):
        await calls.ended()


def exit_at_once() -> NoReturn:
    """Exit at once with code 130, as a second signal asks for."""
    line = "Ended at once by a second signal."
    try:
        tell(line)
    except RuntimeError:  # Python refuses to write if the signal came while a line was being written
        os.write(2, f"{line}\n".encode())
    finally:
        os._exit(_INTERRUPTED)


@contextmanager
def default_signals_in_children() -> Generator[None]:
    """A context in which a signal ends the processes that actions fork, as it ends any program.

    A child with the server's handlers would not end at a signal. It would also write to the wakeup pipe of the event
    loop, which it shares with the server, and the server would shut down instead.
    """
    active = True

    def restore() -> None:
        # Python cannot unregister a fork hook, so it does nothing after the context.
        if active:
            signal.set_wakeup_fd(-1)
            # Not `default_int_handler`: since Python 3.13 a child that is forked in a thread calls handlers only if the
            # signal interrupts a call of the system, so one that calculates would go on.
            for each in (signal.SIGTERM, signal.SIGINT, *reload_signals()):
                signal.signal(each, signal.SIG_DFL)

    if sys.platform != "win32":
        os.register_at_fork(after_in_child=restore)
    try:
        yield
    finally:
        active = False


async def finish(publisher: Publisher) -> None:
    """Wait at most `shutdown_seconds` for processes that still run, which are detached ones, and close the platform."""
    with anyio.move_on_after(publisher.settings.shutdown_seconds):
        for process in publisher.platform.processes.running:
            await process.rest()
    await publisher.platform.aclose()


async def stop_on_signal(publisher: Publisher, *, task_status: TaskStatus[None]) -> None:
    """Wait for signals: the first shuts the stdio server down gracefully, a second one ends it at once."""

    async def drain_and_exit() -> None:
        try:
            with anyio.move_on_after(publisher.settings.shutdown_seconds + _CLOSE_SECONDS):
                await drain(publisher, publisher.platform.aclose)
                await anyio.sleep(_WRITE_SECONDS)
        finally:
            sys.stderr.flush()
            # A thread that reads stdin cannot be cancelled, so only `os._exit` ends it, whatever went wrong before.
            # That skips Python's cleanup of child processes, which would keep the pipes to the client open.
            for child in multiprocessing.active_children():
                child.terminate()
            os._exit(0)

    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            await anext(signals)
            tasks.start_soon(drain_and_exit)
            await anext(signals)
            exit_at_once()
