"""The store in the memory of the program: its data ends with the program, and no other program shares it.

It has a window for ended families and for conversations: it keeps a number of the latest, whatever their size.
"""

import math
import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import count, islice, takewhile
from operator import itemgetter
from typing import Final, TypeVar

from goalport.base.caller import Caller
from goalport.base.errors import LeaseLost
from goalport.store.records import (
    ConversationRecord,
    EventRecord,
    JournalRecord,
    Lease,
    MessageRecord,
    ObjectRecord,
    ProcessRecord,
    ProcessStore,
    QuestionRecord,
    StoredProcess,
    parents_first,
    searchable,
    words_of,
)

R = TypeVar("R", ObjectRecord, QuestionRecord, JournalRecord)

_TOKEN: Final = 1
"""The token of each lease, always the same: no family changes hands."""
_LONG_AGO: Final = datetime.min.replace(tzinfo=UTC)
_DAY: Final = timedelta(days=1)
_MOST_KEYS: Final = 100_000
_TIMES: Final = 10
"""The most long processes, and conversations, that are kept for each short process of the window."""


@dataclass(eq=False, slots=True)
class _Family:
    """A root process with its sub-processes."""

    root: str
    version: int = 0
    leased: bool = True
    """Whether something runs it."""
    members: dict[str, StoredProcess] = field(default_factory=dict[str, StoredProcess])
    events: list[EventRecord] = field(default_factory=list[EventRecord])

    @property
    def record(self) -> ProcessRecord:
        return self.members[self.root].process


