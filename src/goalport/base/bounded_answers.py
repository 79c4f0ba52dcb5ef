"""HTTP responses of other servers, with a limit on their bytes and on the seconds until they are complete.

A few compressed bytes can decompress to any size, so compressed responses are neither requested nor accepted. `auth`
uses this for identity providers, `upstream` for MCP servers, agents and their authorization servers.
"""

import asyncio
from collections.abc import AsyncIterator
from typing import Any, Final

import httpx2

SMALL: Final = 1024 * 1024
"""The most bytes in a response with metadata, keys, tokens or an error."""


def bounded_client(seconds: float, **options: Any) -> httpx2.AsyncClient:
    """A client for small responses: a long one raises `httpx2.StreamError`, a late one `httpx2.TimeoutException`."""

    async def bound_small(response: httpx2.Response) -> None:
        bound(response, SMALL, seconds)

    hooks = {"request": [request_uncompressed], "response": [bound_small]}
    return httpx2.AsyncClient(timeout=seconds, event_hooks=hooks, **options)


async def request_uncompressed(request: httpx2.Request) -> None:
    """Request hook of a client: ask for an uncompressed response."""
    request.headers["Accept-Encoding"] = "identity"


def bound(response: httpx2.Response, most_bytes: int | None, seconds: float | None) -> None:
    """Limit the body of a response that is not read yet; the seconds begin now. None: no such limit."""
    assert isinstance(response.stream, httpx2.AsyncByteStream)
    response.stream = _Bounded(response, response.stream, most_bytes, seconds)


class _Bounded(httpx2.AsyncByteStream):
    def __init__(
        self, response: httpx2.Response, stream: httpx2.AsyncByteStream, most_bytes: int | None, seconds: float | None
    ) -> None:
        self._stream = stream
        self._most_bytes = most_bytes
        self._until = None if seconds is None else asyncio.get_running_loop().time() + seconds
        self._encoding = response.headers.get("content-encoding", "identity")

    async def __aiter__(self) -> AsyncIterator[bytes]:
        if self._encoding != "identity":
            raise httpx2.StreamError(f"the answer is encoded with {self._encoding}, which was not asked for")
        length, chunks = 0, aiter(self._stream)
        try:
            while True:
                async with asyncio.timeout_at(self._until):
                    chunk = await anext(chunks)
                length += len(chunk)
                if self._most_bytes is not None and length > self._most_bytes:
                    raise httpx2.StreamError(f"the answer has more than {self._most_bytes:,} bytes")
                yield chunk
        except StopAsyncIteration:
            return
        except TimeoutError:
            raise httpx2.ReadTimeout("the answer took too long") from None

    async def aclose(self) -> None:
        await self._stream.aclose()
