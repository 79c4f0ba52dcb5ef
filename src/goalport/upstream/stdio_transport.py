"""A server that runs as a process of ours and speaks on its stdin and stdout.

The SDK's stdio transport has no limits: a line without an end fills the memory, and child processes of a server that
exits by itself stay alive. This one bounds the length of messages, keeps lines that are no message from the session,
writes the server's stderr to the log, and ends the whole process group. On Windows, which has no process groups, the
SDK's transport is used. A watchdog ends the process groups when goalport itself is killed and cannot do it: a shell
that reads their ids from a pipe, which closes when goalport ends. Above: `servers`, which chooses the transport.
"""

import logging
import os
import re
import subprocess
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import AsyncResource, ByteReceiveStream, Process
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from goalport.secrecy import hide
from goalport.upstream.config import ServerConfig
from goalport.upstream.inflow import BurstLimit
from goalport.words import cleaned

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

__all__ = ["LineSplitter", "StderrLog", "StdioTransport", "Watchdog", "WindowsStdioTransport"]

_SCRIPT = """
groups=
while read -r what group; do
  case $what in
    +) groups="$groups $group" ;;
    -) kept=
       for each in $groups; do [ "$each" = "$group" ] || kept="$kept $each"; done
       groups=$kept ;;
  esac
done
[ -n "$groups" ] || exit 0
for each in $groups; do kill -s TERM -- "-$each"; done
sleep 2
for each in $groups; do kill -s KILL -- "-$each"; done
"""
_log = logging.getLogger(__name__)
_INVALID_LIMIT = 1_000
"""Lines in a row that are no messages, until the connection ends."""
_INVALID_SHOWN = 3
"""Of these, the lines that are logged."""
_POLL = 0.01
"""Seconds between two looks whether a process has ended."""
_CHUNK = 65_536
_LINE: Final = 500
"""Characters of a line that are kept."""
_BURST: Final = 50
"""Lines that are logged in ten seconds; of the others, only how many there were."""
_OLD_SDK_WARNING: Final = "Failed to validate request"
"""Servers with older SDKs write some forty lines that begin so when they are asked in the newest revision first."""
_RECORD: Final = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
"""What the first line of a record of a log has in it."""
_OLD_SDK_SECONDS: Final = 1.0
"""Seconds in which those lines come."""
_REASON: Final = re.compile(r"\w*Error\b.*: |(?:error|cause): |npm (?:error|ERR!) (?!code )\w")
"""A line in which Node, npm or uv says why it ends; npm says it in the first of several."""
_FAREWELL: Final = re.compile(r"Node\.js v\d|npm (?:error|ERR!) A complete log|hint: ")
"""The last line of Node, npm or uv."""


class Watchdog:
    """The process groups that end with this process. The shell starts with the first one."""

    def __init__(self) -> None:
        self._shell: subprocess.Popen[bytes] | None = None

    def watch(self, group: int) -> None:
        """End this process group when this process ends. It has the id of its first process."""
        if self._shell is None:
            # Where there is no shell, servers have to notice for themselves that nobody is there any more.
            with suppress(OSError):
                self._shell = subprocess.Popen(  # noqa: S603 - a script of ours, with nothing of others in it
                    ["/bin/sh", "-c", _SCRIPT],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    # Out of reach of what ends this process's own group, such as Ctrl-C in a terminal.
                    start_new_session=True,
                )
        self._send(f"+ {group}\n")

    def forget(self, group: int) -> None:
        """Leave this process group alone: it has ended."""
        self._send(f"- {group}\n")

    def close(self) -> None:
        """End the shell; every group has been forgotten by now."""
        if self._shell is None:
            return
        if self._shell.stdin is not None:
            self._shell.stdin.close()
        self._shell.wait(timeout=5)
        self._shell = None

    def _send(self, line: str) -> None:
        # A shell that somebody ended must not take the servers' connections with it.
        with suppress(OSError):
            if self._shell is not None and self._shell.stdin is not None:
                os.write(self._shell.stdin.fileno(), line.encode())