class InMemoryProcessStore(ProcessStore):
    """Stores the records of processes in memory; see `ProcessStore`.

    Parameters: `window` is the number of short processes that are kept after their end. Processes that took a second or
    more, asked people or have a goal declared `long` are counted separately: at least `window` of them are kept, and
    each for `seconds` after its end, up to ten times `window`. `waiting`: the most processes that wait for people.
    Processes that have not ended, or that somebody watches, are always kept. Of conversations, ten times `window` are
    kept: those used last.
    """

    durable = False

    def __init__(self, window: int = 1000, *, seconds: float = 3600.0, waiting: int = 10_000) -> None:
        self._window, self._seconds, self.max_waiting = window, seconds, waiting
        self.conversations = InMemoryConversations(window * _TIMES)
        self._watched: Callable[[str], bool] = lambda _: False
        self._family_of: dict[str, _Family] = {}
        """The family of each process."""
        self._ended: Mapping[bool, dict[str, float]] = {False: {}, True: {}}
        """The end times of families on the monotonic clock, by root, oldest first; long processes are separate."""
        self._waiting: dict[str, None] = {}
        self._keys: dict[str, tuple[str, str, datetime]] = {}
        self._contexts: dict[str, object] = {}

    def attach(self, watched: Callable[[str], bool], /) -> None:
        self._watched = watched

    async def save(
        self,
        changes: Sequence[StoredProcess],
        lease: Lease,
        /,
        *,
        wake_at: datetime | None,
        release: bool,
        events: Sequence[EventRecord] = (),
    ) -> Lease:
        """Store records; if there are too many of their kind, drop the family that ended first."""
        root, token, _ = lease
        family = self._family_of.get(root)
        if not token and not changes:
            return lease
        if token > _TOKEN or (token and family is None):
            raise LeaseLost(root)
        if family is None:
            if root not in [each.process.id for each in changes]:
                raise ValueError(f"Expected the record of process {root!r}, the first of its family.")
            family = _Family(root)
        self._hold(family)
        family.version += 1
        for each in changes:
            known = family.members.get(each.process.id)
            family.members[each.process.id] = _added(known, each) if known and each.whole else each
            self._family_of[each.process.id] = family
        if events:
            before = family.events[-1].number if family.events else -1
            family.events += [each for each in events if each.number > before]
        if release:
            self._release(family)
        return Lease(root, _TOKEN, family.version)

    async def claim(self, process_id: str, /) -> Lease | None:
        """Keep the family of a process until its lease is released; None: it is unknown or was dropped."""
        family = self._family_of.get(process_id)
        if family is None:
            return None
        self._hold(family)
        return Lease(family.root, _TOKEN, family.version)

    async def release(self, lease: Lease, /) -> None:
        family = self._family_of.get(lease.root)
        if family is not None and family.leased and lease.token == _TOKEN:
            self._release(family)

    async def versions(self, roots: Sequence[str], /) -> Mapping[str, int]:
        return {each: family.version for each in roots if (family := self._rooted(each)) is not None}

    async def held(self, roots: Sequence[str], /) -> Sequence[str]:
        return [each for each in roots if (family := self._rooted(each)) is not None and family.leased]

    async def find(self, process_id: str, /) -> ProcessRecord | None:
        family = self._family_of.get(process_id)
        return family and family.members[process_id].process

    async def family(self, process_id: str, /) -> tuple[Sequence[StoredProcess], int]:
        family = self._family_of.get(process_id)
        return ((), 0) if family is None else (tuple(parents_first(tuple(family.members.values()))), family.version)

    async def events(self, root: str, /, after: int, limit: int) -> Sequence[EventRecord]:
        family = self._rooted(root)
        known = [] if family is None else family.events
        first = bisect_right(known, after, key=itemgetter(0))
        return known[first : first + limit]

    async def records(
        self,
        *,
        after: str = "",
        limit: int | None = None,
        caller: Caller | None = None,
        statuses: Collection[str] = (),
        newest_first: bool = False,
    ) -> Sequence[ProcessRecord]:
        if after and after not in self._family_of:
            return []
        ids = iter(reversed(self._family_of) if newest_first else self._family_of)
        if after:
            next(each for each in ids if each == after)  # the rest comes after it
        found = (self._family_of[each].members[each].process for each in ids)
        chosen = (
            each._replace(definition=None, state=None, seconds_run=0.0)
            for each in found
            if (caller is None or caller.same_as(each.caller)) and (not statuses or each.status in statuses)
        )
        return list(islice(chosen, limit))

    async def counts(self, *, without: Collection[str] = ()) -> Mapping[str, int]:
        kept = self._family_of.items()
        return Counter(family.members[each].process.status for each, family in kept if each not in without)

    async def overflow(self) -> Sequence[str]:
        return list(islice(self._waiting, max(len(self._waiting) - self.max_waiting, 0)))

    async def prune(self, *, older_than: timedelta | None = None, keep: int | None = None) -> int:
        before = _LONG_AGO if older_than is None else datetime.now(UTC) - older_than
        over: list[tuple[datetime, int, _Family]] = []
        for place, (each, family) in enumerate(self._family_of.items()):
            at, members = family.record.finished_at, family.members.values()
            if each == family.root and at and not family.leased and all(member.process.final for member in members):
                over.append((at, place, family))
        newest = sorted(over, reverse=True)
        kept = [family for at, _, family in newest[:keep] if at >= before]
        for _, _, family in newest:
            if family not in kept:
                self._drop(family)
        return len(over) - len(kept)

    async def drop(self, root: str, /) -> bool:
        family = self._rooted(root)
        if family is not None:
            self._drop(family)
        return family is not None

    async def join(self, key: str, digest: str, process_id: str, /, *, instead_of: str = "") -> tuple[str, str]:
        now = datetime.now(UTC)
        while self._keys and (len(self._keys) > _MOST_KEYS or next(iter(self._keys.values()))[2] < now - _DAY):
            del self._keys[next(iter(self._keys))]
        known = self._keys.get(key)
        if known is None or known[1] == instead_of:
            self._keys.pop(key, None)
            known = self._keys[key] = digest, process_id, now
        return known[:2]

    async def forget_keys(self, process_ids: Collection[str], /) -> None:
        for key in [key for key, (_, process, _) in self._keys.items() if process.partition(":")[0] in process_ids]:
            del self._keys[key]

    async def context_ids(self) -> Sequence[str]:
        return [*self._contexts]

    async def find_context(self, context_id: str, /) -> object:
        return self._contexts.get(context_id)

    async def save_context(self, context_id: str, value: object, /, *, instead_of: object) -> bool:
        if self._contexts.get(context_id) is not instead_of:
            return False
        self._contexts[context_id] = value
        return True

    async def delete_context(self, context_id: str, /) -> bool:
        return self._contexts.pop(context_id, None) is not None

    def _rooted(self, root: str) -> _Family | None:
        family = self._family_of.get(root)
        return family if family is not None and family.root == root else None

    def _hold(self, family: _Family) -> None:
        """Keep a family as long as something runs it."""
        family.leased = True
        for each in (*self._ended.values(), self._waiting):
            each.pop(family.root, None)

    def _release(self, family: _Family) -> None:
        """Drop the families that ended first, beyond the window and unless somebody watches them."""
        family.leased = False
        long = family.record.long
        if not all(each.process.ended for each in family.members.values()):
            if family.record.status == "waiting":
                self._waiting[family.root] = None
            return
        ended, old = self._ended[long], time.monotonic() - self._seconds if long else math.inf
        ended[family.root] = time.monotonic()
        most = self._window * (_TIMES if long else 1)
        over = islice(enumerate(ended.items(), most - len(ended)), max(len(ended) - self._window, 0))
        for _, (root, _) in list(takewhile(lambda each: each[0] < 0 or each[1][1] <= old, over)):
            if not self._watched(root):
                self._drop(self._family_of[root])

    def _drop(self, family: _Family) -> None:
        self._hold(family)
        for each in family.members:
            del self._family_of[each]


