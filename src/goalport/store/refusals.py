"""Why objects of some classes cannot be written, in words for their author: they are code, live, or more than fields.

Above: `layouts` and `encoder`, which refuse them.
"""

from collections.abc import AsyncIterator, Awaitable, Iterator
from functools import partial
from io import IOBase
from socket import socket
from threading import Event, Lock, RLock
from types import (
    BuiltinFunctionType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    MethodWrapperType,
    ModuleType,
    WrapperDescriptorType,
)
from typing import Any, Final, Generic

_HEAP_TYPE: Final = 1 << 9
"""The flag of classes that a class statement made; others hold values that no field shows."""
_FUNCTIONS: Final = (
    FunctionType,
    BuiltinFunctionType,
    MethodType,
    MethodDescriptorType,
    MethodWrapperType,
    WrapperDescriptorType,
    partial,
    staticmethod,
    classmethod,
    property,
)
_LIVE: Final[tuple[tuple[type, str], ...]] = (
    (ModuleType, "a module"),
    (IOBase, "an open file"),
    (Awaitable, "a task or coroutine"),
    (AsyncIterator, "an iterator"),
    (Iterator, "an iterator"),
    (type(Lock()), "a lock"),
    (type(RLock()), "a lock"),
    (Event, "an event"),
    (socket, "a connection"),
)


def holds_more(cls: type) -> str | None:
    """Why the fields of a class do not say all of its objects; None: they do."""
    for base in cls.__mro__[:-1]:
        if "__del__" in vars(base):
            return "it has __del__, so it holds something that has to be given back. Store what is needed to get it."
        if not base.__flags__ & _HEAP_TYPE and base.__name__ != Generic.__name__:
            return f"it is a {base.__name__} too, whose content is in no field. Give it a field for that."
    return None


def why_unknown(cls: type[Any]) -> str:
    """Why objects of a class without a layout, which is no standard type, cannot be written, and what to do."""
    if issubclass(cls, _FUNCTIONS):
        return "code is not stored. Keep what it works on, and choose the function where it is called."
    if issubclass(cls, BaseException):
        return "an exception holds the frames of its traceback. Keep its message."
    for kind, what in _LIVE:
        if issubclass(cls, kind):
            return f"{what} ends with the program. Keep what is needed to get a new one."
    base = next(
        (each.__name__ for each in (str, bytes, int, float, list, dict, set, tuple) if issubclass(cls, each)), ""
    )
    if base:
        return f"it is a {base} of a class of its own. Make it a dataclass with a field for its content."
    return "it is neither a dataclass, a pydantic model, an enum nor a standard type. Make it one of these."
