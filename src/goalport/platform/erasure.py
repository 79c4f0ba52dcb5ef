"""Erases processes, and all that a caller left: what runs is ended, wherever, and nothing stays stored.

Below: the repository, and the programs that share its store. Above: `processes`.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

from goalport.caller import Caller
from goalport.chat import Conversations
from goalport.errors import UnknownName, Unreadable
from goalport.platform.commands import end_command
from goalport.platform.replicas import Replicas
from goalport.process import AgentProcess, AgentProcessRepository, Killed
from goalport.store import ProcessStore

__all__ = ["Erased", "Erasure", "erase_caller"]


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


_REASON: Final = "What its caller left was erased."
_PAGE: Final = 200


class Erased(NamedTuple):
    """How much was erased, or would be."""

    conversations: int
    processes: int
    """Those that were started by themselves; what they started went with them."""


async def erase_caller(
    caller: Caller,
    conversations: Conversations,
    store: ProcessStore,
    erase: Callable[[str, str], Awaitable[None]],
    *,
    dry_run: bool,
) -> Erased:
    """Erase the conversations and the processes of a caller, with results, questions, journals and events.

    With `dry_run` they are only counted. Raises `StoreError`; what is erased by then stays so.
    """
    owner = Caller(caller.id, caller.issuer)
    found: list[str] = []
    while page := await store.conversations.list(caller=owner, after=found[-1] if found else "", limit=_PAGE):
        found += [each.id for each in page]
    processes = [each.id for each in await store.records(caller=owner) if not each.parent]
    if not dry_run:
        for each in found:
            await conversations.delete(each, owner)
        for each in processes:
            await erase(each, _REASON)
    return Erased(len(found), len(processes))
