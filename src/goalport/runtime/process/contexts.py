"""Contexts, which outlive processes: named stores of objects with which new processes may begin.

Each is one value in the store of the platform. Its key is made of its id and its owner (a caller or a scope). Below:
the store and its codec. Above: the platform, which puts a context's objects on the blackboard of a new process. (User
guide, section 3.2.5.)
"""

import json
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Protocol, TypeVar, cast

from goalport.agents.blackboard import Blackboard, Typed
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import UnknownName, Unstorable
from goalport.store import Codec, Json, ProcessStore

T = TypeVar("T")
Item = tuple[str | None, object]
"""An object with its name, or without one."""


class Context:
    """Objects that are stored under an id, some of them with names of their own.

    It belongs to one caller, apart from other callers' contexts; if it names a scope, all callers with the scope share
    it.
    """

    def __init__(self, context_id: str, caller: Caller = ANONYMOUS, *, scope: str = "") -> None:
        if not context_id:
            raise ValueError("Expected the id of a context, but got ''. Without one, a process begins with none.")
        self.id, self.caller = context_id, caller
        """The caller who owns it, unless it names a scope."""
        self.scope = scope
        """The scope whose callers share it; empty: it is not shared."""
        self.kept: object = None
        """Its value in the store when it was last found or saved; None: the store had none."""
        self.stored: Sequence[Item] = ()
        """The objects of that value."""
        self.changes: list[Item] = []
        """The objects that were added or bound since then."""

    @property
    def key(self) -> str:
        """Its key in the store. For the anonymous caller that is the plain id, as it was before contexts had owners."""
        if self.scope:
            return json.dumps([self.scope, self.id])
        if self.caller.same_as(ANONYMOUS) and not self.id.startswith("["):
            return self.id
        return json.dumps([*self.caller.identity, self.id])

    def open_to(self, caller: Caller) -> bool:
        """Whether a caller may use it: as its owner or, if it is shared, with its scope."""
        return caller.admin or (caller.has(self.scope) if self.scope else caller.same_as(self.caller))

    def add(self, value: object) -> None:
        """Store an object."""
        self._change(None, value)

    def bind(self, name: str, value: object) -> None:
        """Store an object under a name, in place of the earlier object of that name."""
        self._change(name, value)

    __setitem__ = bind

    def __getitem__(self, name: str) -> Any:
        """The object bound to a name. Raises `UnknownName`."""
        if name not in (names := self.names):
            raise UnknownName("name in the context", name, names)
        return names[name]

    def _change(self, name: str | None, value: object) -> None:
        if value is None:
            raise ValueError(f"Expected an object for context {self.id!r}, but got None. Leave out what is not there.")
        self.changes.append((name, value))

    @property
    def items(self) -> Sequence[Item]:
        """All objects as they were added (see `Typed`): first those with names, then the others."""
        items = [*self.stored, *self.changes]
        named = {name: value for name, value in items if name is not None}
        return (*named.items(), *(each for each in items if each[0] is None))

    @property
    def names(self) -> Mapping[str, object]:
        """The objects with names."""
        return MappingProxyType({name: Typed.value_of(each) for name, each in self.items if name is not None})

    @property
    def objects(self) -> tuple[object, ...]:
        """The objects without names, oldest first."""
        return tuple(Typed.value_of(each) for name, each in self.items if name is None)

    def last(self, kind: type[T]) -> T | None:
        """The newest object of a type; objects with names count as older than those without names."""
        blackboard = Blackboard()
        self.populate(blackboard)
        return blackboard.last(kind)

    def populate(self, blackboard: Blackboard) -> None:
        """Put each object on a blackboard once: first those with names, then the others."""
        bound: set[int] = set()
        for name, value in self.items:
            if name is not None:
                blackboard.bind(name, value)
                bound.add(id(Typed.value_of(value)))
            elif id(Typed.value_of(value)) not in bound:
                blackboard.add(value)


