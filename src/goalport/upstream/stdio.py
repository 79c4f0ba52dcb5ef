"""A server that runs as a process of ours and speaks on its stdin and stdout.

The SDK's own transport of this kind knows no limits: a line without an end fills the memory, and what the server
started besides outlives a server that leaves politely. This one bounds what it reads, keeps what is no message from the
session, writes the server's stderr to the log, and ends the whole process group. On Windows, where there are no
process groups, `targets` uses the SDK's.
"""

import logging
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any

import anyio
from anyio.abc import AsyncResource, ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from goalport.upstream.config import ServerConfig
from goalport.upstream.saying import Saying
from goalport.upstream.watchdog import Watchdog

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["Lines", "StdioTarget"]

_log = logging.getLogger(__name__)
_RUBBISH_LIMIT = 1_000
"""Lines in a row that are no messages, until the server is given up."""
_RUBBISH_SHOWN = 3
_POLL = 0.01
_CHUNK = 65_536


class Lines:
    """Cuts bytes into lines. A line that would become longer than the limit raises `ValueError`."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk ends."""
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            self._keep(end)
            line = b"".join(self._parts)
            self._parts, self._length = [], 0
            yield line
        if rest:
            self._keep(rest)

    def _keep(self, part: bytes) -> None:
        self._length += len(part)
        if self._length > self._limit:
            raise ValueError(f"it wrote a message of more than {self._limit:,} bytes")
        self._parts.append(part)


class StdioTarget:
    """How one stdio server is reached; each `open` starts a process."""

    def __init__(self, config: ServerConfig, watchdog: Watchdog, hide: Callable[[str], str]) -> None:
        self._config = config
        self._watchdog = watchdog
        self._saying = Saying(config.name, hide)
        self._why = ""

    def because(self) -> str:
        """Why the connection ended; empty: nothing is known."""
        return self._why

    def last_words(self) -> str:
        return f"its stderr ends with {self._saying.last!r}" if self._saying.last else ""

    def forgot_us(self) -> bool:
        return False

    def gave_up(self, request_id: object) -> bool:
        return False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        self._why = ""
        process = await self._start()
        to_session, from_server = anyio.create_memory_object_stream["SessionMessage"](0)
        to_server, from_session = anyio.create_memory_object_stream["SessionMessage"](0)
        with to_session, from_server, to_server, from_session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process, to_session)
                tasks.start_soon(self._write, process, from_session, to_session)
                tasks.start_soon(self._saying.listen, process.stderr)
                try:
                    yield from_server, to_server
                finally:
                    with anyio.CancelScope(shield=True):
                        from_server.close()
                        await _end(process, self._config.shutdown_timeout)
                        self._watchdog.forget(process.pid)
                    tasks.cancel_scope.cancel()

    async def _start(self) -> Process:
        from mcp.client.stdio import get_default_environment

        config = self._config
        process = await anyio.open_process(
            [config.command, *config.args],
            env=get_default_environment() | dict(config.env),
            cwd=config.cwd,
            start_new_session=True,
        )
        self._watchdog.watch(process.pid)
        return process

    async def _read(self, process: Process, to_session: "MemoryObjectSendStream[SessionMessage]") -> None:
        """Hand on messages until there are no more. Whatever the session does, the pipe is read to its end."""
        assert process.stdout is not None
        async with to_session:
            try:
                await self._hand_on(process.stdout, to_session)
            except ValueError as error:
                self._why = str(error)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                pass
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while True:
                await process.stdout.receive(_CHUNK)

    async def _hand_on(self, stdout: ByteReceiveStream, to_session: "MemoryObjectSendStream[SessionMessage]") -> None:
        lines = Lines(self._config.max_message_bytes)
        rubbish = 0
        async for chunk in stdout:
            for line in lines.feed(chunk):
                message = _message(line)
                if message is not None:
                    rubbish = 0
                    await to_session.send(message)
                elif line.strip():
                    rubbish += 1
                    self._note_rubbish(line, rubbish)
        self._why = self._why or "its process closed its stdout"

    def _note_rubbish(self, line: bytes, number: int) -> None:
        shown = self._saying.shortened(line.decode(errors="replace"))
        if number <= _RUBBISH_SHOWN:
            _log.warning("%s: this on its stdout is no message: %r", self._config.name, shown)
        if number > _RUBBISH_LIMIT:
            # Not which: callers read this too, and what a server wrote is for the log.
            raise ValueError("it writes what is no message to its stdout")

    async def _write(
        self,
        process: Process,
        from_session: "MemoryObjectReceiveStream[SessionMessage]",
        to_session: "MemoryObjectSendStream[SessionMessage]",
    ) -> None:
        assert process.stdin is not None
        try:
            async for each in from_session:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{line}\n".encode())
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            self._why = self._why or "its process does not read its stdin any more"
            to_session.close()


def _message(line: bytes) -> "SessionMessage | None":
    from mcp.shared.message import SessionMessage
    from mcp_types import jsonrpc_message_adapter

    try:
        return SessionMessage(jsonrpc_message_adapter.validate_json(line, by_name=False))
    except ValueError:
        return None


async def _end(process: Process, seconds: float) -> None:
    """Close its stdin, give it time, and end what is left of its group; every wait is bounded."""
    from mcp.os.posix.utilities import terminate_posix_process_tree

    await _close(process.stdin)
    await _exit(process, seconds)
    # The group, even when the server itself has gone: what it started may still run.
    await terminate_posix_process_tree(process, seconds)
    if not await _exit(process, seconds):
        _log.warning("Process %d does not end; it is left alone", process.pid)
    await _close(process.stdout)
    await _close(process.stderr)
    _close_transport(process)


async def _exit(process: Process, seconds: float) -> bool:
    # Not `wait`: it waits for the pipes too, which a child of the server may hold.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - nothing tells of the exit alone
            await anyio.sleep(_POLL)
    return process.returncode is not None


async def _close(stream: AsyncResource | None) -> None:
    if stream is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await stream.aclose()


def _close_transport(process: Process) -> None:
    """Let go of the pipes even when a survivor holds their other ends; nothing public leads there."""
    transport: Any = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()
