"""Makes the records of the processes of a family: what a store is told at each step, and when they rest.

Below: the recorder of each process. Above: the repository, which saves the records.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from logging import getLogger
from typing import Final, Protocol
from weakref import WeakKeyDictionary, WeakSet

from goalport.base.errors import StoreError, Unstorable
from goalport.base.events import ProcessNotStored
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.family import family_of
from goalport.runtime.process.recording import Recorder, recordable, remains_of
from goalport.store import Codec, Json, ProcessRecord, Seals, StoredProcess, StoredTypes

_log = getLogger(__name__)

_WHOLE: Final = 100
"""How many families keep everything after their end, if their store does not."""


class Definitions(Protocol):
    """What processes run by, as the platform knows it."""

    def written(self, process: AgentProcess, codec: Codec, /) -> Json: ...
    def restored(self, record: ProcessRecord, parent: AgentProcess | None, codec: Codec, /) -> AgentProcess: ...


class FamilyRecords:
    """The records of the processes that live in this program, as far as a store does not have them.

    Parameters: `definitions` says what processes run by. `seals` encrypts their secrets. `durable`: the store outlives
    the program, so that the records have to be what JSON can say.
    """

    def __init__(self, definitions: Definitions, seals: Seals | None, *, durable: bool) -> None:
        self._definitions, self._seals, self._durable = definitions, seals, durable
        self._types = StoredTypes()
        self._recorders: WeakKeyDictionary[AgentProcess, Recorder] = WeakKeyDictionary()
        self._not_stored = NotStored()
        self._unwritable: WeakSet[AgentProcess] = WeakSet()
        """The processes whose records cannot say how they stand."""
        self._ended: deque[AgentProcess] = deque(maxlen=_WHOLE)

    def stored(self, process: AgentProcess) -> bool:
        """Whether the store has records of a process."""
        recorder = self._recorders.get(process)
        return recorder is not None and recorder.defined

    def made(self, record: ProcessRecord, parent: AgentProcess | None) -> AgentProcess:
        """A process for a record of it, which has nothing on its blackboard yet. Raises `Unreadable`."""
        return self._definitions.restored(record, parent, Codec(self._types))

    def know(self, found: Mapping[AgentProcess, Recorder]) -> None:
        """Go on with the records of processes that were made of records."""
        self._recorders.update(found)

    def forget(self, root: AgentProcess) -> None:
        """Say everything of a family again, because the store has dropped it."""
        for each in family_of(root):
            self._recorders.pop(each, None)

    def changes(self, process: AgentProcess) -> StoredProcess:
        """The records of a process between two actions. Raises `Unstorable`."""
        recorder = self._recorders.get(process)
        if recorder is None:
            recorder = self._recorders[process] = Recorder(self.codec_for(process.id))
        stored = recorder.changes(process)
        if self._durable:
            written = None if recorder.defined else self._definitions.written(process, Codec(self._types))
            stored = stored._replace(process=stored.process._replace(definition=written))
        return stored

    def at_rest(self, family: Sequence[AgentProcess]) -> dict[AgentProcess, StoredProcess]:
        """The records of a family in which nothing runs; of one that is over, only the end if the store ends with us.

        Raises `Unstorable`.
        """
        over = not self._durable and all(each.over for each in family)
        return {each: remains_of(each) if over else self.changes(each) for each in family}

    def steps(self, process: AgentProcess, *, begins: AgentProcess | None = None) -> StoredProcess:
        """What the running actions of a stored process have done since.

        A process that they have started is told of when it is stored itself: with `begins`, which is stored now.
        """
        return self._with_stored_children(process, self._recorders[process].steps(process), begins)

    def _with_stored_children(
        self, process: AgentProcess, change: StoredProcess, begins: AgentProcess | None = None
    ) -> StoredProcess:
        missing = {each.id for each in process.children if each is not begins and not self.stored(each)}
        if not missing:
            return change
        journal = [each for each in change.journal if each.kind != "child" or each.value not in missing]
        return change._replace(journal=journal)

    def checkpoint(self, process: AgentProcess) -> dict[AgentProcess, StoredProcess]:
        """The records of a process, with the steps of the action that started it if it is new. Raises `Unstorable`."""
        changes: dict[AgentProcess, StoredProcess] = {}
        parent = process.parent
        if parent is not None and not self.stored(process):
            changes[parent] = self.steps(parent, begins=process)
        changes[process] = self._with_stored_children(process, self.changes(process))
        return {each: stored for each, stored in changes.items() if self._recorders[each].has_changes(stored)}

    def resting(self, root: AgentProcess) -> dict[AgentProcess, StoredProcess]:
        """The records of a family that have changed, of the processes that nothing runs."""
        changes: dict[AgentProcess, StoredProcess] = {}
        for each in family_of(root):
            if each.driven or each.options.ephemeral:
                continue
            try:
                stored = self._with_stored_children(each, self.changes(each))
            except Unstorable as error:
                self.tell_not_stored(each, error)
                self._unwritable.add(each)
                if not (each.over and self._recorders[each].defined):
                    continue
                stored = self._recorders[each].ending(
                    each, f"It ended as {each.status}, which cannot be stored: {error}"
                )
            if self._recorders[each].has_changes(stored):
                changes[each] = stored
        return changes

    def confirm(self, process: AgentProcess, stored: StoredProcess) -> bool:
        """Note that the store has records of a process. Returns whether this program may let it go."""
        if not self._durable and not stored.whole:
            if process.parent is None:
                self._ended.append(process)
            return True
        self._recorders[process].confirm(stored)
        self._not_stored.stored(process)
        return self.say_all(process)

    def say_all(self, process: AgentProcess) -> bool:
        """Whether a process that rests can be made of its records without anybody missing anything."""
        return recordable(process) and process not in self._unwritable

    def only_here(self, process: AgentProcess) -> bool:
        """Whether only this program can go on with a process, because its records cannot be written."""
        return process in self._unwritable and not process.over

    def tell_not_stored(self, process: AgentProcess, error: Exception) -> None:
        """Tell the log and the listeners that a process is kept in memory only."""
        self._not_stored.tell(process, error)

    def renew_types(self) -> None:
        """Look classes up anew from now on, because a workspace was loaded again."""
        self._types = StoredTypes()

    def codec(self, process_id: str) -> Codec:
        """What writes and reads what belongs to a process."""
        return Codec(self._types, seal=None if self._seals is None else self._seals.of(process_id))

    def codec_for(self, process_id: str) -> Codec | None:
        """What writes and reads the records of a process; None: they hold the values themselves."""
        return self.codec(process_id) if self._durable else None


class NotStored:
    """Says of processes that they are kept in memory only, and why, once for each reason: in the log, and as an event.

    They go on all the same.
    """

    def __init__(self) -> None:
        self._reasons: WeakKeyDictionary[AgentProcess, str] = WeakKeyDictionary()

    def tell(self, process: AgentProcess, error: Exception) -> None:
        """Tell that a process could not be stored, unless the same was told before and it was not stored since."""
        expected = isinstance(error, StoreError | Unstorable)
        reason = str(error) if expected else f"Unexpected {type(error).__name__}; the log has the traceback."
        if self._reasons.get(process) == reason:
            return
        self._reasons[process] = reason
        _log.warning("Process %s is kept in memory only: %s", process.id, reason, exc_info=None if expected else error)
        if process.listeners.attentive:
            process.emit(ProcessNotStored(reason, process_id=process.id))

    def stored(self, process: AgentProcess) -> None:
        """Note that a process was stored; if it cannot be later, that is told again."""
        self._reasons.pop(process, None)


def is_alone(process: AgentProcess) -> bool:
    """Whether a process is over that is all of its family, and of which no events are kept."""
    others = process.parent is not None or process.children
    return process.over and not (others or process.driven or process.options.keep_events)
