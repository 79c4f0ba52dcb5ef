"""A server that runs as a process of ours and speaks on its stdin and stdout.

The SDK's stdio transport reads lines of any length, ends child processes only when the server does not exit by itself,
and waits as long as it likes. This one bounds the length of messages, writes the server's stderr to the log, and ends
the whole process group. On Windows, which has no process groups, the SDK's transport is used. Above: `servers`, which
chooses the transport.
"""

import logging
import re
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from time import monotonic
from typing import TYPE_CHECKING, Any, Final

import anyio
from anyio.abc import AsyncResource, ByteReceiveStream, Process
from anyio.streams.buffered import BufferedByteReceiveStream
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

from goalport.base.secrecy import hide
from goalport.base.words import cleaned
from goalport.tools.upstream.config import ServerConfig
from goalport.tools.upstream.connection import BurstLimit, Transport

if TYPE_CHECKING:
    from mcp.shared.message import SessionMessage

_ENDED: Final = (anyio.EndOfStream, anyio.BrokenResourceError, anyio.ClosedResourceError, OSError)
"""What reading and writing raise when the other end of a pipe, or ours, is closed."""
_POLL: Final = 0.01
"""Seconds between two looks whether a process has ended."""
_LINE: Final = 500
"""Characters of a line that are kept."""
_BURST: Final = 50
"""Lines that are logged in ten seconds; of the others, only how many there were."""
_INVALID_SHOWN: Final = 3
"""Lines that are no messages and are logged in ten seconds."""
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


class StderrLog:
    """Logs a server's stderr under `goalport.upstream.NAME`, and knows the last line of it."""

    def __init__(self, name: str) -> None:
        self.log = logging.getLogger(f"goalport.upstream.{name}")
        self._limit = BurstLimit(_BURST)
        self._dropped = 0
        self._quiet_until = 0.0
        self.last = ""
        """The last line, shortened; of what Node, npm and uv write when they end, the one that says why."""
        self._reason = ""

    async def listen(self, stderr: ByteReceiveStream) -> None:
        """Read to the end: a full pipe would stop the server."""
        rest = b""
        with suppress(*_ENDED):
            async for chunk in stderr:
                *lines, rest = (rest + chunk).split(b"\n")
                # A line without an end is kept only as far as it would be shown.
                rest = rest[: 4 * _LINE]
                for line in lines:
                    self._write(shortened(line))
        self._write(shortened(rest))

    def _write(self, text: str) -> None:
        if not text:
            return
        if _OLD_SDK_WARNING in text:
            self._quiet_until = monotonic() + _OLD_SDK_SECONDS
        elif _RECORD.search(text):
            self._quiet_until = 0.0
        if monotonic() < self._quiet_until:
            self.log.debug("%s", text)
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
            self.log.info("… and %d lines more", self._dropped)
            self._dropped = 0
        self.log.info("%s", text)


def shortened(line: bytes) -> str:
    """A line as it can be shown: without secrets and control characters, and cut where it is too long."""
    return cleaned(hide(line.decode(errors="replace")[: 4 * _LINE].strip()), _LINE)


