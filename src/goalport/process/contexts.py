"""Contexts: what outlives a process. A named store of objects that new processes may begin with.

A blackboard belongs to one process; a context belongs to whoever knows its id. (User guide, section 3.2.5.)
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar, runtime_checkable

from goalport.blackboard import Blackboard, Typed

__all__ = ["Context", "ContextRepository", "InMemoryContextRepository"]

T = TypeVar("T")


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