class LineSplitter:
    """Cuts bytes into lines of at most `limit` bytes."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._parts: list[bytes] = []
        self._length = 0

    def feed(self, chunk: bytes) -> Iterator[bytes]:
        """The lines that this chunk completes. Raises `ValueError` for a line that is too long."""
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


class StderrLog:
    """Logs a server's stderr under `goalport.upstream.NAME`, and knows the last line of it."""

    def __init__(self, name: str) -> None:
        self._log = logging.getLogger(f"goalport.upstream.{name}")
        self._limit = BurstLimit(_BURST)
        self._dropped = 0
        self._warned_at = -_OLD_SDK_SECONDS
        self.last = ""
        """The last line, shortened; of what Node, npm and uv write when they end, the one that says why."""
        self._reason = ""

    def shortened(self, text: str) -> str:
        """A line as it can be shown: without secrets and control characters, and cut where it is too long."""
        return cleaned(hide(text[: 4 * _LINE].strip()), _LINE)

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
        if _FAREWELL.match(text):
            self.last, self._reason = self._reason or text, ""
        else:
            self.last = text
            if _REASON.match(text) and not (text.startswith("npm") and self._reason.startswith("npm")):
                self._reason = text
        if not self._limit.allows():
            self._dropped += 1
            return
        if self._dropped:
            self._log.info("… and %d lines more", self._dropped)
            self._dropped = 0
        self._log.info("%s", text)

    def _is_old_sdk_warning(self, text: str) -> bool:
        """Whether a line belongs to the warning of an older SDK about the newest revision."""
        if _OLD_SDK_WARNING in text:
            self._warned_at = monotonic()
        elif _RECORD.search(text):
            self._warned_at = -_OLD_SDK_SECONDS
        return monotonic() - self._warned_at < _OLD_SDK_SECONDS


class StdioTransport:
    """The transport to one stdio server; each `open` starts a process, and ends it with all that it started."""

    def __init__(self, config: ServerConfig, watchdog: Watchdog) -> None:
        self._config = config
        self._watchdog = watchdog
        self._stderr = StderrLog(config.name)
        self._why = ""
        self._ending = False
        """Whether it was us who ended the process."""

    def last_error(self) -> str:
        """Why the connection ended; empty: it is not known."""
        return self._why

    def stderr_tail(self) -> str:
        return f"its stderr ends with {self._stderr.last!r}" if self._stderr.last else ""

    def session_expired(self) -> bool:
        return False

    def is_unanswered(self, request_id: object) -> bool:
        return False

    def retry_after(self) -> float:
        return 0.0

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        self._why, self._ending = "", False
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
                    self._ending = True
                    with anyio.CancelScope(shield=True):
                        from_server.close()
                        await _end_process(process, self._config.shutdown_timeout)
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
        """Forward messages until there are no more. Whatever the session does, the pipe is read to its end."""
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
        if not self._ending:
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
            if not self._ending:
                self._why = self._why or "its process does not read its stdin any more"
            to_session.close()


class WindowsStdioTransport:
    """The transport to a stdio server on Windows: the SDK's, which ends child processes by a job object."""

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

    def retry_after(self) -> float:
        return 0.0

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


async def _end_process(process: Process, seconds: float) -> None:
    """Close its stdin, wait these seconds for its exit, then end what is left of its group. Every wait is bounded."""
    from mcp.os.posix.utilities import terminate_posix_process_tree

    await _close(process.stdin)
    await _wait_for_exit(process, seconds)
    # The group, even when the server itself has gone: what it started may still run.
    await terminate_posix_process_tree(process, seconds)
    if not await _wait_for_exit(process, seconds):
        _log.warning("Process %d does not end; it is left alone", process.pid)
    await _close(process.stdout)
    await _close(process.stderr)
    # A surviving process may hold the other ends of the pipes, and nothing public leads to ours.
    transport: Any = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


async def _wait_for_exit(process: Process, seconds: float) -> bool:
    # Not `wait`: it waits for the pipes too, which a child of the server may hold.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - nothing tells of the exit alone
            await anyio.sleep(_POLL)
    return process.returncode is not None


async def _close(stream: AsyncResource | None) -> None:
    if stream is not None:
        with suppress(OSError, anyio.BrokenResourceError, anyio.ClosedResourceError):
            await stream.aclose()