class StdioTransport(Transport):
    """The transport to one stdio server; each `open` starts a process, and ends it with all that it started."""

    def __init__(self, config: ServerConfig) -> None:
        self._config = config
        self._stderr = StderrLog(config.name)
        self._invalid = BurstLimit(_INVALID_SHOWN)
        self._why = ""

    def last_error(self) -> str:
        return self._why

    def stderr_tail(self) -> str:
        return f"its stderr ends with {self._stderr.last!r}" if self._stderr.last else ""

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[Any]:
        from mcp.client.stdio import StdioServerParameters, get_default_environment, stdio_client

        config, self._why = self._config, ""
        if sys.platform == "win32":
            parameters = StdioServerParameters(
                command=config.command, args=[*config.args], env=dict(config.env), cwd=config.cwd
            )
            async with stdio_client(parameters) as streams:
                yield streams
            return
        process = await anyio.open_process(
            [config.command, *config.args],
            env=get_default_environment() | dict(config.env),
            cwd=config.cwd,
            start_new_session=True,
        )
        assert process.stdout is not None
        assert process.stderr is not None
        to_session, from_server = anyio.create_memory_object_stream["SessionMessage | Exception"](0)
        to_server, from_session = anyio.create_memory_object_stream["SessionMessage"](0)
        with to_session, from_server, to_server, from_session:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._read, process.stdout, to_session)
                tasks.start_soon(self._write, process, from_session, to_session)
                tasks.start_soon(self._stderr.listen, process.stderr)
                try:
                    yield from_server, to_server
                finally:
                    why = self._why
                    with anyio.CancelScope(shield=True):
                        from_server.close()
                        await _end(process, config.shutdown_timeout)
                    tasks.cancel_scope.cancel()
                    # What came since is our own doing.
                    self._why = why

    async def _read(
        self, stdout: ByteReceiveStream, to_session: "MemoryObjectSendStream[SessionMessage | Exception]"
    ) -> None:
        """Forward messages until there are no more. Whatever the session does, the pipe is read to its end."""
        from mcp.shared.message import SessionMessage
        from mcp_types import jsonrpc_message_adapter

        limit = self._config.max_message_bytes
        too_long = f"it wrote a message of more than {limit:,} bytes"
        lines = BufferedByteReceiveStream(stdout)
        async with to_session:
            try:
                while len(line := await lines.receive_until(b"\n", limit)) <= limit:
                    try:
                        message = jsonrpc_message_adapter.validate_json(line, by_name=False)
                    except ValueError as error:
                        if line.strip() and self._invalid.allows():
                            self._stderr.log.warning("this on its stdout is no message: %r", shortened(line))
                        # Not left out here, as the session bounds how many there may be.
                        await to_session.send(error)
                        continue
                    await to_session.send(SessionMessage(message))
                self._why = too_long
            except anyio.DelimiterNotFound:
                self._why = too_long
            except anyio.IncompleteRead:
                self._why = self._why or "its process closed its stdout"
            except _ENDED:
                pass
        with suppress(*_ENDED):
            while True:
                await stdout.receive()

    async def _write(
        self,
        process: Process,
        from_session: "MemoryObjectReceiveStream[SessionMessage]",
        to_session: "MemoryObjectSendStream[SessionMessage | Exception]",
    ) -> None:
        assert process.stdin is not None
        try:
            async for each in from_session:
                line = each.message.model_dump_json(by_alias=True, exclude_unset=True)
                await process.stdin.send(f"{line}\n".encode())
        except _ENDED:
            self._why = self._why or "its process does not read its stdin any more"
            to_session.close()


async def _end(process: Process, seconds: float) -> None:
    """Close its stdin, wait these seconds for its exit, then end what is left of its group. Every wait is bounded."""
    from mcp.os.posix.utilities import terminate_posix_process_tree

    await _close(process.stdin)
    await _wait_for_exit(process, seconds)
    # The group, even when the server itself has gone: what it started may still run.
    await terminate_posix_process_tree(process, seconds)
    await _wait_for_exit(process, seconds)
    await _close(process.stdout)
    await _close(process.stderr)
    # A surviving process may hold the other ends of the pipes, and nothing public leads to ours.
    transport: Any = getattr(getattr(process, "_process", None), "_transport", None)
    if transport is not None:
        with suppress(PermissionError):
            transport.close()


async def _wait_for_exit(process: Process, seconds: float) -> None:
    # Not `wait`: it waits for the pipes too, which a child of the server may hold.
    with anyio.move_on_after(seconds):
        while process.returncode is None:  # noqa: ASYNC110 - nothing tells of the exit alone
            await anyio.sleep(_POLL)


async def _close(stream: AsyncResource | None) -> None:
    if stream is not None:
        with suppress(*_ENDED):
            await stream.aclose()
