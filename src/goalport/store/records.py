"""The records of processes and conversations, and the protocols of the stores that keep them.

A record is plain data. It refers to other processes by their ids and to objects by their numbers, so that a store needs
to know neither what an agent is nor how a process runs. The values in it are the objects of the program; a store that
writes to a disk encodes them. A conversation is a tree of messages: each names the one before it, and the head of the
conversation is the last message of the branch that is shown. Messages are only added; a message that is said again in
other words begins another branch. What they hold is what JSON can say, in memory too, since it outlives the classes of
a program. Above: `process` makes records of a process and makes a process of records again, and
the platform decides when.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple, Protocol

import anyio

from goalport.base.caller import Caller
from goalport.base.errors import BadInput

_MOST_WORDS: Final = 100
"""How many different words are searched for at once: each is looked for in every message."""
_NO_TEXT: Final = dict.fromkeys([0, *range(0xD800, 0xE000)], "\ufffd")
"""What not every database takes as a character, and what stands for it."""


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
    seconds_run: float
    """For how long it has run, without the time in which it waited; 0 in a list: it was not read."""
    definition: object
    """What the process runs by: the agent, the options and the tool groups with which it began. It never changes; None
    in a change: the store has it; None in a list: it was not read."""
    state: object
    """Everything else that changes while it runs, without the objects. None in a change: it is as it was stored, since
    an action of the process has not ended; None in a list: it was not read."""


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

    number: int
    """Its place among the questions of the process, from 0. A question that is saved again replaces what was saved."""
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
    """Its place among the steps of the process. It is never used again, also when the step is forgotten."""
    action: str
    kind: str
    """`begun`, `reply` of a model, `result` of a tool, `question`, `approval`, or `child`: a process it started."""
    name: str
    """The name of the step, by which the action finds it when it begins again."""
    value: object
    """The reply or the result; the id of the question or of the process; the number of the action that has begun."""


class EventRecord(NamedTuple):
    """What happened in a family of processes: an event of one of them."""

    number: int
    """Its place among the events of the family. Numbers only grow; some are never used."""
    value: object
    """The event, as JSON can say it."""


class StoredProcess(NamedTuple):
    """A process with its records; as a change, with those that are to be added."""

    process: ProcessRecord
    objects: Sequence[ObjectRecord] = ()
    history: Sequence[object] = ()
    """The actions that ran, in order."""
    spendings: Sequence[object] = ()
    """What its own models cost, in order."""
    questions: Sequence[QuestionRecord] = ()
    journal: Sequence[JournalRecord] = ()
    whole: bool = True
    """False: only the result, the history and the costs are kept; a store may drop what it has of the rest."""
    history_from: int = 0
    """In a change, how many entries of the history come before these."""
    spendings_from: int = 0
    """In a change, how many costs come before these."""
    over: Sequence[str] = ()
    """In a change, the actions whose steps are forgotten before those of the change are added."""


class Lease(NamedTuple):
    """The right of one program to run the processes of a family and to save them."""

    root: str
    """The id of the process that a caller started."""
    token: int = 0
    """Grows whenever the family changes hands: what is saved with an older one is refused. 0: nothing is stored yet."""
    version: int = 0
    """How often the family was saved. Who knows it by a lower version has to read it again."""


class Runner(NamedTuple):
    """The program that has the lease of a family, for people who look at it."""

    host: str
    """The name of its machine."""
    pid: int
    alive: bool
    """Whether it has said lately that it lives; otherwise others may take the family over."""


class Message(NamedTuple):
    """What a program wants from the program that runs a family."""

    number: int
    process: str
    value: object


class MessageRecord(NamedTuple):
    """A message of a conversation. It is never changed, only others are added."""

    id: str
    parent: str
    """The id of the message before it in its branch; empty for one that begins the conversation."""
    role: str
    """`user`, `assistant`, `system`, `tool` or `summary`."""
    name: str
    """Of the speaker; empty if there is no other than the role."""
    text: str
    """What is searched."""
    value: object
    """The message, as JSON can say it."""
    at: datetime
    number: int = 0
    """Its place among all messages of the conversation, from 1; the store gives it."""


class ConversationRecord(NamedTuple):
    """What is known of a conversation without its messages: what lists show, and what is needed to go on with it."""

    id: str
    chatbot: str
    """The name of the chatbot."""
    caller: Caller
    title: str
    head: str
    """The id of the last message of the branch that is shown; empty as long as there is none."""
    process: str
    """The id of the process that goes on with it; empty for none."""
    context_id: str
    """The context that it begins with and adds to; empty for none."""
    finished: bool
    """Whether it has reached its goal, so that no message follows."""
    created_at: datetime
    updated_at: datetime
    version: int = 0
    """How often it was saved."""


class ConversationStore(Protocol):
    """Keeps conversations, for one program or several that use the same database: their versions decide who was first.

    Its methods raise `StoreError` when the database cannot be used, and nothing is written then.
    """

    async def save(
        self, conversation: ConversationRecord, messages: Sequence[MessageRecord] = (), /
    ) -> ConversationRecord | None:
        """Replace the stored conversation if it still has this version, and add messages; all of it or nothing.

        Version 0 makes a new one. Returns the conversation with its new version; None if it was changed meanwhile, was
        deleted, or, as a new one, is there already. A stored message is never replaced by one with its id.
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
        """Conversations, the one that was updated last first; `caller` and `chatbot` leave others out.

        `search`: each of its words occurs in the title or a message, in capitals or not, also inside a longer word. A
        page begins after the conversation with the id `after`; it is empty if that one is not kept. Raises `BadInput`
        for a search of more than a hundred different words.
        """
        ...

    async def processes(self, conversation_id: str, /) -> Sequence[str]:
        """The ids of all processes that a conversation has had, the present one last."""
        ...

    async def delete(self, conversation_id: str, /) -> bool:
        """Drop a conversation with all its messages, for good. Returns whether there was one of that id."""
        ...


