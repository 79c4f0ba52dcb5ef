"""The time in which a platform is used with `async with`: what is connected at its beginning and closed at its end."""

from abc import ABC, abstractmethod
from typing import Self

from goalport.platform.upstream import Upstream

__all__ = ["Lifetime"]


class Lifetime(ABC):
    """Something that connects its upstream servers when it is entered, and closes everything when it is left."""

    upstream: Upstream
    """The upstream servers, whose groups of tools are there while they are connected."""

    async def __aenter__(self) -> Self:
        await self.upstream.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    @abstractmethod
    async def aclose(self) -> None:
        """Close everything; twice does no harm."""
