"""A receiver of notifications on a socket of this machine. No test is in here."""

import json
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from tests.listening import listening

__all__ = ["Received", "Receiver", "receiving"]


@dataclass(frozen=True)
class Received:
    """A notification: its headers, and its body as it came."""

    headers: Mapping[str, str]
    body: bytes
    query: str = ""

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """What was received, and the responses that the next notifications get; 200 for those after them."""

    url: str = ""
    responses: list[Response] = field(default_factory=list[Response])
    received: list[Received] = field(default_factory=list[Received])
    _changed: anyio.Event = field(default_factory=anyio.Event)

    async def take(self, request: Request) -> Response:
        self.received.append(Received(request.headers, await request.body(), request.url.query))
        self._changed.set()
        return self.responses.pop(0) if self.responses else Response(status_code=200)

    async def until(self, enough: Callable[[Sequence[Received]], bool], seconds: float = 30) -> Sequence[Received]:
        """What was received, as soon as it is enough."""
        with anyio.fail_after(seconds):
            while not enough(self.received):
                self._changed = anyio.Event()
                await self._changed.wait()
        return self.received

    async def told(self, state: str, seconds: float = 30) -> Received:
        """The first notification of a task in this state, in version 1.0."""

        def fits(each: Received) -> bool:
            return each.json.get("task", {}).get("status", {}).get("state") == f"TASK_STATE_{state}"

        found = await self.until(lambda received: any(map(fits, received)), seconds)
        return next(filter(fits, found))


@asynccontextmanager
async def receiving(*responses: Response) -> AsyncGenerator[Receiver]:
    """A receiver for as long as the block lasts."""
    receiver = Receiver(responses=[*responses])
    async with listening(Starlette(routes=[Route("/hook", receiver.take, methods=["GET", "POST"])])) as address:
        receiver.url = f"{address}/hook"
        yield receiver
