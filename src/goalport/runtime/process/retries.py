"""Waits for a store that is away, on behalf of a process that has to be stored before it goes on.

Above: the repository, and the platform.
"""

from collections.abc import Awaitable, Callable
from logging import getLogger
from typing import Final, TypeVar

import anyio

from goalport.base.errors import StoreError
from goalport.runtime.process.agent_process import AgentProcess

_log = getLogger(__name__)
T = TypeVar("T")
_FIRST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 2.0
"""Seconds between two attempts."""


async def retried(process: AgentProcess, work: Callable[[], Awaitable[T]]) -> T | None:
    """Do what needs the store; while that is away, try again. None: another program runs the process."""
    pause = _FIRST_PAUSE
    while True:
        try:
            return await work()
        except StoreError as error:
            if process.elsewhere:
                return None
            if pause == _FIRST_PAUSE:
                _log.warning("Process %s waits for the store: %s", process.id, error)
            await anyio.sleep(pause)
            pause = min(2 * pause, _LONGEST_PAUSE)
