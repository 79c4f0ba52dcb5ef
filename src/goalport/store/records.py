"""The records of processes and conversations, and the protocols of their stores.

A record is plain data. It refers to other processes by their ids and to objects by their numbers, so that a store needs
to know neither what an agent is nor how a process runs. Its values are objects of the program; a store on a disk
encodes them. A conversation is a tree of messages: each has the id of the one before it, and the head of the
conversation is the last message of the shown branch. Messages are only added; an edited message begins another branch.
Their values are JSON data, in memory too, since conversations outlive the classes of a program. Above: `process` makes
records of a process and restores a process from records, and the platform decides when.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

import anyio

from goalport.base.caller import Caller
from goalport.base.errors import BadInput

_MOST_WORDS: Final = 100
"""The most different words of a search: each is looked for in every message."""
_NO_TEXT: Final = dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd")
"""Characters that not every database accepts, with their replacement."""


class ProcessRecord(NamedTuple):
    """A process without its objects: what lists show, and what is needed to continue it."""

    id: str
    root: str
    """The id of the root process, which a caller started: this process or its topmost ancestor."""
    parent: str
    """The id of the process whose action started it; empty for the root."""
    agent: str
    """The name of the agent."""
    caller: Caller
    status: str
    ended: bool
    """Whether nothing more happens unless somebody acts from outside."""
    final: bool
    """Whether it can never continue; a stuck process has ended, but is not final."""
    created_at: datetime
    finished_at: datetime | None
    long: bool
    """Whether its caller may fetch the result later: it ran long, asked people, or has a goal declared `long`."""
    result: int | None
    """The number of the result object; None: there is none."""
    seconds_run: float
    """Seconds that it has run, without the time in which it waited; 0 in lists, which do not read it."""
    definition: object
    """The agent, the options and the tool groups with which the process began. It never changes. None in a change: the
    store has it; None in a list: it was not read."""
    state: object
    """Everything else that changes while it runs, without the objects. None in a change: as stored before, since an
    action has not ended; None in a list: it was not read."""


class ObjectRecord(NamedTuple):
    """An object that a process knows or knew. It is never changed; only new objects are added."""

    number: int
    """Its place in the order in which objects were added to the process, from 0. An object that was added twice has two
    records; it is the same object in both."""
    value: object
    kind: object = None
    """Its declared type; None: only its class is known."""


class QuestionRecord(NamedTuple):
    """A question of a process to a person, with its answer once there is one."""

    number: int
    """Its place among the questions of the process, from 0. A later save of the question replaces this record."""
    id: str
    action: str
    """The name of the action that asked."""
    wait: object
    """What is asked: a `goalport.agents.WaitFor`."""
    in_action: bool
    """Whether the action continues with the answer; otherwise it ended with the question."""
    asked_at: datetime
    status: str
    answer: object = None
    reason: str = ""


class JournalRecord(NamedTuple):
    """A step of an action that has begun and is not over."""

    number: int
    """Its place among the steps of the process. It is never used again, even if the step is deleted."""
    action: str
    kind: str
    """`begun`, `reply` of a model, `result` of a tool, `question`, `approval`, or `child`: a process it started."""
    name: str
    """The name by which the action finds the step when it begins again."""
    value: object
    """The reply or the result; the id of the question or sub-process; for `begun`, the number of the action."""


class EventRecord(NamedTuple):
    """An event of a process in a family."""

    number: int
    """Its place among the events of the family. Numbers only grow; some are never used."""
    value: object
    """The event as JSON data."""


class StoredProcess(NamedTuple):
    """A process with its records; as a change, with the records to be added."""

    process: ProcessRecord
    objects: Sequence[ObjectRecord] = ()
    history: Sequence[object] = ()
    """The actions that ran, in order."""
    spendings: Sequence[object] = ()
    """What its own models cost, in order."""
    questions: Sequence[QuestionRecord] = ()
    journal: Sequence[JournalRecord] = ()
    whole: bool = True
    """False: only the result, the history and the costs are kept; a store may delete the rest."""
    history_from: int = 0
    """In a change, the number of history entries before these."""
    spendings_from: int = 0
    """In a change, the number of costs before these."""
    ended_actions: Sequence[str] = ()
    """In a change, the actions whose stored steps are deleted before the steps of the change are added."""


class Lease(NamedTuple):
    """The right of one program to run the processes of a family and to save them."""

    root: str
    """The id of the root process."""
    token: int = 0
    """Increases when another program takes the family: saves with an older token are refused. 0: not stored yet."""
    version: int = 0
    """The number of saves of the family. A program that knows a lower version has to read it again."""


class Runner(NamedTuple):
    """The program that has the lease of a family, to be shown to people."""

    host: str
    """The name of its machine."""
    pid: int
    alive: bool
    """Whether its heartbeat is recent; otherwise others may take the family over."""


class ProgramMessage(NamedTuple):
    """A message from a program to the one that runs a family."""

    number: int
    process: str
    value: object


class MessageRecord(NamedTuple):
    """A message of a conversation. It is never changed; only new messages are added."""

    id: str
    parent: str
    """The id of the message before it in its branch; empty for a message that begins the conversation."""
    role: str
    """`user`, `assistant`, `system`, `tool` or `summary`."""
    name: str
    """The name of the speaker; empty if only the role is known."""
    text: str
    """The text for searches."""
    value: object
    """The message as JSON data."""
    at: datetime
    number: int = 0
    """Its place among all messages of the conversation, from 1; the store sets it."""


class ConversationRecord(NamedTuple):
    """A conversation without its messages: what lists show, and what is needed to continue it."""

    id: str
    chatbot: str
    """The name of the chatbot."""
    caller: Caller
    title: str
    head: str
    """The id of the last message of the shown branch; empty if there is no message."""
    process: str
    """The id of the process that continues it; empty for none."""
    context_id: str
    """The context that it begins with and adds to; empty for none."""
    finished: bool
    """Whether it has reached its goal, so that no message follows."""
    created_at: datetime
    updated_at: datetime
    version: int = 0
    """The number of saves."""


class ConversationStore(Protocol):
    """Stores conversations, for one program or several that use the same database: versions show conflicts.

    Its methods raise `StoreError` if the database cannot be used; then nothing is written.
    """

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        """Replace the stored conversation if it still has this version, and add messages; all of it or nothing.

        Version 0 creates one. Returns the conversation with its new version; None if it was changed or deleted
        meanwhile, or exists already. A stored message is never replaced by one with the same id.
        """
        ...

    async def find(self, conversation_id: str, /) -> ConversationRecord | None:
        """The conversation of that id; None if there is none."""
        ...

    async def messages(self, conversation_id: str, /) -> Sequence[MessageRecord]:
        """The messages of a conversation, of all its branches, in the order in which they were added."""
        ...

    async def list(
        self,
        *,
        caller: Caller | None = None,
        chatbot: str = "",
        search: str = "",
        after: str = "",
        limit: int = 50,
    ) -> Sequence[ConversationRecord]:
        """Conversations, the most recently updated first; `caller` and `chatbot` filter them.

        `search`: each of its words occurs in the title or a message, in any case, also inside a longer word. A page
        begins after the conversation with the id `after`; it is empty if that one is not stored. Raises `BadInput` for
        a search of more than a hundred different words.
        """
        ...

    async def processes(self, conversation_id: str, /) -> Sequence[str]:
        """The ids of all processes of a conversation, the present one last."""
        ...

    async def delete(self, conversation_id: str, /) -> bool:
        """Delete a conversation with all its messages. Returns whether there was one of that id."""
        ...


class ProcessStore(Protocol):
    """Stores the records of processes for one program, perhaps with others that use the same database.

    A root process and its sub-processes are a family. A program runs and saves a family under a lease, which is valid
    while the program lives. Times are compared by the clock of the database. A store for a single program need not
    define the methods for communication between programs: it inherits them from this class.
    """

    durable: bool
    """Whether its data outlives the program. Then the values in its records are JSON data."""
    max_waiting: int
    """The most processes that may wait for people."""
    conversations: ConversationStore
    """The store of conversations."""

    def attach(self, watched: Callable[[str], bool], /) -> None:
        """Set the function that returns, for a root's id, whether somebody watches the family.

        A store with little room does not delete watched families.
        """
        ...

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
        """Save the records of processes of one family, all of them or none; return the lease with the new version.

        Objects, history, costs, steps, questions and `events` are added, or replace stored ones of the same number, so
        that a save may be repeated. The rest replaces what was stored. A lease with token 0 creates the family. From
        `wake_at` on, `due` returns the family if no program has it; None: never. With `release` the lease ends. Raises
        `LeaseLost` if the token is no longer that of the family, or the family is gone; `StoreError`.
        """
        ...

    async def claim(self, process_id: str, /) -> Lease | None:
        """Acquire the lease of a process's family, in order to run it; None: the process is unknown or was deleted.

        If this program has the lease already, it is renewed. Raises `LeaseHeld` if another living program has it.
        """
        ...

    async def release(self, lease: Lease, /) -> None:
        """Release a lease without a save; nothing happens if it is lost."""
        ...

    async def versions(self, roots: Sequence[str], /) -> Mapping[str, int]:
        """The versions of families by their roots; unknown ones are omitted."""
        ...

    async def held(self, roots: Sequence[str], /) -> Sequence[str]:
        """Those of the roots whose leases this program has."""
        ...

    async def join(self, key: str, digest: str, process_id: str, /, *, instead_of: str = "") -> tuple[str, str]:
        """The digest and the process stored under a key. If there are none, these arguments are stored.

        If the key leads to the process `instead_of`, the arguments replace it. A key is deleted a day later at the
        earliest.
        """
        ...

    async def forget_keys(self, process_ids: Collection[str], /) -> None:
        """Delete the keys of these processes and of their turns."""
        ...

    async def context_ids(self) -> Sequence[str]:
        """The ids of all stored contexts."""
        ...

    async def find_context(self, context_id: str, /) -> object:
        """The value of the context of that id; None if there is none."""
        ...

    async def save_context(self, context_id: str, value: object, /, *, instead_of: object) -> bool:
        """Save a context if `instead_of` is still its stored value (None: not stored). Returns False if it is not.

        The value is not None; in a store that outlives the program, it is JSON data.
        """
        ...

    async def delete_context(self, context_id: str, /) -> bool:
        """Delete the context of that id. Returns whether there was one. Nothing else deletes contexts."""
        ...

    async def events(self, root: str, /, after: int, limit: int) -> Sequence[EventRecord]:
        """The next events of a family after number `after`, by the id of its root, in order.

        Events of one save are returned together, so there may be a few more than `limit`.
        """
        ...

    async def find(self, process_id: str, /) -> ProcessRecord | None:
        """The record of a process; None if it is unknown or was dropped."""
        ...

    async def family(self, process_id: str, /) -> tuple[Sequence[StoredProcess], int]:
        """All processes of a process's family, the root first and each before its sub-processes.

        The number is the version of the family. There are none if the process is unknown or was deleted.
        """
        ...

    async def records(
        self,
        *,
        after: str = "",
        limit: int | None = None,
        caller: Caller | None = None,
        statuses: Collection[str] = (),
        newest_first: bool = False,
    ) -> Sequence[ProcessRecord]:
        """The records of all stored processes, oldest first, without their definitions and states.

        They begin after the process with the id `after`; `caller` and `statuses` filter them.
        """
        ...

    async def counts(self, *, without: Collection[str] = ()) -> Mapping[str, int]:
        """The number of stored processes by status, without those of the ids `without`."""
        ...

    async def overflow(self) -> Sequence[str]:
        """The ids of waiting processes for which there is no room, longest waiting first."""
        ...

    async def prune(self, *, older_than: timedelta | None = None, keep: int | None = None) -> int:
        """Delete families that ended longer ago than `older_than`, and all but the newest `keep`; return the number.

        A family with a waiting, stuck or running process is never deleted.
        """
        ...

    async def drop(self, root: str, /) -> bool:
        """Delete a family by the id of its root, whether it has ended or not, with the messages for it.

        A lease of this program for it is lost then. Its costs of the last day still count for `spent`. Returns whether
        there was one. Raises `LeaseHeld` if another living program has its lease; `StoreError`.
        """
        ...

    # Communication between programs; nothing to do for a single program.

    async def runner(self, process_id: str, /) -> Runner | None:
        """The program that has the lease of the family of a process; None: none has, or the store is not durable."""
        return None

    async def due(self, limit: int, /, *, without: Collection[str] = ()) -> Sequence[Lease]:
        """Acquire the leases of families that are due and that no living program has, longest due first.

        Those of the roots `without` are left to others.
        """
        return ()

    async def due_here(self) -> Sequence[Lease]:
        """The leases of this program for families that are due, such as those that run."""
        return ()

    async def heartbeat(self, seconds: float, /) -> None:
        """Report that this program lives; others may take its leases if there is no other heartbeat for `seconds`."""

    async def wait_for_changes(self, seconds: float, /) -> None:
        """Return when another program may have written something, or after `seconds`."""
        await anyio.sleep(seconds)

    async def send(self, process_id: str, value: object, /) -> int:
        """Send a message (JSON data) to the program that runs a family; return its number."""
        return 0

    async def inbox(self) -> Sequence[ProgramMessage]:
        """The unanswered messages for the families whose leases this program has, oldest first."""
        return ()

    async def reply(self, number: int, value: object, /) -> None:
        """Reply to a message, unless it has a reply or was withdrawn; the value is JSON data and not None."""

    async def replied(self, number: int, /) -> object:
        """The reply to a message, None as long as there is none."""
        return None

    async def withdraw(self, number: int, /) -> bool:
        """Withdraw a message. Returns False if there is a reply to it, which stays until a second withdrawal."""
        return True

    async def spent(self, caller: Caller, since: datetime, /) -> Mapping[str, float]:
        """The costs of a caller's processes since a moment, in US dollars, by the id of their root.

        Only stored costs count. For processes that run in this program, their ledgers may have more.
        """
        return {}


def parents_first(members: Sequence[StoredProcess]) -> Iterator[StoredProcess]:
    """The processes of a family, the root first and each before its sub-processes."""
    known = {each.process.id for each in members}
    children: dict[str, list[StoredProcess]] = {}
    for each in members:
        children.setdefault(each.process.parent if each.process.parent in known else "", []).append(each)
    waiting = children.get("", [])
    for each in waiting:
        yield each
        waiting += children.get(each.process.id, [])


def searchable(text: str) -> str:
    """A text prepared for searches: case-folded."""
    return text.casefold().translate(_NO_TEXT)


def words_of(search: str) -> Sequence[str]:
    """The different words of a search, prepared like searchable texts. Raises `BadInput` for too many."""
    words = list(dict.fromkeys(searchable(search).split()))
    if len(words) > _MOST_WORDS:
        raise BadInput(
            f"Expected at most {_MOST_WORDS} different words to search for, but got {len(words)}. Search for fewer."
        )
    return words
