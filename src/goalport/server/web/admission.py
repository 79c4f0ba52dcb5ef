"""Admission: a request that starts or answers something gets its place among those that are answered at once.

`publish.limits` knows the limits, and `endpoint` makes a problem of a refusal. Above: the doors.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import anyio
from starlette.requests import ClientDisconnect, Request

from goalport.server.auth import current_caller
from goalport.server.publish.limits import Limits


@asynccontextmanager
async def admitted(limits: Limits, request: Request, *, begins: bool) -> AsyncGenerator[None]:
    """A context in which a request whose body was read has its place; it waits for its turn.

    `begins`: it begins something, and does not only go on with it. Raises `LimitReached`, `StoreError`, and
    `ClientDisconnect` where the client leaves while the request waits.
    """
    place = await limits.admit(current_caller(), begins=begins)
    try:
        if not place.held:
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(_cancel_when_left, request, tasks.cancel_scope)
                await place.wait()
                tasks.cancel_scope.cancel()
            if not place.held:
                raise ClientDisconnect
        yield
    finally:
        place.leave()


async def client_left(request: Request) -> None:
    """Wait until the client of a request has left. Its body has to be read before."""
    while (await request.receive())["type"] != "http.disconnect":
        pass


async def _cancel_when_left(request: Request, scope: anyio.CancelScope) -> None:
    await client_left(request)
    scope.cancel()
