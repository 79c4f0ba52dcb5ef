"""Serving one client over stdin and stdout, for hosts that start their servers themselves."""

import multiprocessing
import os
import signal
import sys
from contextlib import AbstractAsyncContextManager
from io import BufferedReader, RawIOBase, StringIO
from types import TracebackType
from typing import Any, BinaryIO, cast

import anyio
import anyio.to_thread
from anyio.abc import TaskStatus
from mcp.server.stdio import stdio_server
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import JSONRPCResponse

from goalport.greeting import Greeting
from goalport.platform import AgentPlatform
from goalport.serve.connections import standard_input
from goalport.serve.forking import children_end_when_told
from goalport.serve.lines import read_lines
from goalport.serve.listening import LAST_WORDS, leave_at_once, say_who_is_waited_for
from goalport.serve.reload import watch
from goalport.serve.report import report_of
from goalport.serve.running import log_to_stderr, tell
from goalport.serve.server import GoalServer, make_server
from goalport.serve.serving import Serving
from goalport.serve.tool_groups import connected
from goalport.settings import Settings
from goalport.workspace import Workspace

__all__ = ["serve_stdio"]

_WRITING = 0.1
"""Seconds in which the last answer goes from us through the SDK's threads into the pipe."""


async def serve_stdio(
    platform: AgentPlatform,
    workspace: Workspace,
    settings: Settings,
    *,
    reload: bool = False,
    greeting: Greeting | None = None,
) -> None:
    """Serve until the client closes stdin, or a signal comes. Everything but the protocol goes to stderr.

    `greeting` has heard what the client said until now, and may have answered the first of it.
    """
    log_to_stderr(settings, platform)
    async with platform:
        await _serve(Serving(platform, workspace, settings), greeting, reload=reload)


async def _serve(serving: Serving, greeting: Greeting | None, *, reload: bool) -> None:
    server, _ = make_server(serving)
    with children_end_when_told():
        async with connected(serving), anyio.create_task_group() as tasks:
            if sys.platform != "win32":
                await tasks.start(_stop_on_signal, serving)
            if reload:
                tasks.start_soon(watch, serving)
            tell(report_of(serving.publication, serving.platform, serving.settings, None))
            earlier = await anyio.to_thread.run_sync(greeting.wait, abandon_on_cancel=True) if greeting else b""
            await _speak(serving, server, earlier, greeting and greeting.answered)
            await _finish(serving)
            tasks.cancel_scope.cancel()


async def _speak(serving: Serving, server: GoalServer, earlier: bytes, answered: int | str | None) -> None:
    """Answer what comes in lines until there are no more. They are read by us, written by the SDK."""
    with standard_input() as source:
        whole = BufferedReader(_Continued(earlier, source))
        async with stdio_server(anyio.wrap_file(StringIO())) as (_, outgoing), anyio.create_task_group() as tasks:
            messages, reading = anyio.create_memory_object_stream[SessionMessage | Exception]()
            tasks.start_soon(read_lines, whole, messages, outgoing, serving.settings.max_body_bytes)
            writing = _Unrepeated(outgoing, answered)
            await server.run(reading, writing, server.create_initialization_options())


class _Continued(RawIOBase):
    """What was read earlier, then what comes."""

    def __init__(self, earlier: bytes, source: BinaryIO) -> None:
        self._earlier = earlier
        self._source = cast("BufferedReader", source)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        if not self._earlier:
            return self._source.readinto1(buffer)
        view = memoryview(buffer)
        given, self._earlier = self._earlier[: len(view)], self._earlier[len(view) :]
        view[: len(given)] = given
        return len(given)


class _Unrepeated(AbstractAsyncContextManager["_Unrepeated"]):
    """What goes out, but for the answer that the client has got already."""

    def __init__(self, outgoing: WriteStream[SessionMessage], answered: int | str | None) -> None:
        self._outgoing = outgoing
        self._answered = answered

    async def send(self, item: SessionMessage, /) -> None:
        if self._answered is not None and isinstance(item.message, JSONRPCResponse):
            answered, self._answered = self._answered, None
            if item.message.id == answered:
                return
        await self._outgoing.send(item)

    async def aclose(self) -> None:
        await self._outgoing.aclose()

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: TracebackType | None,
    ) -> None:
        await self.aclose()


async def _finish(serving: Serving) -> None:
    """Detached processes get the time of a shutdown to end, the others were killed with their calls."""
    with anyio.move_on_after(serving.settings.shutdown_seconds):
        for process in serving.platform.processes:
            await process.rest()
    await serving.platform.aclose()


async def _stop_on_signal(serving: Serving, *, task_status: TaskStatus[None]) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as signals:
        async with anyio.create_task_group() as tasks:
            task_status.started()
            number = 0
            async for _ in signals:
                number += 1
                if number > 1:
                    leave_at_once()
                tasks.start_soon(_take_leave, serving)


async def _take_leave(serving: Serving) -> None:
    """As over HTTP: calls that are open get their time, then they are ended and answered."""
    say_who_is_waited_for(serving)
    with anyio.move_on_after(serving.settings.shutdown_seconds):
        await serving.idle()
    await serving.platform.aclose()
    with anyio.move_on_after(LAST_WORDS):
        await serving.idle()
    await anyio.sleep(_WRITING)
    sys.stderr.flush()
    # A thread waits for the client's next line and cannot be called back; only the process can end it. Then Python does
    # not end what actions have forked, which would keep the pipes to the client open.
    for child in multiprocessing.active_children():
        child.terminate()
    os._exit(0)
