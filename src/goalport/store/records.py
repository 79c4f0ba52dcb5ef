"""The records of processes, and the protocol of a store that keeps them.

A record is plain data. It refers to other processes by their ids and to objects by their numbers, so that a store needs
to know neither what an agent is nor how a process runs. The values in it are the objects of the program; a store that
writes to a disk encodes them. Above: `process` makes records of a process and makes a process of records again, and
the platform decides when.
"""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol

from goalport.caller import Caller

__all__ = [
    "JournalRecord",
    "ObjectRecord",
    "ProcessRecord",
    "ProcessStore",
    "QuestionRecord",
    "StoredProcess",
    "parents_first",
]


class ProcessRecord(NamedTuple):
    """What is known of a process without its objects: what lists show, and what is needed to let it go on."""

    id: str
    root: str
    """The id of the process that a caller started: its own, or that of the process above all those that started it."""
    parent: str
    """The id of the process whose action started it; empty for the root."""
    agent: str
    """The name of the agent."""
    caller: Caller
    status: str
    ended: bool
    """Whether nothing more happens unless somebody acts from outside."""
    final: bool
    """Whether it can never go on; a process that is stuck has ended and can."""
    created_at: datetime
    finished_at: datetime | None
    long: bool
    """Whether its caller may fetch the result later: it ran long, asked people, or has a goal that is declared long."""
    result: int | None
    """The number of the object that is the result; None: there is none."""
    definition: object
    """What the process runs by: the agent, the options and the tool groups with which it began."""
    state: object
    """Everything else that changes while it runs, without the objects."""


class ObjectRecord(NamedTuple):
    """An object that a process knows or knew. It is never changed, only others are added."""

    number: int
    """Its place in the order in which the process got to know its objects, from 0. An object that was added twice has
    two records; it is the same object in both."""
    value: object
    kind: object = None
    """The type that was declared for it; None: only its class is known."""


class QuestionRecord(NamedTuple):
    """A question of a process to a person, with its answer once there is one."""

    id: str
    action: str
    """The name of the action that asked."""
    wait: object
    """What is asked: a `goalport.domain.WaitFor`."""
    in_action: bool
    """Whether the action continues with the answer; otherwise it ended with the question."""
    asked_at: datetime
    status: str
    answer: object = None
    reason: str = ""


class JournalRecord(NamedTuple):
    """A step of an action that has begun and is not over."""

    action: str
    kind: str
    """`reply` of a model, `result` of a tool, `question`, `approval`, or `child` for a process that it started."""
    name: str
    """The name of the step, by which the action finds it when it begins again."""
    value: object
    """The reply or the result; the id of the question or of the process."""


class StoredProcess(NamedTuple):
    """A process with its records."""

    process: ProcessRecord
    objects: Sequence[ObjectRecord] = ()
    history: Sequence[object] = ()
    """The actions that ran, in order."""
    spendings: Sequence[object] = ()
    """What its own models cost, in order."""
    questions: Sequence[QuestionRecord] = ()
    journal: Sequence[JournalRecord] = ()
    whole: bool = True
    """False when only the result and the history are left, because it ended long ago."""


class ProcessStore(Protocol):
    """Keeps the records of processes. Processes that one of them started belong to its family."""

    @property
    def durable(self) -> bool:
        """Whether what it keeps outlives the program. Then the values in its records are what JSON can say."""
        ...

    @property
    def max_waiting(self) -> int:
        """For how many processes that wait for people there is room."""
        ...

    async def save(self, changes: Sequence[StoredProcess], /) -> None:
        """Keep the records of processes of one family, all of them or none.

        Objects, history and spendings are added to those that are kept already; everything else takes the place of what
        was kept.
        """
        ...

    async def claim(self, process_id: str, /) -> bool:
        """Keep the family of a process until it is saved again, because it is going to run.

        Returns False if it is unknown or was dropped.
        """
        ...

    async def find(self, process_id: str, /) -> ProcessRecord | None:
        """The record of a process; None if it is unknown or was dropped."""
        ...

    async def family(self, process_id: str, /) -> Sequence[StoredProcess]:
        """A process and all that belong to its family, the root first and each before those that it started.

        It is empty if the process is unknown or was dropped.
        """
        ...

    async def records(self) -> Sequence[ProcessRecord]:
        """The records of all processes that are kept, oldest first."""
        ...

    async def counts(self) -> Mapping[str, int]:
        """How many processes that are kept have each status."""
        ...

    async def surplus(self) -> Sequence[str]:
        """The ids of processes that wait for people and for which there is no room, longest waiting first."""
        ...


def parents_first(members: Sequence[StoredProcess]) -> Iterator[StoredProcess]:
    """The processes of a family, the root first and each before those that it started."""
    known = {each.process.id for each in members}
    children: dict[str, list[StoredProcess]] = {}
    for each in members:
        children.setdefault(each.process.parent if each.process.parent in known else "", []).append(each)
    waiting = children.get("", [])
    for each in waiting:
        yield each
        waiting += children.get(each.process.id, [])
