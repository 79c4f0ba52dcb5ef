"""Finds the process that was begun under an idempotency key, in this program or in another."""

import asyncio
from typing import Final

from goalport.process import AgentProcess, AgentProcessRepository, Killed

__all__ = ["known_under"]

_WRITTEN_WITHIN: Final = (0.05, 0.1, 0.2, 0.4, 0.8)
"""Seconds to wait, again and again, for a process that another program has begun and not written yet."""


async def known_under(
    repository: AgentProcessRepository, key: str, digest: str, process: AgentProcess
) -> AgentProcess | None:
    """The process that was begun under a key; the given one, if there is none: it is to begin now.

    None: the key was used with another digest. A process that was killed, or is not known any more, has no result: then
    the given one takes its place. Raises `StoreError`.
    """
    store = repository.store
    waits, instead_of = iter(_WRITTEN_WITHIN if store.durable else ()), ""
    while True:
        known_digest, known_id = await store.join(key, digest, process.id, instead_of=instead_of)
        if known_id == process.id:
            return process
        if known_digest != digest:
            return None
        found = await repository.find(known_id)
        if found is not None and not isinstance(found.outcome, Killed) and found.end_requested is None:
            return found
        if found is None and (pause := next(waits, None)) is not None:
            await asyncio.sleep(pause)
        else:
            instead_of = known_id
