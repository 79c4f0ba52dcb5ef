"""Erases processes, and all that a caller left: what runs is ended, wherever, and nothing stays stored.

Below: the repository, and the programs that share its store. Above: `processes`.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Final, NamedTuple, Protocol, runtime_checkable

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, UnknownName, Unreadable
from goalport.base.words import listed
from goalport.runtime.chat import Conversations
from goalport.runtime.platform.replicas import Replicas, end_command
from goalport.runtime.process import AgentProcess, AgentProcessRepository, Killed, StoredContexts
from goalport.store import ConversationRecord, ProcessStore


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
        if self._repository.live(process_id):
            with suppress(UnknownName, Unreadable):
                process = await self._find(process_id)
                process.kill(reason)
                await process.rest()
        erased = partial(self._repository.erase, process_id)
        while not await erased() and await self._replicas.send_to(process_id, end_command(Killed(reason)), erased):
            pass  # the program that ran it has ended it, and gives its lease back next


_REASON: Final = "What its caller left was erased."
_PAGE: Final = 200
_AT_ONCE: Final = 50
"""How many processes are erased at the same time: a database writes together what is asked of it at once."""


class Erased(NamedTuple):
    """How much was erased, or would be."""

    conversations: int
    processes: int
    """Those that were started by themselves; what they started went with them."""
    contexts: int
    documents: int
    """How many documents named the caller among their readers."""
    sign_ins: int
    """At how many upstream servers the caller was signed in."""


@runtime_checkable
class _Grants(Protocol):
    async def grants_of(self, caller: Caller, *, revoke: bool) -> int: ...


@dataclass(frozen=True)
class Keepers:
    """Where a platform keeps what callers leave."""

    store: ProcessStore
    running: Callable[[], Sequence[AgentProcess]]
    """The processes that run here, which may not be stored yet."""
    erase: Callable[[str, str], Awaitable[None]]
    """Erases a process by its id, for a reason."""
    conversations: Conversations
    contexts: object
    documents: object
    sign_ins: Callable[[Caller, bool], int]
    """Counts those of a caller, or also ends them."""

    async def erase_caller(self, caller: Caller, *, dry_run: bool) -> Erased:
        """Erase what a caller left, with results, questions, journals, events and keys; with `dry_run` only count it.

        Raises `StoreError`; what is erased by then stays so.
        """
        owner = Caller(caller.id, caller.issuer)
        conversations = [each.id for each in await _conversations(self.store, owner)]
        records = await self.store.records(caller=owner)
        running = [each for each in self.running() if owner.same_as(each.caller)]
        roots = [*{each.root for each in records} | {each.root.id for each in running}]
        if not dry_run:
            for each in conversations:
                await self.conversations.delete(each, owner)
            for first in range(0, len(roots), _AT_ONCE):
                await asyncio.gather(*(self.erase(each, _REASON) for each in roots[first : first + _AT_ONCE]))
            await self.store.forget_keys({each.id for each in (*records, *running)})
        contexts = documents = 0
        if isinstance(self.contexts, StoredContexts):
            contexts = await self.contexts.erase_of(owner, count=dry_run)
        if isinstance(self.documents, _Grants):
            documents = await self.documents.grants_of(owner, revoke=not dry_run)
        return Erased(len(conversations), len(roots), contexts, documents, self.sign_ins(owner, not dry_run))


async def caller_known_as(caller_id: str, issuer: str | None, store: ProcessStore) -> Caller:
    """The caller of an id; without an issuer, the only one who has left a process or a conversation under that id.

    Raises `BadInput` if there are several.
    """
    if issuer is None:
        records = [*await store.records(), *await _conversations(store, None)]
        issuers = sorted({each.caller.issuer for each in records if each.caller.id == caller_id})
        if len(issuers) > 1:
            named = listed(repr(each) for each in issuers)
            raise BadInput(f"Callers {caller_id!r} of several issuers have left something. Name one of {named}.")
        issuer = "".join(issuers)
    return Caller(caller_id, issuer)


async def _conversations(store: ProcessStore, caller: Caller | None) -> Sequence[ConversationRecord]:
    found: list[ConversationRecord] = []
    while page := await store.conversations.list(caller=caller, after=found[-1].id if found else "", limit=_PAGE):
        found += page
    return found
