"""One HTTP client for one event loop, and what is made of it.

The clients of providers keep connections that belong to the event loop in which they were opened; another loop (a
second `invoke_sync`, the next test) gets a client of its own.
"""

from collections.abc import Callable
from typing import Generic, TypeVar

import httpx2
from anyio.lowlevel import current_token

__all__ = ["Connection"]

T = TypeVar("T")


class Connection(Generic[T]):
    """Makes a client's user when it is first wanted in an event loop, and keeps it until it is closed."""

    def __init__(self, client: Callable[[], httpx2.AsyncClient], user: Callable[[httpx2.AsyncClient], T]) -> None:
        self._make_client = client
        self._make_user = user
        self._loop: object = None
        self._made: tuple[httpx2.AsyncClient, T] | None = None

    def user(self) -> T:
        """What uses the client of this event loop."""
        loop = current_token()
        if self._made is None or self._loop != loop:
            client = self._make_client()
            self._loop, self._made = loop, (client, self._make_user(client))
        return self._made[1]

    async def aclose(self) -> None:
        """Close the connections of this event loop; those of another are gone with it."""
        made, self._made = self._made, None
        if made is not None and self._loop == current_token():
            await made[0].aclose()
