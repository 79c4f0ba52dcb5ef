"""Contexts, which outlive processes: named stores of objects with which new processes may begin.

(User guide, section 3.2.5.)
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import Protocol, TypeVar, runtime_checkable

from goalport.blackboard import Blackboard, Typed

__all__ = ["Context", "ContextRepository", "InMemoryContextRepository"]

T = TypeVar("T")


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
