"""The repositories of processes and of contexts, which find them by their ids.

The repository in memory keeps all processes that may go on, and a limited number of those that have ended. It keeps or
drops families as a whole: a process that somebody started, with all those that its actions started. A context outlives
processes: a named store of objects with which new processes may begin. (User guide, section 3.2.5.)
"""

import re
import secrets
import time
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final, Protocol, TypeVar, runtime_checkable
from weakref import ref

from goalport.blackboard import Blackboard, Typed
from goalport.process.agent_process import AgentProcess
from goalport.process.lifecycle import ProcessStatus

__all__ = [
    "AgentProcessRepository",
    "Context",
    "ContextRepository",
    "InMemoryContextRepository",
    "InMemoryProcessRepository",
    "new_id",
]

_LONG: Final = 1.0
"""Seconds after which a process counts as long, whatever its goal declares."""
_MOST_LONG: Final = 10
"""The most long processes that are kept for each short one, if more end within `seconds`."""
T = TypeVar("T")
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


class AgentProcessRepository(Protocol):
    """A store of processes; the platform uses these methods."""

    def save(self, process: AgentProcess) -> None:
        """Store a process, or its changes."""
        ...

    def find(self, process_id: str) -> AgentProcess | None:
        """The process of that id, or None."""
        ...

    def all(self) -> tuple[AgentProcess, ...]:
        """Every process that is kept, oldest first."""
        ...


class _Family:
    """A process that somebody started, and the processes that its actions started."""

    def __init__(self, root: AgentProcess) -> None:
        self.root = root
        self.members: set[str] = set()
        """The ids of all its processes."""
        self.running: set[str] = set()
        """The ids of the processes that have not ended."""
        self.ended_at = 0.0
        self.queues: list[OrderedDict[str, _Family]] = []
        """The queues that contain this family."""

    def update(self, process: AgentProcess) -> None:
        """Note a process of the family, and whether it has ended."""
        self.members.add(process.id)
        if process.status.ended:
            self.running.discard(process.id)
            self.ended_at = time.monotonic()
        else:
            self.running.add(process.id)

    def keep_remnants(self) -> Iterator[AgentProcess]:
        """Keep only what the outcomes and the history of its processes need, and return these remnants."""
        self.root = self.root.remnant()
        return _tree(self.root)

    def enqueue(self, queue: "OrderedDict[str, _Family]") -> None:
        """Append the family to a queue."""
        queue[self.root.id] = self
        self.queues.append(queue)

    def leave_queues(self) -> None:
        """Remove the family from all queues."""
        for each in self.queues:
            each.pop(self.root.id, None)
        self.queues.clear()

    @property
    def long(self) -> bool:
        """Whether the caller may fetch its result later: it ran long, asked people, or has a `long` goal."""
        root = self.root
        if root.finished_at is not None and (root.finished_at - root.created_at).total_seconds() >= _LONG:
            return True
        return any(root.questions) or any(root.scope.goals[each].export.long for each in root.goals)