class InMemoryConversations:
    """Stores the `most` conversations that were used last, in memory; see `ConversationStore`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: dict[str, _Conversation] = {}
        """The conversations by id, the one used last at the end."""
        self._numbers = count()

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        known = self._used(conversation.id)
        if (known.record.version if known else 0) != conversation.version:
            return None
        saved = conversation._replace(version=conversation.version + 1)
        if known is None:
            known = self._kept[saved.id] = _Conversation(next(self._numbers), saved)
        known.record = saved
        if saved.process:
            known.processes[saved.process] = known.processes.pop(saved.process, None)
        for each in messages:
            known.messages.setdefault(each.id, each._replace(number=len(known.messages) + 1))
        if len(self._kept) > self._most:
            del self._kept[next(iter(self._kept))]
        return saved

    async def find(self, conversation_id: str, /) -> ConversationRecord | None:
        known = self._used(conversation_id)
        return known and known.record

    async def messages(self, conversation_id: str, /) -> Sequence[MessageRecord]:
        known = self._used(conversation_id)
        return [] if known is None else [*known.messages.values()]

    async def list(
        self,
        *,
        caller: Caller | None = None,
        chatbot: str = "",
        search: str = "",
        after: str = "",
        limit: int = 50,
    ) -> Sequence[ConversationRecord]:
        words, last = words_of(search), self._kept.get(after)
        if after and last is None:
            return []
        found = (
            each.record
            for each in sorted(self._kept.values(), key=_Conversation.order, reverse=True)
            if (last is None or each.order() < last.order())
            and (caller is None or caller.same_as(each.record.caller))
            and (not chatbot or each.record.chatbot == chatbot)
            and each.has(words)
        )
        return [*islice(found, limit)]

    async def processes(self, conversation_id: str, /) -> Sequence[str]:
        known = self._kept.get(conversation_id)
        return [] if known is None else [*known.processes]

    async def delete(self, conversation_id: str, /) -> bool:
        return self._kept.pop(conversation_id, None) is not None

    def _used(self, conversation_id: str) -> "_Conversation | None":
        known = self._kept.pop(conversation_id, None)
        if known is not None:
            self._kept[conversation_id] = known
        return known


@dataclass(eq=False, slots=True)
class _Conversation:
    """A conversation with its messages by id, and the ids of all its processes."""

    number: int
    record: ConversationRecord
    messages: dict[str, MessageRecord] = field(default_factory=dict[str, MessageRecord])
    processes: dict[str, None] = field(default_factory=dict[str, None])

    def order(self) -> tuple[datetime, int]:
        return self.record.updated_at, self.number

    def has(self, words: Sequence[str]) -> bool:
        """Whether each word is in the title or in a message."""
        missing = set(words)
        for text in (self.record.title, *(each.text for each in self.messages.values())) if words else ():
            missing -= {each for each in missing if each in searchable(text)}
        return not missing


def _added(known: StoredProcess, new: StoredProcess) -> StoredProcess:
    """A process after a change: records with a known number replace the old ones, others are added."""
    process, before = new.process, known.process
    definition = before.definition if process.definition is None else process.definition
    state = before.state if process.state is None else process.state
    return new._replace(
        process=process._replace(definition=definition, state=state),
        objects=_merged(known.objects, new.objects),
        history=_continued(known.history, new.history, new.history_from),
        spendings=_continued(known.spendings, new.spendings, new.spendings_from),
        questions=_merged(known.questions, new.questions),
        journal=_merged([each for each in known.journal if each.action not in new.ended_actions], new.journal),
        history_from=0,
        spendings_from=0,
        ended_actions=(),
    )


def _merged(known: Sequence[R], new: Sequence[R]) -> Sequence[R]:
    return sorted({each.number: each for each in (*known, *new)}.values(), key=itemgetter(0)) if new else known


def _continued(known: Sequence[object], new: Sequence[object], start: int) -> Sequence[object]:
    return [*known[:start], *new, *known[start + len(new) :]] if new else known