class ProcessStore(Protocol):
    """Keeps the records of processes for one program, perhaps beside others that use the same database.

    Processes that one of them started belong to its family. A program runs and saves a family under a lease, which it
    keeps as long as it lives. Times are compared by the clock of the database. A store for a single program need not
    define what programs ask of each other: it inherits that from this class.
    """

    durable: bool
    """Whether what it keeps outlives the program. Then the values in its records are what JSON can say."""
    max_waiting: int
    """For how many processes that wait for people there is room."""
    conversations: ConversationStore
    """The conversations, which are kept beside the processes."""

    def attach(self, watched: Callable[[str], bool], /) -> None:
        """From now on `watched` says of a family, by its root, whether somebody watches it.

        A store with little room does not drop it then.
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
        """Keep the records of processes of one family, all of them or none; return the lease with the new version.

        Objects, history, costs, steps and the `events` of the family are added to those that are kept already, and
        replace those of the same number, so that a save may be repeated; so do questions. The rest replaces what was
        kept. A lease with token 0 makes the family. From `wake_at` on, `due` gives the family to a program if none has
        it; None: never. With `release` the lease ends. Raises `LeaseLost` if the token is no longer that of the family,
        or the family is gone; `StoreError`.
        """
        ...

    async def claim(self, process_id: str, /) -> Lease | None:
        """Take the lease of the family of a process, because it is going to run; None: it is unknown or was dropped.

        A lease that this program has already is renewed. Raises `LeaseHeld` if another program that lives has it.
        """
        ...

    async def release(self, lease: Lease, /) -> None:
        """Give a lease back without a save; nothing happens if it is lost."""
        ...

    async def versions(self, roots: Sequence[str], /) -> Mapping[str, int]:
        """The versions of families by their roots; those that are not kept are left out."""
        ...

    async def held(self, roots: Sequence[str], /) -> Sequence[str]:
        """The roots of those of the families of which this program has the lease."""
        ...

    async def join(self, key: str, digest: str, process_id: str, /, *, instead_of: str = "") -> tuple[str, str]:
        """The digest and the process that are kept under a key. If there are none, the given ones are kept.

        If the key leads to the process `instead_of`, the given ones replace it. What is kept under a key is dropped a
        day later at the earliest.
        """
        ...

    async def forget_keys(self, process_ids: Collection[str], /) -> None:
        """Drop the keys that lead to these processes, or to turns of them."""
        ...

    async def context_ids(self) -> Sequence[str]:
        """The ids of all contexts that are kept."""
        ...

    async def find_context(self, context_id: str, /) -> object:
        """What is kept as the context of that id; None if there is nothing."""
        ...

    async def save_context(self, context_id: str, value: object, /, *, instead_of: object) -> bool:
        """Keep a context if `instead_of` is still what is kept (None: nothing). Returns False if it is not.

        The value is not None; in a store that outlives the program, it is what JSON can say.
        """
        ...

    async def delete_context(self, context_id: str, /) -> bool:
        """Drop what is kept as the context of that id. Returns whether there was anything. Nothing else drops it."""
        ...

    async def events(self, root: str, /, after: int, limit: int) -> Sequence[EventRecord]:
        """The next events of a family after the one of that number, by the id of its root, in order.

        Those of the same save come together, so there may be a few more than `limit`.
        """
        ...

    async def find(self, process_id: str, /) -> ProcessRecord | None:
        """The record of a process; None if it is unknown or was dropped."""
        ...

    async def family(self, process_id: str, /) -> tuple[Sequence[StoredProcess], int]:
        """A process and all that belong to its family, the root first and each before those that it started.

        The number is the version of the family. There are none if the process is unknown or was dropped.
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
        """The records of all processes that are kept, oldest first, without their definitions and states.

        `after` is the id of the process after which to begin; `caller` and `statuses` leave others out.
        """
        ...

    async def counts(self, *, without: Collection[str] = ()) -> Mapping[str, int]:
        """How many processes that are kept have each status, `without` those of these ids."""
        ...

    async def overflow(self) -> Sequence[str]:
        """The ids of processes that wait for people and for which there is no room, longest waiting first."""
        ...

    async def prune(self, *, older_than: timedelta | None = None, keep: int | None = None) -> int:
        """Drop families that ended longer ago than `older_than`, and all but the newest `keep`; return how many.

        A family in which something waits, is stuck or runs is never dropped.
        """
        ...

    async def drop(self, root: str, /) -> bool:
        """Drop a family by the id of its root, for good, whether it has ended or not, with what is left for it.

        A lease that this program has of it is lost then. What it has cost in the last day still counts for `spent`.
        Returns whether there was one. Raises `LeaseHeld` if another program that lives has its lease; `StoreError`.
        """
        ...

    # What programs ask of each other. One that is alone has nothing to say.

    async def runner(self, process_id: str, /) -> Runner | None:
        """The program that has the lease of the family of a process; None: none has, or the store is not durable."""
        return None

    async def due(self, limit: int, /, *, without: Collection[str] = ()) -> Sequence[Lease]:
        """Take the leases of families whose time to wake has come and that no living program has, the eldest first.

        Those of the roots `without` are left to others.
        """
        return ()

    async def due_here(self) -> Sequence[Lease]:
        """The leases that this program has of families whose time to wake has come, such as those that run."""
        return ()

    async def heartbeat(self, seconds: float, /) -> None:
        """Say that this program lives; others may take its leases when there is no other heartbeat for `seconds`."""

    async def wait_for_changes(self, seconds: float, /) -> None:
        """Return when another program may have written something, or after `seconds`."""
        await anyio.sleep(seconds)

    async def send(self, process_id: str, value: object, /) -> int:
        """Leave a message, which JSON can say, for the program that runs a family; return its number."""
        return 0

    async def inbox(self) -> Sequence[Message]:
        """The messages without a reply for the families of which this program has the lease, oldest first."""
        return ()

    async def reply(self, number: int, value: object, /) -> None:
        """Reply to a message, unless it has a reply or was taken back; JSON can say the value, and it is not None."""

    async def replied(self, number: int, /) -> object:
        """The reply to a message, None as long as there is none."""
        return None

    async def withdraw(self, number: int, /) -> bool:
        """Take a message back. Returns False if there is a reply to it, which stays until it is withdrawn again."""
        return True

    async def spent(self, caller: Caller, since: datetime, /) -> Mapping[str, float]:
        """What the processes of a caller have cost since a moment, in US dollars, by the id of their root.

        Only what is stored counts. For processes that run in this program, their ledgers may say more.
        """
        return {}


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


def searchable(text: str) -> str:
    """A text as it is searched: without regard to capitals."""
    return text.casefold().translate(_NO_TEXT)


def words_of(search: str) -> Sequence[str]:
    """The different words of a search, as they are found in searchable texts. Raises `BadInput` for too many."""
    words = list(dict.fromkeys(searchable(search).split()))
    if len(words) > _MOST_WORDS:
        raise BadInput(
            f"Expected at most {_MOST_WORDS} different words to search for, but got {len(words)}. Search for fewer."
        )
    return words
