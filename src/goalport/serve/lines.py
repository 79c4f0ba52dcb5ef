"""Messages from stdin: one in each line, none longer than the settings allow, and an answer to each line that is none;
empty lines are passed over.

A client that waits for an answer must get one, whatever it wrote; the SDK would pass such lines over in silence, and
keep a line that never ends. What a message may look like is in `envelope`; `stdio` is above.
"""

import re
from typing import BinaryIO, Final

from anyio import to_thread
from anyio.streams.memory import MemoryObjectSendStream
from mcp.shared._stream_protocols import WriteStream
from mcp.shared.message import SessionMessage
from mcp_types import PARSE_ERROR, JSONRPCError, jsonrpc_message_adapter

from goalport.serve.envelope import read_message, refusal

__all__ = ["read_lines"]

_ID: Final = re.compile(rb'"id"\s*:\s*(?:([0-9]{1,15})|"([^"\\]{1,100})")')
_PIECE: Final = 65_536


async def read_lines(
    source: BinaryIO,
    reader: MemoryObjectSendStream[SessionMessage | Exception],
    outgoing: WriteStream[SessionMessage],
    most: int,
) -> None:
    """Pass messages of at most so many bytes on to the reader until there are no more, and answer what is none."""
    async with reader:
        while line := await to_thread.run_sync(_line, source, most):
            if line.isspace():
                continue
            message, refused = _read(line, most)
            if refused is None:
                await reader.send(SessionMessage(jsonrpc_message_adapter.validate_python(message, by_name=False)))
            else:
                await outgoing.send(SessionMessage(refused))


def _line(source: BinaryIO, most: int) -> bytes:
    """The next line; of one that is too long only the beginning, and the rest of it is gone."""
    line = end = source.readline(most + 1)
    while end and not end.endswith(b"\n"):
        end = source.readline(_PIECE)
    return line


def _read(line: bytes, most: int) -> tuple[object, JSONRPCError | None]:
    if len(line.rstrip(b"\n")) > most:
        reason = f"A line may have {most:,} bytes. Send less, or have the server's max_body_bytes raised."
        return None, refusal(_id_in(line), reason)
    message, refused = read_message(line)
    if refused is not None and refused.error.code == PARSE_ERROR:
        refused.id = _id_in(line)
    return message, refused


def _id_in(line: bytes) -> str | int | None:
    """The id that a line which cannot be read seems to bear."""
    found = _ID.search(line)
    if found is None:
        return None
    return int(found[1]) if found[1] else found[2].decode("utf-8", "replace")
