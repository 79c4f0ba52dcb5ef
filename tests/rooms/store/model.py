"""A store as simple as it can be, of which several programs are one object: what every store has to do."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from goalport.base.errors import LeaseHeld, LeaseLost
from goalport.store import EventRecord, Lease, ProcessRecord, StoredProcess

Part = dict[int, object]


@dataclass
class Process:
    record: ProcessRecord
    parts: tuple[Part, Part, Part, Part, Part] = field(default_factory=lambda: ({}, {}, {}, {}, {}))

    def change(self, change: StoredProcess) -> None:
        old, new = self.record, change.process
        self.record = new._replace(
            definition=old.definition if new.definition is None else new.definition,
            state=old.state if new.state is None else new.state,
        )
        objects, history, spendings, questions, journal = self.parts
        for number, step in tuple(journal.items()):
            if getattr(step, "action", None) in change.ended_actions:
                del journal[number]
        objects.update({each.number: each for each in change.objects})
        history.update(enumerate(change.history, change.history_from))
        spendings.update(enumerate(change.spendings, change.spendings_from))
        questions.update({each.number: each for each in change.questions})
        journal.update({each.number: each for each in change.journal})

    @property
    def seen(self) -> Sequence[object]:
        return [self.record, *([each[number] for number in sorted(each)] for each in self.parts)]


@dataclass
class Family:
    root: str
    owner: int | None = None
    token: int = 1
    version: int = 0
    wake_at: datetime | None = None
    members: dict[str, Process] = field(default_factory=dict[str, Process])
    events: list[EventRecord] = field(default_factory=list[EventRecord])

    @property
    def lease(self) -> Lease:
        return Lease(self.root, self.token, self.version)

    @property
    def finished_at(self) -> datetime | None:
        over = all(each.record.final for each in self.members.values())
        return self.members[self.root].record.finished_at if over else None


class Model:
    """Programs are numbers here; `alive` are those that live. Without a fence there is only one, and one token."""

    def __init__(self, *, fenced: bool = True) -> None:
        self._fenced = fenced
        self.families: dict[str, Family] = {}
        self.alive: set[int] = set()
        self.messages: dict[int, tuple[str, object]] = {}
        self.replies: dict[int, object] = {}
        self.keys: dict[str, tuple[str, str]] = {}

    def save(
        self,
        me: int,
        changes: Sequence[StoredProcess],
        lease: Lease,
        wake_at: datetime | None,
        events: Sequence[EventRecord],
        *,
        release: bool,
    ) -> Lease:
        if not lease.token and not changes:
            return lease
        family = self.families.get(lease.root)
        if family is None and not lease.token:
            family = self.families[lease.root] = Family(lease.root, me)
        if family is None:
            raise LeaseLost(lease.root)
        unclear = not lease.token and family.token == 1 and family.owner in {None, me}
        if not (unclear or lease.token == family.token):
            raise LeaseLost(lease.root)
        for each in changes:
            family.members.setdefault(each.process.id, Process(each.process)).change(each)
        family.version += 1
        family.events += events
        family.owner, family.wake_at = None if release else me, wake_at
        return family.lease

    def claim(self, me: int, process_id: str) -> Lease | None:
        family = self.family_of(process_id)
        if family is None:
            return None
        if not self._takeable(family, me) and family.owner != me:
            raise LeaseHeld(process_id)
        return self._taken(family, me)

    def release(self, lease: Lease) -> None:
        family = self.families.get(lease.root)
        if family is not None and family.token == lease.token:
            family.owner = None

    def due(self, me: int, limit: int) -> Sequence[Lease]:
        ready = [each for each in self.families.values() if self._due(each) and self._takeable(each, me)]
        ready.sort(key=lambda each: each.wake_at or datetime.max.replace(tzinfo=UTC))
        return [self._taken(each, me) for each in ready[:limit]]

    def prune(self, me: int, older_than: timedelta | None, keep: int | None) -> int:
        over = [
            (each.finished_at, number, each.root)
            for number, each in enumerate(self.families.values())
            if each.finished_at is not None and self._takeable(each, me)
        ]
        over.sort(reverse=True)
        now = datetime.now(UTC)
        old = {root for at, _, root in over if older_than is not None and now - at > older_than}
        dropped = old | {root for _, _, root in (over[keep:] if keep is not None else [])}
        for each in dropped:
            del self.families[each]
        return len(dropped)

    def drop(self, me: int, root: str) -> bool:
        family = self.families.get(root)
        if family is None:
            return False
        if not self._takeable(family, me) and family.owner != me:
            raise LeaseHeld(root)
        del self.families[root]
        for number in [number for number, (process, _) in self.messages.items() if process in family.members]:
            del self.messages[number]
            self.replies.pop(number, None)
        return True

    def send(self, number: int, process_id: str, value: object) -> None:
        self.messages[number] = process_id, value

    def inbox(self, me: int) -> Sequence[tuple[int, str, object]]:
        families = {number: self.family_of(each) for number, (each, _) in self.messages.items()}
        mine = [number for number, family in families.items() if family is not None and family.owner == me]
        return [(each, *self.messages[each]) for each in mine if each not in self.replies]

    def reply(self, number: int, value: object) -> None:
        if number in self.messages:
            self.replies.setdefault(number, value)

    def withdraw(self, number: int) -> bool:
        if self.messages.pop(number, None) is None:
            return self.replies.pop(number, None) is None
        return number not in self.replies

    def join(self, key: str, digest: str, process_id: str, instead_of: str) -> tuple[str, str]:
        if self.keys.get(key, ("", instead_of))[1] == instead_of:
            self.keys[key] = digest, process_id
        return self.keys[key]

    def seen(self, process_id: str) -> tuple[Mapping[str, Sequence[object]], int]:
        family = self.family_of(process_id)
        if family is None:
            return {}, 0
        return {name: each.seen for name, each in family.members.items()}, family.version

    def lengths(self, process_id: str) -> tuple[int, int]:
        """How long the history of a process is, and how many costs it has."""
        family = self.family_of(process_id)
        if family is None:
            return 0, 0
        _, history, spendings, *_ = family.members[process_id].parts
        return len(history), len(spendings)

    def listed(self, statuses: Collection[str]) -> Collection[str]:
        members = (each for family in self.families.values() for each in family.members.values())
        return {each.record.id for each in members if not statuses or each.record.status in statuses}

    def family_of(self, process_id: str) -> Family | None:
        return next((each for each in self.families.values() if process_id in each.members), None)

    def _takeable(self, family: Family, me: int) -> bool:
        return family.owner is None or (family.owner != me and family.owner not in self.alive)

    def _due(self, family: Family) -> bool:
        return family.wake_at is not None and family.wake_at <= datetime.now(UTC)

    def _taken(self, family: Family, me: int) -> Lease:
        if family.owner != me:
            family.owner = me
            family.token += self._fenced
        return family.lease
