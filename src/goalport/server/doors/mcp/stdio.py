"""The stdio transport: one client, one message in each line of stdin and stdout, lines of limited length.

This module reads the lines, and the SDK writes them. The SDK would ignore lines that are not valid messages, and buffer
lines of any length; here such lines are answered with an error. Empty lines are ignored.
`jsonrpc` says which messages are valid; `site` starts the transport and ends it.
"""

import re
import sys
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from io import BufferedReader, RawIOBase, StringIO
from typing import Any, BinaryIO, Final, cast

import anyio
from anyio import to_thread
from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import (
    _claim_fd,  # pyright: ignore[reportPrivateUsage] - see `Stdio.serve`
    _open_stdin_diversion,  # pyright: ignore[reportPrivateUsage]
    stdio_server,
)
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, JSONRPCResponse, jsonrpc_message_adapter

from goalport.base.handshake import EarlyHandshake
from goalport.server.auth import Access
from goalport.server.doors.mcp.jsonrpc import read_message, refusal
from goalport.server.doors.mcp.server import make_server
from goalport.server.doors.mcp.state import McpState
from goalport.server.publish.publisher import Publisher

_ID: Final = re.compile(rb'"id"\s*:\s*(?:([0-9]{1,15})|"([^"\\]{1,100})")')
"""Finds what seems to be the id in a line that cannot be parsed."""
_CHUNK: Final = 65_536


class Stdio:
    """An MCP server whose only client is the one on stdin and stdout."""

    def __init__(self, publisher: Publisher, access: Access | None = None) -> None:
        self._most = publisher.settings.max_body_bytes
        self._server, _ = make_server(McpState(publisher, access))

    async def serve(self, handshake: EarlyHandshake | None = None) -> None:
        """Answer the messages on stdin until its end, first the ones that `handshake` has read already."""
        earlier = await to_thread.run_sync(handshake.wait, abandon_on_cancel=True) if handshake else b""
        # Other code of this process finds stdin empty meanwhile. The SDK arranges that only when it reads the lines
        # itself, without a limit of their length.
        source, release = _claim_fd(0, sys.stdin, "rb", _open_stdin_diversion)
        try:
            lines = BufferedReader(_Prefixed(earlier, source))
            async with stdio_server(anyio.wrap_file(StringIO())) as (_, outgoing), anyio.create_task_group() as tasks:
                messages, reading = anyio.create_memory_object_stream[SessionMessage | Exception]()
                tasks.start_soon(_read_lines, lines, messages, outgoing, self._most)
                writing = _WithoutAnswered(outgoing, handshake.answered if handshake else None)
                await self._server.run(reading, writing, self._server.create_initialization_options())
        finally:
            if release is not None:
                release()


class _Prefixed(RawIOBase):
    """A stream of the bytes that were read earlier, followed by those of `source`."""

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


@dataclass(slots=True)
class _WithoutAnswered(AbstractAsyncContextManager["_WithoutAnswered"]):
    """Sends all messages but the response to the request with the id `answered`, which the client has already."""

    outgoing: WriteStream[SessionMessage]
    answered: int | str | None

    async def send(self, item: SessionMessage, /) -> None:
        if self.answered is not None and isinstance(item.message, JSONRPCResponse):
            answered, self.answered = self.answered, None
            if item.message.id == answered:
                return
        await self.outgoing.send(item)

    async def aclose(self) -> None:
        await self.outgoing.aclose()

    async def __aexit__(self, exc_type: object, exc_val: object, exc_tb: object) -> None:
        await self.aclose()


async def _read_lines(
    source: BinaryIO,
    reader: MemoryObjectSendStream[SessionMessage | Exception],
    outgoing: WriteStream[SessionMessage],
    most: int,
) -> None:
    """Pass messages of at most `most` bytes to the reader until stdin ends; refuse longer and invalid ones."""

    def next_line() -> bytes:
        line = end = source.readline(most + 1)
        while end and not end.endswith(b"\n"):  # the rest of a line that is too long is discarded
            end = source.readline(_CHUNK)
        return line

    async with reader:
        while line := await to_thread.run_sync(next_line):
            if line.isspace():
                continue
            if len(line.rstrip(b"\n")) > most:
                reason = f"A line may have {most:,} bytes. Send less, or have the server's max_body_bytes raised."
                message, refused = None, refusal(None, reason)
            else:
                message, refused = read_message(line)
            if refused is None:
                await reader.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))
                continue
            if (message is None or refused.error.code == PARSE_ERROR) and (found := _ID.search(line)):
                refused.id = int(found[1]) if found[1] else found[2].decode("utf-8", "replace")
            await outgoing.send(SessionMessage(refused))