class InMemoryProcessRepository:
    """Keeps the processes of this program in memory.

    Parameters: of short processes that have ended, the last `window` are kept. Of those that took a second or
    more, asked people or have a goal that is declared `long`, as many besides, and each for `seconds` after its end
    (ten times `window` at most). Of those that wait for people, up to `waiting`: then the one that has waited longest
    is terminated. Running processes are always kept. Of those that have ended, the newest `whole` keep everything;
    others keep only their outcome and their history. A process that the program itself references is not changed.
    """

    def __init__(self, window: int = 1000, whole: int = 100, *, seconds: float = 3600.0, waiting: int = 10_000) -> None:
        self._window, self._most_whole, self._seconds, self._most_waiting = window, whole, seconds, waiting
        self._processes: dict[str, AgentProcess] = {}
        self._held: dict[str, ref[AgentProcess]] = {}
        """The complete processes of which only remnants are kept here, for as long as other code references them."""
        self._families: dict[str, _Family] = {}
        self._short: OrderedDict[str, _Family] = OrderedDict()
        self._long: OrderedDict[str, _Family] = OrderedDict()
        self._waiting: OrderedDict[str, _Family] = OrderedDict()
        self._whole: OrderedDict[str, _Family] = OrderedDict()

    def save(self, process: AgentProcess) -> None:
        """Keep a process; if there are too many of its kind, drop the one that ended, or began to wait, first."""
        root = process
        while root.parent is not None:
            root = root.parent
        family = self._families.get(root.id)
        if family is None:
            family = self._families[root.id] = _Family(root)
        self._processes.setdefault(process.id, process)
        family.update(process)
        family.leave_queues()
        if not family.running:
            self._keep_ended(family)
        elif family.root.status is ProcessStatus.WAITING:
            family.enqueue(self._waiting)
            if len(self._waiting) > self._most_waiting:
                oldest = next(iter(self._waiting.values())).root
                oldest.terminate(f"More than {self._most_waiting:,} processes wait, and it had waited longest.")

    def find(self, process_id: str) -> AgentProcess | None:
        """The process of that id; None if it is unknown or was dropped."""
        held = self._held.get(process_id)
        return (held and held()) or self._processes.get(process_id)

    def all(self) -> tuple[AgentProcess, ...]:
        """Every process that is kept, oldest first."""
        found = map(self.find, list(self._processes))
        return tuple(each for each in found if each is not None)

    def _keep_ended(self, family: _Family) -> None:
        family.enqueue(self._long if family.long else self._short)
        if family.root.over:
            family.enqueue(self._whole)
        if len(self._whole) > self._most_whole:
            self._reduce(self._whole.popitem(last=False)[1])
        while len(self._short) > self._window:
            self._drop(self._short.popitem(last=False)[1])
        while len(self._long) > self._window:
            oldest = next(iter(self._long.values()))
            if time.monotonic() - oldest.ended_at < self._seconds and len(self._long) <= _MOST_LONG * self._window:
                break
            self._drop(oldest)

    def _drop(self, family: _Family) -> None:
        family.leave_queues()
        del self._families[family.root.id]
        for each in family.members:
            del self._processes[each]
            self._held.pop(each, None)

    def _reduce(self, family: _Family) -> None:
        """Keep only what the outcome and the history of a family need."""
        if family.root.forgotten:
            return
        for each in family.members:
            self._held[each] = ref(self._processes[each])
        self._processes.update((each.id, each) for each in family.keep_remnants())


def _tree(process: AgentProcess) -> Iterator[AgentProcess]:
    yield process
    for child in process.children:
        yield from _tree(child)


class Context:
    """Objects that are stored under an id, some of them with names of their own."""

    def __init__(self, context_id: str) -> None:
        self.id = context_id
        self._objects: list[object] = []
        self._names: dict[str, object] = {}

    def add(self, value: object) -> None:
        """Store an object."""
        self._objects.append(value)

    def bind(self, name: str, value: object) -> None:
        """Store an object under a name, in place of the earlier object of that name."""
        self._names[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        self.bind(name, value)

    @property
    def names(self) -> Mapping[str, object]:
        """The objects with names."""
        return MappingProxyType({name: Typed.value_of(each) for name, each in self._names.items()})

    @property
    def objects(self) -> tuple[object, ...]:
        """The objects without names, oldest first."""
        return tuple(map(Typed.value_of, self._objects))

    def last(self, kind: type[T]) -> T | None:
        """The newest object of a type; objects with names count as older than those without."""
        blackboard = Blackboard()
        self.populate(blackboard)
        return blackboard.last(kind)

    def populate(self, blackboard: Blackboard) -> None:
        """Put all objects on a blackboard: those with names first, then the others, none twice."""
        for name, value in self._names.items():
            blackboard.bind(name, value)
        bound = {id(value) for value in self.names.values()}
        for value in self._objects:
            if id(Typed.value_of(value)) not in bound:
                blackboard.add(value)


@runtime_checkable
class ContextRepository(Protocol):
    """A store of contexts; the platform uses these methods."""

    def find(self, context_id: str) -> Context | None:
        """The context of that id, or None."""
        ...

    def save(self, context: Context) -> None:
        """Store a context, or its changes."""
        ...


class InMemoryContextRepository:
    """Keeps the contexts of this program in memory."""

    def __init__(self) -> None:
        self._contexts: dict[str, Context] = {}

    def find(self, context_id: str) -> Context | None:
        return self._contexts.get(context_id)

    def save(self, context: Context) -> None:
        self._contexts[context.id] = context


def new_id(*labels: str) -> str:
    """An id such as `quiet-otter-4f1c9a02d7be`: optional labels, two words that are easy to say, and 48 random bits."""
    words, digits = divmod(secrets.randbits(72), 1 << 48)
    second, first = divmod(words, len(_FIRST))
    marked = "".join(f"{_UNFIT.sub('-', label)}-" for label in labels)
    return f"{marked}{_FIRST[first]}-{_SECOND[second % len(_SECOND)]}-{digits:012x}"
