"""Where processes are found again by their ids, and contexts by theirs.

The repository in memory keeps all processes that may go on, and of those that have ended as many as there is room for.
What is kept or dropped is a family: a process that somebody started, with all those that its actions started. A context
outlives processes: a named store of objects that new processes may begin with. (User guide, section 3.2.5.)
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
from goalport.process.outcome import ProcessStatus

__all__ = [
    "AgentProcessRepository",
    "Context",
    "ContextRepository",
    "InMemoryContextRepository",
    "InMemoryProcessRepository",
    "new_id",
]

_LONG: Final = 1.0
"""Seconds after which a process counts as a long one, whatever its goal says."""
_MOST_LONG: Final = 10
"""How many long ones are kept for each short one, when so many end within their time."""
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
    """What the platform needs of a store of processes."""

    def save(self, process: AgentProcess) -> None:
        """Keep a process, or note that it has changed."""
        ...

    def find(self, process_id: str) -> AgentProcess | None:
        """The process of that id, or None."""
        ...

    def all(self) -> tuple[AgentProcess, ...]:
        """Every process that is kept, oldest first."""
        ...


class _Family:
    """A process that somebody started, and those that its actions started."""

    def __init__(self, root: AgentProcess) -> None:
        self.root = root
        self.members: list[str] = []
        self.going_on: set[str] = set()
        """Those that have not ended."""
        self.ended_at = 0.0
        self.queues: list[OrderedDict[str, _Family]] = []
        """Those in which it stands."""

    def line_up(self, queue: "OrderedDict[str, _Family]") -> None:
        """Stand last in a queue."""
        queue[self.root.id] = self
        self.queues.append(queue)

    def leave(self) -> None:
        """Stand in no queue any more."""
        for each in self.queues:
            each.pop(self.root.id, None)
        self.queues.clear()

    @property
    def long(self) -> bool:
        """Whether its caller may come later for the result: it took its time, asked people, or is said to be long."""
        root = self.root
        if root.finished_at is not None and (root.finished_at - root.created_at).total_seconds() >= _LONG:
            return True
        return any(root.questions) or any(root.scope.goals[each].export.long for each in root.goals)


class InMemoryProcessRepository:
    """Processes of this program.

    Parameters: of short processes that have ended, the `window` that ended last are kept. Of those that took a second
    or more, asked people or have a goal that is declared `long`, as many besides, and each for `seconds` after its end
    (ten times `window` at most). Of those that wait for people, up to `waiting`: then the one that has waited longest
    is terminated. What runs is always kept. Of all that have ended, the newest `whole` keep all that they knew, and
    others only how they ended, and their history; a process that the program holds on to stays as it is.
    """

    def __init__(self, window: int = 1000, whole: int = 100, *, seconds: float = 3600.0, waiting: int = 10_000) -> None:
        self._window, self._most_whole, self._seconds, self._most_waiting = window, whole, seconds, waiting
        self._processes: dict[str, AgentProcess] = {}
        self._held: dict[str, ref[AgentProcess]] = {}
        """The processes of which only remnants are kept here, as long as somebody else keeps them whole."""
        self._families: dict[str, _Family] = {}
        self._short: OrderedDict[str, _Family] = OrderedDict()
        self._long: OrderedDict[str, _Family] = OrderedDict()
        self._waiting: OrderedDict[str, _Family] = OrderedDict()
        self._whole: OrderedDict[str, _Family] = OrderedDict()

    def save(self, process: AgentProcess) -> None:
        """Keep a process; where there are too many of its kind, what has ended or waits longest makes room."""
        family = self._joined(process)
        root = family.root
        family.leave()
        if not family.going_on:
            self._keep_ended(family)
        elif root.status is ProcessStatus.WAITING:
            family.line_up(self._waiting)
            if len(self._waiting) > self._most_waiting:
                oldest = next(iter(self._waiting.values())).root
                oldest.terminate(f"More than {self._most_waiting:,} processes wait, and it had waited longest.")

    def find(self, process_id: str) -> AgentProcess | None:
        """The process of that id, or None when it is unknown or was dropped."""
        held = self._held.get(process_id)
        return (held and held()) or self._processes.get(process_id)

    def all(self) -> tuple[AgentProcess, ...]:
        """Every process that is kept, oldest first."""
        found = map(self.find, list(self._processes))
        return tuple(each for each in found if each is not None)

    def _joined(self, process: AgentProcess) -> _Family:
        root = process
        while root.parent is not None:
            root = root.parent
        family = self._families.get(root.id)
        if family is None:
            family = self._families[root.id] = _Family(root)
        if process.id not in self._processes:
            self._processes[process.id] = process
            family.members.append(process.id)
        if process.status.ended:
            family.going_on.discard(process.id)
        else:
            family.going_on.add(process.id)
        return family

    def _keep_ended(self, family: _Family) -> None:
        family.ended_at = time.monotonic()
        family.line_up(self._long if family.long else self._short)
        if family.root.over:
            family.line_up(self._whole)
        if len(self._whole) > self._most_whole:
            self._reduce(self._whole.popitem(last=False)[1])
        while len(self._short) > self._window:
            self._drop(self._short.popitem(last=False)[1])
        while len(self._long) > self._window and self._may_go(next(iter(self._long.values()))):
            self._drop(self._long.popitem(last=False)[1])

    def _may_go(self, family: _Family) -> bool:
        return time.monotonic() - family.ended_at >= self._seconds or len(self._long) > _MOST_LONG * self._window

    def _drop(self, family: _Family) -> None:
        family.leave()
        del self._families[family.root.id]
        for each in family.members:
            del self._processes[each]
            self._held.pop(each, None)

    def _reduce(self, family: _Family) -> None:
        """Keep no more of a family than what its history and its end need."""
        if family.root.forgotten:
            return
        for each in family.members:
            self._held[each] = ref(self._processes[each])
        family.root = family.root.remnant()
        self._processes.update((each.id, each) for each in _tree(family.root))


def _tree(process: AgentProcess) -> Iterator[AgentProcess]:
    yield process
    for child in process.children:
        yield from _tree(child)


class Context:
    """Objects that are kept under an id, some of them under names of their own."""

    def __init__(self, context_id: str) -> None:
        self.id = context_id
        self._objects: list[object] = []
        self._names: dict[str, object] = {}

    def add(self, value: object) -> None:
        """Keep an object."""
        self._objects.append(value)

    def bind(self, name: str, value: object) -> None:
        """Keep an object under a name, in place of the one that bore it."""
        self._names[name] = value

    def __setitem__(self, name: str, value: object) -> None:
        self.bind(name, value)

    @property
    def names(self) -> Mapping[str, object]:
        """The objects that bear names."""
        return MappingProxyType({name: Typed.value_of(each) for name, each in self._names.items()})

    @property
    def objects(self) -> tuple[object, ...]:
        """The objects without names, oldest first."""
        return tuple(map(Typed.value_of, self._objects))

    def last(self, kind: type[T]) -> T | None:
        """The newest object of a type; those that bear names count as older."""
        blackboard = Blackboard()
        self.populate(blackboard)
        return blackboard.last(kind)

    def populate(self, blackboard: Blackboard) -> None:
        """Put everything on a blackboard: what bears a name first, then the rest, nothing twice."""
        for name, value in self._names.items():
            blackboard.bind(name, value)
        bound = {id(value) for value in self.names.values()}
        for value in self._objects:
            if id(Typed.value_of(value)) not in bound:
                blackboard.add(value)


@runtime_checkable
class ContextRepository(Protocol):
    """What the platform needs of a store of contexts."""

    def find(self, context_id: str) -> Context | None:
        """The context of that id, or None."""
        ...

    def save(self, context: Context) -> None:
        """Keep a context, or note that it has changed."""
        ...


class InMemoryContextRepository:
    """Contexts of this program."""

    def __init__(self) -> None:
        self._contexts: dict[str, Context] = {}

    def find(self, context_id: str) -> Context | None:
        return self._contexts.get(context_id)

    def save(self, context: Context) -> None:
        self._contexts[context.id] = context


def new_id(*labels: str) -> str:
    """An id such as `quiet-otter-4f1c9a02d7be`: labels, if any, two words to speak of and 48 random bits."""
    words, digits = divmod(secrets.randbits(72), 1 << 48)
    second, first = divmod(words, len(_FIRST))
    marked = "".join(f"{_UNFIT.sub('-', label)}-" for label in labels)
    return f"{marked}{_FIRST[first]}-{_SECOND[second % len(_SECOND)]}-{digits:012x}"
