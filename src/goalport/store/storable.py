"""Whether objects of a declared type can be written, found out without an object, for `goalport check` and deploy.

It says no only where that is sure: a field may hold an object of a subclass, and a union one of several types. What it
lets pass may still turn out to be unstorable when an object is written. Below: `encoder`, which knows each class.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set as AbstractSet
from inspect import isabstract
from threading import Lock, RLock
from types import FunctionType, NoneType
from typing import Any, Final, Literal, TypeVar, get_origin

from pydantic import BaseModel, Secret, SecretBytes, SecretStr
from typing_extensions import is_typeddict

from goalport.agents.blackboard import alternatives, field_kinds, plain, taken_apart
from goalport.base.errors import Unstorable
from goalport.base.words import type_name
from goalport.store.codec import NO_KEY, StoredTypes
from goalport.store.layouts import EnumLayout, Layout
from goalport.store.standard_types import STANDARD

_OPEN: Final = frozenset({Collection, Iterable, Mapping, Sequence, AbstractSet})
"""Abstract types whose usual classes can be written, if what is in them can be."""
_CODE: Final = frozenset[object]({Callable})
_FACTORIES: Final[dict[object, type]] = {each: type(each()) for each in (Lock, RLock)}
"""What is a function in earlier versions of Python, and the class that authors mean by it in an annotation."""
_UNKNOWN: Final = frozenset[object]({Any, object, type, bool, NoneType, ...})


def storable(kind: object, types: StoredTypes, *, sealed: bool = False) -> str | None:
    """Why objects of a declared type can surely not be written, with the path to the reason; None: they may be.

    `sealed`: whether there is a key that encrypts secrets.
    """
    options = [each for each in alternatives(kind) if plain(each) is not NoneType]
    reasons = [_Check(types, sealed).reason(each, type_name(each)) for each in options]
    return reasons[0] if reasons and all(reasons) else None


class _Check:
    """One check of a type and of what its objects hold."""

    def __init__(self, types: StoredTypes, sealed: bool) -> None:  # noqa: FBT001 - private, called once
        self._types = types
        self._sealed = sealed
        self._seen: set[object] = set()

    def reason(self, kind: object, path: str) -> str | None:
        """The reason for a type expression; None if one of its alternatives may do."""
        options = alternatives(plain(kind))
        reasons = [self._reason(plain(each), path) for each in options]
        return reasons[0] if reasons and all(reasons) else None

    def _reason(self, kind: Any, path: str) -> str | None:
        if kind in _UNKNOWN or isinstance(kind, TypeVar) or get_origin(kind) in {Literal, type}:
            return None
        origin, arguments = taken_apart(_FACTORIES.get(kind, kind))
        if not isinstance(origin, type) or origin in STANDARD or kind in self._seen:
            return None
        self._seen.add(kind)
        if why := self._why_not(origin):
            return str(Unstorable(type_name(origin), why, path="" if path == type_name(origin) else path))
        layout = self._layout(origin)
        if layout is not None and layout.secret and not self._sealed:
            return str(Unstorable("secret", NO_KEY, path=f"{path}.{min(layout.secret)}"))
        written = layout.names if layout is not None else field_kinds(kind) if is_typeddict(origin) else ()
        parts = {f".{name}": each for name, each in field_kinds(kind).items() if name in written}
        if not parts:
            parts = {f"[{number if origin is tuple else '…'}]": each for number, each in enumerate(arguments)}
        return next((why for step, each in parts.items() if (why := self.reason(each, f"{path}{step}"))), None)

    def _layout(self, origin: type) -> Layout | None:
        try:
            layout = self._types.layout(origin)
        except Unstorable:
            return None
        return None if isinstance(layout, EnumLayout) else layout

    def _why_not(self, cls: type[Any]) -> str | None:
        """The reason for a class itself, whatever its objects hold."""
        if issubclass(cls, SecretStr | SecretBytes):
            return None if self._sealed else NO_KEY
        if cls in _OPEN or is_typeddict(cls):
            return None
        try:
            self._types.form(FunctionType if cls in _CODE else cls)
        except Unstorable as error:
            return None if self._may_be_another(cls) else error.why
        return None

    def _may_be_another(self, cls: type) -> bool:
        """Whether objects that are declared as this class are probably of others, which are seen only when written."""
        if cls.__module__ == "collections.abc":
            return False
        if isabstract(cls) or getattr(cls, "_is_protocol", False) or _is_rule(cls):
            return True
        return any(self._why_not(each) is None for each in type.__subclasses__(cls))


def _is_rule(cls: type) -> bool:
    """Whether a class says in annotations how pydantic reads values of another one, such as `AwareDatetime`."""
    return hasattr(cls, "__get_pydantic_core_schema__") and not issubclass(cls, BaseModel | Secret)
