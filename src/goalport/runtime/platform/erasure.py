"""Erases stored data: what a caller has left, and processes that ended long ago. Above: the platform."""

import asyncio
import secrets
import time
from collections.abc import Sequence
from datetime import timedelta
from logging import getLogger
from typing import Final, NamedTuple

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, StoreError
from goalport.base.words import listed
from goalport.store import ConversationRecord, ProcessStore

_log = getLogger(__name__)
_PAGE: Final = 200
_HOUR: Final = 3_600


class Erased(NamedTuple):
    """How much was erased, or would be."""

    conversations: int
    processes: int
    """How many processes the caller started; the processes that those started are erased, too, but not counted."""
    contexts: int
    documents: int
    """How many documents named the caller among their readers."""
    sign_ins: int
    """At how many upstream servers the caller was signed in."""


async def caller_known_as(caller_id: str, issuer: str | None, store: ProcessStore) -> Caller:
    """The caller of an id; without an issuer, the only caller of that id with a stored process or conversation.

    Raises `BadInput` if there are several.
    """
    if issuer is None:
        records = [*await store.records(), *await conversations_of(store, None)]
        issuers = sorted({each.caller.issuer for each in records if each.caller.id == caller_id})
        if len(issuers) > 1:
            named = listed(repr(each) for each in issuers)
            raise BadInput(f"Callers {caller_id!r} of several issuers have left something. Name one of {named}.")
        issuer = "".join(issuers)
    return Caller(caller_id, issuer)


async def conversations_of(store: ProcessStore, caller: Caller | None) -> Sequence[ConversationRecord]:
    """All conversations of a caller; None: of everybody. Raises `StoreError`."""
    found: list[ConversationRecord] = []
    while page := await store.conversations.list(caller=caller, after=found[-1].id if found else "", limit=_PAGE):
        found += page
    return found


async def keep_pruned(store: ProcessStore, age: timedelta | None, keep: int | None) -> None:
    """Once an hour, until cancelled, drop the families that ended longer ago than `age`, and all but the newest `keep`.

    None: there is no limit of age, or of number.
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
    """Prune the store once for the hour of the time `at`. Returns how many were dropped; None: it was done before.

    Raises `StoreError`.
    """
    me = secrets.token_hex(8)
    _, first = await store.join(f"goalport/retention/{int(at // _HOUR)}", "", me)
    return await store.prune(older_than=age, keep=keep) if first == me else None
