"""Erases processes: they are ended, wherever they run, and nothing of them stays stored.

Below: the repository, and the programs that share its store. Above: `processes`.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial

from goalport.errors import UnknownName, Unreadable
from goalport.platform.commands import end_command
from goalport.platform.replicas import Replicas
from goalport.process import AgentProcess, AgentProcessRepository, Killed

__all__ = ["Erasure"]


class Erasure:
    """Erases processes of a platform; `find` gives one by its id."""

    def __init__(
        self,
        find: Callable[[str], Awaitable[AgentProcess]],
        repository: AgentProcessRepository,
        replicas: Replicas,
    ) -> None:
        self._find, self._repository, self._replicas = find, repository, replicas

    async def erase(self, process_id: str, reason: str) -> None:
        """End a process that a caller started, with its family, and drop all that is stored of them, for good.

        Nothing happens if there is none of that id. Raises `StoreError`.
        """
        with suppress(UnknownName, Unreadable):
            process = await self._find(process_id)
            process.kill(reason)
            await process.rest()
        erased = partial(self._repository.erase, process_id)
        while not await erased() and await self._replicas.send_to(process_id, end_command(Killed(reason)), erased):
            pass  # the program that ran it has ended it, and gives its lease back next
