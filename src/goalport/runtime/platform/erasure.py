"""Erases all that a caller left: what runs is ended, wherever, and nothing stays stored. Above: the platform."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from datetime import timedelta
from logging import getLogger
from typing import Final, NamedTuple, Protocol, runtime_checkable

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, StoreError
from goalport.base.words import listed
from goalport.runtime.chat import Conversations
from goalport.runtime.platform.processes import Processes
from goalport.runtime.process import ContextRepository, StoredContexts
from goalport.store import ConversationRecord, ProcessStore
from goalport.tools.upstream.servers import UpstreamServers

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


class Platform(Protocol):
    """Where callers leave something."""

    store: ProcessStore
    processes: Processes
    conversations: Conversations
    upstream: UpstreamServers
    contexts: ContextRepository

    @property
    def documents(self) -> object: ...


async def erase_caller(platform: Platform, caller: Caller, *, dry_run: bool) -> Erased:
    """Erase what a caller left, with results, questions, journals, events and keys; with `dry_run` only count it.

    Raises `StoreError`; what is erased by then stays so.
    """
    owner = Caller(caller.id, caller.issuer)
    conversations = [each.id for each in await _conversations(platform.store, owner)]
    records = await platform.store.records(caller=owner)
    running = [each for each in platform.processes.running if owner.same_as(each.caller)]  # perhaps not stored yet
    roots = [*{each.root for each in records} | {each.root.id for each in running}]
    if not dry_run:
        for each in conversations:
            await platform.conversations.delete(each, owner)
        for first in range(0, len(roots), _AT_ONCE):
            erased = (platform.processes.erase(each, _REASON) for each in roots[first : first + _AT_ONCE])
            await asyncio.gather(*erased)
        await platform.store.forget_keys({each.id for each in (*records, *running)})
    stored, readable = platform.contexts, platform.documents
    contexts = await stored.erase_of(owner, count=dry_run) if isinstance(stored, StoredContexts) else 0
    documents = await readable.grants_of(owner, revoke=not dry_run) if isinstance(readable, _Grants) else 0
    sign_ins = platform.upstream.sign_ins_of(owner, end=not dry_run)
    return Erased(len(conversations), len(roots), contexts, documents, sign_ins)


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


_log = getLogger(__name__)
_HOUR: Final = 3_600


async def keep_pruned(store: ProcessStore, age: timedelta | None, keep: int | None) -> None:
    """Drop once an hour, until it is cancelled, the families that ended longer ago than `age`, and all but the newest.

    Of those `keep` stay; None: any number, of any age.
    """
    while True:
        now = time.time()
        try:
            if dropped := await prune_hourly(store, now, age, keep):
                _log.info("%s processes that ended long ago were dropped from the store.", dropped)
        except StoreError as error:
            _log.warning("What ended long ago is not dropped now: %s", error)
        await asyncio.sleep(_HOUR - now % _HOUR)


async def prune_hourly(store: ProcessStore, at: float, age: timedelta | None, keep: int | None) -> int | None:
    """Drop what is to be dropped in the hour of a time; None: it was done before. Raises `StoreError`."""
    me = secrets.token_hex(8)
    _, first = await store.join(f"goalport/retention/{int(at // _HOUR)}", "", me)
    return await store.prune(older_than=age, keep=keep) if first == me else None