class ContextRepository(Protocol):
    """Stores contexts; the platform loads them for new processes, and the code that changes a context saves it.

    `Context.key` distinguishes the contexts of different owners; `Context.open_to` says who may use one.
    """

    async def find(self, context_id: str, caller: Caller = ANONYMOUS, /, *, scope: str = "") -> Context | None:
        """The caller's context of that id or, with `scope`, the shared one if the caller has the scope; else None."""
        ...

    async def save(self, context: Context, /) -> None:
        """Store the changes of a context."""
        ...

    async def delete(self, context_id: str, caller: Caller = ANONYMOUS, /, *, scope: str = "") -> bool:
        """Delete the context that `find` finds. Returns whether there was one."""
        ...


class StoredContexts:
    """Stores contexts in the store of the platform.

    They last as long as the store, until they are deleted. Parameters: `codec` returns the codec for `context KEY`,
    which is no process's id; it is used if the store outlives the program.
    """

    def __init__(self, store: ProcessStore, codec: Callable[[str], Codec]) -> None:
        self._store, self._codec = store, codec

    async def find(self, context_id: str, caller: Caller = ANONYMOUS, /, *, scope: str = "") -> Context | None:
        """The context as it was saved last; None if there is none, or it is shared by a scope that the caller lacks.

        Raises `StoreError` and `Unreadable`.
        """
        wanted = Context(context_id, caller, scope=scope)
        if not wanted.open_to(caller) or (kept := await self._store.find_context(wanted.key)) is None:
            return None
        wanted.stored, wanted.kept = self._read(wanted, kept), kept
        return wanted

    async def save(self, context: Context, /) -> None:
        """Store what was added and bound since the context was found or saved.

        Changes that others saved meanwhile are kept and loaded into the context; if two saves bind the same name, the
        later one wins. Raises `Unstorable` for objects that cannot be serialized, and `StoreError`.
        """
        while True:
            items, value, number = context.items, self._written(context), len(context.changes)
            if await self._store.save_context(context.key, value, instead_of=context.kept):
                context.stored, context.kept = items, value
                del context.changes[:number]
                return
            read = {id(Typed.value_of(each)) for _, each in context.stored}
            context.kept = await self._store.find_context(context.key)
            context.stored = () if context.kept is None else self._read(context, context.kept)
            for place, (name, each) in enumerate(context.changes):
                mine = Typed.value_of(each)
                if id(mine) in read:  # avoid a duplicate: use the equal object that was read again
                    again = (other for _, other in context.stored if Typed.value_of(other) == mine)
                    context.changes[place] = name, next(again, each)

    async def delete(self, context_id: str, caller: Caller = ANONYMOUS, /, *, scope: str = "") -> bool:
        """Delete the context that `find` finds; processes keep what they began with. Returns whether there was one."""
        wanted = Context(context_id, caller, scope=scope)
        return wanted.open_to(caller) and await self._store.delete_context(wanted.key)

    async def erase_of(self, caller: Caller, *, count: bool = False) -> int:
        """Delete all contexts that belong to a caller, or only `count` them. Returns how many. Raises `StoreError`."""
        begin = f"{json.dumps([*caller.identity])[:-1]}, "
        is_anonymous = caller.same_as(ANONYMOUS)
        found = [
            each
            for each in await self._store.context_ids()
            if each.startswith(begin) or (is_anonymous and not each.startswith("["))
        ]
        for each in () if count else found:
            await self._store.delete_context(each)
        return len(found)

    def _written(self, context: Context) -> object:
        if not self._store.durable:
            return context.items
        codec, written = self._codec(f"context {context.key}"), list[Json]()
        for number, (name, value) in enumerate(context.items):
            kind = value.kind if isinstance(value, Typed) else None
            try:
                written.append([name, codec.encode(Typed.value_of(value), number), codec.encode(kind)])
            except Unstorable as error:
                place = f"context {context.id!r}" + (f", {name!r}" if name else "")
                raise Unstorable(error.kind, error.why, path=", ".join(filter(None, (place, error.path)))) from error
        return written

    def _read(self, context: Context, kept: object) -> Sequence[Item]:
        if not self._store.durable:
            return cast("Sequence[Item]", kept)
        codec, items = self._codec(f"context {context.key}"), list[Item]()
        for number, (name, data, declared) in enumerate(cast("list[tuple[str | None, Json, Json]]", kept)):
            value, kind = codec.decode(data, number), codec.decode(declared)
            items.append((name, value if kind is None else Typed(value, kind)))
        return items
