"""Calls of chatbots that are repeated under an idempotency key: what was said once is not said again.

The store keeps under the key which message of which process the first call has said, so that any server of the store
joins its turn. While the message is being said, the key is held, and a call that comes meanwhile is told to come again.
`chat_calls` is above.
"""

import secrets
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

import anyio
from mcp_types import CallToolRequestParams

from goalport.base.errors import BadInput
from goalport.runtime.platform.runs import IdempotentCall
from goalport.server.auth import current_caller
from goalport.server.doors.mcp.state import McpState
from goalport.server.doors.mcp.turn_tasks import Task

KEY: Final = "goalport/idempotencyKey"
_FREE: Final = "free"
_HELD: Final = "held "
"""Begins what is kept while a message is being said."""


class SaidOnce:
    """A call that may be a repetition: `earlier` is the id of the task that the first one has begun, or empty."""

    def __init__(self, earlier: str = "") -> None:
        self.earlier = earlier
        self.begun: Task | None = None
        """To be set to what this call has begun."""


@asynccontextmanager
async def said_once(state: McpState, params: CallToolRequestParams) -> AsyncGenerator[SaidOnce]:
    """A context in which a call says its message, unless it was said before under the same key.

    Raises `BadInput` for a key that is not valid, was used with other arguments, or is held, and `StoreError`.
    """
    key = (params.meta or {}).get(KEY)
    if key is None:
        yield SaidOnce()
        return
    call, store = IdempotentCall.of(current_caller(), params.name, key, params.arguments or {}), state.platform.store
    held = f"{_HELD}{secrets.token_hex(8)}"
    digest, kept = await store.join(call.name, call.digest, held)
    if digest != call.digest:
        call.refuse()
    if kept == _FREE:
        _, kept = await store.join(call.name, call.digest, held, instead_of=_FREE)
    if kept != held:
        if kept.startswith(_HELD):
            raise BadInput(
                "Another call with this idempotency key is just saying its message, or its server ended meanwhile. Call"
                " again in a moment; if that does not help, look at what the conversation has."
            )
        yield SaidOnce(kept)
        return
    said = SaidOnce()
    try:
        yield said
    finally:
        with anyio.CancelScope(shield=True):
            told = _FREE if said.begun is None else said.begun.id
            await store.join(call.name, call.digest, told, instead_of=held)
