"""Answers over stdio to lines that are no messages, which the SDK would pass over in silence.

A client that waits for an answer must get one, whatever it wrote. `stdio` is above it.
"""

import re
from typing import Final

from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared._stream_protocols import ReadStream, WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, ErrorData, JSONRPCError
from pydantic import ValidationError

from goalport.serve.texts import one_line

__all__ = ["answer_the_unread"]

_ID: Final = re.compile(r'"id"\s*:\s*(?:([0-9]{1,15})|"([^"\\]{1,100})")')


async def answer_the_unread(
    incoming: ReadStream[SessionMessage | Exception],
    reader: MemoryObjectSendStream[SessionMessage | Exception],
    outgoing: WriteStream[SessionMessage],
) -> None:
    """Pass messages on to the reader until there are no more, and answer what is none."""
    async with reader:
        async for item in incoming:
            if isinstance(item, ValidationError):
                await outgoing.send(SessionMessage(_answer(item)))
            else:
                await reader.send(item)


def _answer(error: ValidationError) -> JSONRPCError:
    first = error.errors(include_url=False, include_context=False)[0]
    line = first["input"] if first["type"] == "json_invalid" else ""
    found = _ID.search(line) if isinstance(line, str) else None
    identity = (int(found[1]) if found[1] else found[2]) if found else None
    said = one_line(first["msg"])
    return JSONRPCError(
        jsonrpc="2.0",
        id=identity,
        error=ErrorData(code=PARSE_ERROR, message=f"The line is no JSON-RPC message: {said}. Send one in one line."),
    )
