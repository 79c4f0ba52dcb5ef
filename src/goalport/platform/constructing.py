"""Making the instance of a class that was deployed without one: its constructor is given the platform's services.

"A little AI in your application" (user guide, section 2.4): a class gets an `Ai` by asking for one in its constructor.
"""

import inspect
from collections.abc import Callable, Mapping
from types import NoneType, UnionType
from typing import Union, cast, get_args, get_origin, get_type_hints

from goalport.domain import class_place
from goalport.errors import DeclarationError
from goalport.process import SERVICE_TYPES

__all__ = ["constructed"]

_EMPTY = inspect.Parameter.empty
_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


def constructed(declared: object, service: Callable[[type], object | None]) -> object:
    """An instance of a class whose constructor asks for services; anything else as it is, for its reader to judge.

    Raises `DeclarationError` for a constructor that asks for what only a run has.
    """
    if not isinstance(declared, type):
        return declared
    arguments = _arguments(declared, service)
    return cast("Callable[..., object]", declared)(**arguments) if arguments else declared


def _arguments(cls: type, service: Callable[[type], object | None]) -> dict[str, object]:
    """A service for each parameter that one fits; nothing when a parameter without a default is left."""
    hints = _hints(cls)
    found: dict[str, object] = {}
    for name, parameter in inspect.signature(cls).parameters.items():
        fitting = _fitting(hints.get(name), service)
        if fitting is not None and parameter.kind not in _VARIADIC:
            found[name] = fitting
        elif parameter.default is _EMPTY and parameter.kind not in _VARIADIC:
            _refuse_of_a_run(cls, name, hints.get(name))
            return {}
    return found


def _refuse_of_a_run(cls: type, name: str, kind: object) -> None:
    """Raise `DeclarationError` for a parameter of a type that each run has an object of its own of."""
    if isinstance(kind, type) and kind in SERVICE_TYPES:
        raise DeclarationError(
            class_place(cls),
            expected="a constructor that takes what is the same for all runs",
            came=f"{name!r} is of the type {kind.__name__}, of which there is one for each run only",
            fix=f"Take it where it is used: `def an_action(self, …, {name}: {kind.__name__})`.",
        )


def _hints(cls: type) -> Mapping[str, object]:
    try:
        return get_type_hints(cls) | get_type_hints(cls.__init__)
    except (NameError, TypeError):
        return {}


def _fitting(hint: object, service: Callable[[type], object | None]) -> object | None:
    """A service of that type. Nothing fits the types of plain values, nor a protocol whose instances cannot be told."""
    members = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    for kind in members:
        if isinstance(kind, type) and kind is not NoneType and kind.__module__ != "builtins" and _is_tellable(kind):
            return service(kind)
    return None


def _is_tellable(kind: type) -> bool:
    return not getattr(kind, "_is_protocol", False) or getattr(kind, "_is_runtime_protocol", False)
