"""A server that runs as a process of ours and speaks on its stdin and stdout.

The SDK's own transport of this kind knows no limits: a line without an end fills the memory, and what the server
started besides outlives a server that leaves politely. This one bounds what it reads, keeps what is no message from the
session, writes the server's stderr to the log, and ends the whole process group. On Windows, where there are no
process groups, the SDK's transport is used. Above: `hub`, which chooses the transport.
"""

import logging
import re
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import AsyncResource, ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from goalport.upstream.config import ServerConfig
from goalport.upstream.watchdog import Watchdog
from goalport.words import cleaned

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["LineSplitter", "StderrLog", "StdioTransport", "WindowsStdioTransport"]

_log = logging.getLogger(__name__)
_INVALID_LIMIT = 1_000
"""Lines in a row that are no messages, until the server is given up."""
_INVALID_SHOWN = 3
_POLL = 0.01
_CHUNK = 65_536


class LineSplitter:
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


class StdioTransport:
    """How one stdio server is reached; each `open` starts a process."""

    def __init__(self, config: ServerConfig, watchdog: Watchdog, hide: Callable[[str], str]) -> None:
        self._config = config
        self._watchdog = watchdog
        self._stderr = StderrLog(config.name, hide)
        self._why = ""

    def last_error(self) -> str:
        """Why the connection ended; empty: nothing is known."""
        return self._why

    def stderr_tail(self) -> str:
        return f"its stderr ends with {self._stderr.last!r}" if self._stderr.last else ""

    def session_expired(self) -> bool:
        return False

    def is_unanswered(self, request_id: object) -> bool:
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
                tasks.start_soon(self._stderr.listen, process.stderr)
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
                await self._forward(process.stdout, to_session)
            except ValueError as error:
                self._why = str(error)
            except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
                pass
        with suppress(anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            while True:
                await process.stdout.receive(_CHUNK)

    async def _forward(self, stdout: ByteReceiveStream, to_session: "MemoryObjectSendStream[SessionMessage]") -> None:
        lines = LineSplitter(self._config.max_message_bytes)
        invalid = 0
        async for chunk in stdout:
            for line in lines.feed(chunk):
                message = _message(line)
                if message is not None:
                    invalid = 0
                    await to_session.send(message)
                elif line.strip():
                    invalid += 1
                    self._note_invalid(line, invalid)
        self._why = self._why or "its process closed its stdout"

    def _note_invalid(self, line: bytes, number: int) -> None:
        shown = self._stderr.shortened(line.decode(errors="replace"))
        if number <= _INVALID_SHOWN:
            _log.warning("%s: this on its stdout is no message: %r", self._config.name, shown)
        if number > _INVALID_LIMIT:
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


class WindowsStdioTransport:
    """A stdio server where process groups are job objects, which the SDK's transport ends."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config

    def last_error(self) -> str:
        return ""

    def stderr_tail(self) -> str:
        return ""

    def session_expired(self) -> bool:
        return False

    def is_unanswered(self, request_id: object) -> bool:
        return False

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        from mcp.client.stdio import StdioServerParameters, stdio_client

        config = self._config
        parameters = StdioServerParameters(
            command=config.command, args=list(config.args), env=dict(config.env), cwd=config.cwd
        )
        async with stdio_client(parameters) as streams:
            yield streams


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


_LINE: Final = 500
"""Characters of a line that are kept."""
_BURST: Final = 50
"""Lines that are logged in one period; of the others, how many there were."""
_PERIOD: Final = 10.0
"""Seconds."""
_OLD_SDK_WARNING: Final = "Failed to validate request"
"""So servers made with older SDKs begin to say, in some forty lines, that they do not know the newest way to begin."""
_RECORD: Final = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
"""What a line of a log has in it that begins a record."""
_OLD_SDK_SECONDS: Final = 1.0
"""Seconds in which such lines come."""


class StderrLog:
    """Logs a server's stderr under `goalport.upstream.NAME`, and knows the last line of it."""

    def __init__(self, name: str, hide: Callable[[str], str]) -> None:
        self._log = logging.getLogger(f"goalport.upstream.{name}")
        self._hide = hide
        self._since = 0.0
        self._logged = 0
        self._dropped = 0
        self._warned_at = -_OLD_SDK_SECONDS
        self.last = ""

    def shortened(self, text: str) -> str:
        """One line that can be shown: nothing secret, no control characters, not too long."""
        return cleaned(self._hide(text[: 4 * _LINE].strip()), _LINE)

    async def listen(self, stderr: ByteReceiveStream | None) -> None:
        """Read to the end: a full pipe would stop the server."""
        if stderr is None:
            return
        rest = b""
        try:
            async for chunk in stderr:
                *lines, rest = (rest + chunk).split(b"\n")
                # A line without an end is kept only as far as it would be shown.
                rest = rest[: 4 * _LINE]
                for line in lines:
                    self._write(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        self._write(rest)

    def _write(self, line: bytes) -> None:
        text = self.shortened(line.decode(errors="replace"))
        if not text:
            return
        if self._is_old_sdk_warning(text):
            self._log.debug("%s", text)
            return
        self.last = text
        if monotonic() - self._since > _PERIOD:
            if self._dropped:
                self._log.info("… and %d lines more", self._dropped)
            self._since, self._logged, self._dropped = monotonic(), 0, 0
        if self._logged < _BURST:
            self._logged += 1
            self._log.info("%s", text)
        else:
            self._dropped += 1

    def _is_old_sdk_warning(self, text: str) -> bool:
        """Whether a line belongs to what an older server says of being asked in the newest way first."""
        if _OLD_SDK_WARNING in text:
            self._warned_at = monotonic()
        elif _RECORD.search(text):
            self._warned_at = -_OLD_SDK_SECONDS
        return monotonic() - self._warned_at < _OLD_SDK_SECONDS
