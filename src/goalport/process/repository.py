"""Finds processes by their ids: those that run in this program, and those of which a store has records.

A process that rests is given to the store and let go here. It is made of its records again when somebody asks for it or
lets it go on; as long as the program references it, it stays the same object. A family is stored as a whole, when
nothing runs in it any more. Below: the records. Above: the platform, which runs processes.
"""

import re
import secrets
from collections import Counter
from collections.abc import Mapping
from logging import getLogger
from typing import Protocol
from weakref import WeakKeyDictionary, WeakValueDictionary

import anyio

from goalport.errors import StoreError, Unstorable
from goalport.process.agent_process import AgentProcess
from goalport.process.persistence import Recorder, family_of, record_of, recordable, restored
from goalport.store import Codec, Json, ProcessRecord, ProcessStore, Seals, StoredProcess, StoredTypes

__all__ = ["AgentProcessRepository", "Definitions", "new_id"]

_log = getLogger(__name__)

_ADJECTIVES = """
amber bold brisk calm clear crisp deft eager early fair fleet fond frank fresh gentle glad grand green happy hardy
honest humble keen kind lively lucid merry mild neat nimble noble plain proud quick quiet rapid ready silver smart
snug solid sound spry steady still sunny swift tidy true vivid warm wise witty young zesty
"""
_NOUNS = """
badger beaver bison crane curlew deer dove eagle egret falcon ferret finch fox gannet goose hare hawk heron horse
ibis jackdaw kestrel kite lark linnet lynx magpie marten merlin mole moose newt osprey otter owl panda pelican
pigeon plover puffin rabbit raven robin salmon seal shrew sparrow stork swan swift tern thrush toad trout vole wren
"""
_UNFIT = re.compile(r"[^A-Za-z0-9._]+")
_FIRST, _SECOND = _ADJECTIVES.split(), _NOUNS.split()


class Definitions(Protocol):
    """What processes run by, as the platform knows it."""

    def written(self, process: AgentProcess, codec: Codec, /) -> Json:
        """What a process runs by, as JSON data. Raises `Unstorable` if it cannot be found again by that."""
        ...

    def restored(self, record: ProcessRecord, parent: AgentProcess | None, /) -> AgentProcess:
        """A process for a record of it, which has nothing on its blackboard yet. Raises `Unreadable`."""
        ...


class AgentProcessRepository:
    """The processes of a platform, wherever they are kept.

    Parameters: `store` keeps the records. `definitions` says what processes run by. `seals` encrypts their secrets.
    """

    def __init__(self, store: ProcessStore, definitions: Definitions, seals: Seals | None = None) -> None:
        self.store = store
        self._seals = seals
        self._definitions = definitions
        self._types = StoredTypes()
        self._held: dict[str, AgentProcess] = {}
        """The processes that run, and those of which the records do not say everything."""
        self._known: WeakValueDictionary[str, AgentProcess] = WeakValueDictionary()
        """The processes that live in the memory of the program."""
        self._turns: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        """Whose turn it is to save a family, by the id of its root."""
        self._recorders: WeakKeyDictionary[AgentProcess, Recorder] = WeakKeyDictionary()

    def hold(self, process: AgentProcess) -> None:
        """Keep a process that begins to run, with its family, until it is stored."""
        if not process.options.ephemeral:
            self._held[process.id] = self._known[process.id] = process

    async def claim(self, process: AgentProcess) -> None:
        """Have the store keep what it has of the family of a process that begins to run."""
        try:
            kept = process not in self._recorders or await self.store.claim(process.id)
        except StoreError as error:
            _log.warning("Process %s runs, and the store does not know of it: %s", process.id, error)
            return
        if not kept:
            for each in family_of(process):
                self._recorders.pop(each, None)  # the next records say everything again

    def is_stored(self, process: AgentProcess) -> bool:
        """Whether the store has records of a process that lives in this program."""
        return process in self._recorders

    async def save(self, process: AgentProcess) -> None:
        """Store the family of a process, unless some of it runs still."""
        if process.options.ephemeral:
            return
        if not self.store.durable:
            await self._save(process)
            return
        root = next(family_of(process))
        async with self._turns.setdefault(root.id, anyio.Lock()):  # records are increments: the next follow these
            await self._save(process)

    async def _save(self, process: AgentProcess) -> None:
        family = [each for each in family_of(process) if not each.options.ephemeral]
        if any(each.driven or each.outcome is None for each in family):
            return
        try:
            changes = [self._changes(each) for each in family]
            await self.store.save(changes)
        except (StoreError, Unstorable) as error:
            _log.warning("Process %s is kept in memory only: %s", process.id, error)
            return
        except Exception:
            _log.exception("Process %s is kept in memory only.", process.id)
            return
        for each, stored in zip(family, changes, strict=True):
            self._recorders[each].confirm(stored)
            if recordable(each) and not each.driven:  # it may have been continued while it was written
                self._held.pop(each.id, None)

    async def save_all(self) -> None:
        """Try again to store what rests and is kept in memory only."""
        for process in tuple(self._held.values()):
            await self.save(process)

    async def find(self, process_id: str) -> AgentProcess | None:
        """The process of that id; None if it is unknown or was dropped."""
        if process_id in self._held:
            return self._held[process_id]
        family = await self.store.family(process_id)
        if not family:
            return None
        known = self._known.get(process_id)
        if known is not None:
            return known
        self._recorders.update(found := restored(family, self._definitions.restored, self._codec))
        self._known.update((each.id, each) for each in found)
        return self._known[process_id]

    async def counts(self) -> Mapping[str, int]:
        """How many processes have each status; those that live in this program count as they are now."""
        counts = Counter(await self.store.counts())
        for process in tuple(self._held.values()):
            stored = await self.store.find(process.id)
            if stored is not None:
                counts[stored.status] -= 1
            counts[str(process.status)] += 1
        return +counts

    async def records(self) -> list[ProcessRecord]:
        """The records of all processes, oldest first; of one that lives in this program, as it is now."""
        records = {each.id: each for each in await self.store.records()}
        here = [each for each in self._known.values() if each.id in records or each.id in self._held]
        records.update((each.id, record_of(each)) for each in here)
        return sorted(records.values(), key=lambda each: each.created_at)

    def renew_types(self) -> None:
        """Look classes up anew from now on, because a workspace was loaded again."""
        self._types = StoredTypes()

    def _codec(self, process_id: str) -> Codec | None:
        if not self.store.durable:
            return None
        return Codec(self._types, seal=None if self._seals is None else self._seals.of(process_id))

    def _changes(self, process: AgentProcess) -> StoredProcess:
        recorder = self._recorders.get(process)
        if recorder is None:
            recorder = self._recorders[process] = Recorder(self._codec(process.id))
        stored = recorder.changes(process)
        if self.store.durable:
            written = self._definitions.written(process, Codec(self._types))
            stored = stored._replace(process=stored.process._replace(definition=written))
        return stored


def new_id(*labels: str) -> str:
    """An id such as `quiet-otter-4f1c9a02d7be`: optional labels, two words that are easy to say, and 48 random bits."""
    words, digits = divmod(secrets.randbits(72), 1 << 48)
    second, first = divmod(words, len(_FIRST))
    marked = "".join(f"{_UNFIT.sub('-', label)}-" for label in labels)
    return f"{marked}{_FIRST[first]}-{_SECOND[second % len(_SECOND)]}-{digits:012x}"
