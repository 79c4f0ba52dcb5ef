"""Drops processes that ended long ago from a store: once an hour, by one of the programs that use it.

The programs on a store agree by a key in it: whoever is the first in an hour drops. Below: the store. Above: the
platform, while it is open.
"""

import asyncio
import secrets
import time
from contextlib import suppress
from datetime import timedelta
from logging import getLogger
from typing import Final

from goalport.base.errors import StoreError
from goalport.store import ProcessStore

_log = getLogger(__name__)
_HOUR: Final = 3_600


class Retention:
    """Keeps families that have ended as long as `age`, and the newest `keep` of them; None: any."""

    def __init__(self, store: ProcessStore, age: timedelta | None, keep: int | None) -> None:
        self._store, self._age, self._keep = store, age, keep
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, if there is something that is ever dropped."""
        if self._age is not None or self._keep is not None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="goalport-retention")

    async def stop(self) -> None:
        """End it; what is being dropped is dropped."""
        task, self._task = self._task, None
        if task is not None:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def drop(self, at: float) -> int | None:
        """Drop what is to be dropped in the hour of a time; None: it was done before. Raises `StoreError`."""
        me = secrets.token_hex(8)
        _, first = await self._store.join(f"goalport/retention/{int(at // _HOUR)}", "", me)
        if first != me:
            return None
        return await self._store.prune(older_than=self._age, keep=self._keep)

    async def _run(self) -> None:
        while True:
            now = time.time()
            try:
                if dropped := await self.drop(now):
                    _log.info("%s processes that ended long ago were dropped from the store.", dropped)
            except StoreError as error:
                _log.warning("What ended long ago is not dropped now: %s", error)
            await asyncio.sleep(_HOUR - now % _HOUR)
