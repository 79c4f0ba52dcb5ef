"""The writes of a connection: the head of a response is sent together with the beginning of its body.

uvicorn writes the two one after the other. Each write is a call of the operating system, and wakes the client up.
"""

from asyncio import AbstractEventLoop, Transport
from typing import Any, Final

_HEAD: Final = b"HTTP/1.1 "
_SMALL: Final = 16 * 1024
"""Larger pieces are written by themselves: to copy them would take longer than another write."""


class GatheredWrites(Transport):
    """Writes to `transport`; a head is written with what follows it, at the latest in the next step of the loop.

    A connection that is closing gets it at once: in the next step it may be closed, and uvloop's then raises an error.
    """

    def __init__(self, transport: Transport, loop: AbstractEventLoop) -> None:
        super().__init__()
        self._transport = transport
        self._loop = loop
        self._head = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Write data, after the head that waits for it; a head waits itself."""
        if self._head and len(data) < _SMALL:
            data, self._head = self._head + data, b""
        elif self._head:
            self._flush()
        elif data[:9] == _HEAD and not self._transport.is_closing():
            self._head = bytes(data)
            self._loop.call_soon(self._flush)
            return
        self._transport.write(data)

    def _flush(self) -> None:
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head)

    def close(self) -> None:
        """Close the connection when everything is written."""
        self._flush()
        self._transport.close()

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    def is_closing(self) -> bool:
        """Whether the connection is closed, or will be when everything is written."""
        return self._transport.is_closing()

    def get_write_buffer_size(self) -> int:
        """The number of bytes that wait to be sent."""
        return self._transport.get_write_buffer_size()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """What is known of the connection."""
        return self._transport.get_extra_info(name, default)
