"""Where a function stands, for messages, and what its annotations mean there."""

import builtins
import functools
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, get_type_hints

from goalport.errors import DeclarationError

__all__ = ["docstring_of", "place_of", "type_hints"]


def place_of(function: Callable[..., object]) -> str:
    """`module: Class.method (file:line)`, as much of it as the function tells."""
    inner = _inner(function)
    name = getattr(inner, "__qualname__", repr(inner))
    module = getattr(inner, "__module__", None)
    code = getattr(inner, "__code__", None)
    where = f" ({_short(code.co_filename)}:{code.co_firstlineno})" if code else ""
    return f"{module}: {name}{where}" if module else f"{name}{where}"


def type_hints(function: Callable[..., object]) -> dict[str, Any]:
    """The annotations of a function, looked up in its module and in the classes around it."""
    inner = _inner(function)
    try:
        return get_type_hints(inner, localns=_names_around(function, inner), include_extras=True)
    except NameError as error:
        raise DeclarationError(
            place_of(function),
            expected="every annotation to name something that can be looked up in its module or enclosing classes",
            came=f"{error.name!r} is not there",
            fix="Define or import it at module level, not inside a function and not under TYPE_CHECKING.",
        ) from error
    except (TypeError, SyntaxError) as error:
        raise DeclarationError(
            place_of(function),
            expected="annotations that are types",
            came=f"one of them cannot be read ({error})",
            fix="Write it as a type.",
        ) from error


def docstring_of(function: Callable[..., object]) -> str:
    """The docstring of a function; a method without one has that of the method it overrides."""
    return inspect.getdoc(_without_partials(function)) or ""


def _without_partials(function: Callable[..., object]) -> Any:
    return _without_partials(function.func) if isinstance(function, functools.partial) else function


def _inner(function: Callable[..., object]) -> Any:
    """The function that carries the annotations: behind a partial, a bound method, a wrapper or a callable object."""
    outer = _without_partials(function)
    inner = inspect.unwrap(getattr(outer, "__func__", outer))
    return inner if inspect.isroutine(inner) else inner.__call__


def _names_around(function: Callable[..., object], inner: Any) -> dict[str, object]:
    """Names of enclosing classes that no name of the module or of Python hides."""
    found: dict[str, object] = {}
    place: object = sys.modules.get(getattr(inner, "__module__", ""))
    for part in getattr(inner, "__qualname__", "").split(".")[:-1]:
        place = getattr(place, part, None)
        found |= dict(vars(place)) if isinstance(place, type) else {}
    for owner in _owners(function):
        found |= dict(vars(owner))
    hidden: Mapping[str, object] = getattr(inner, "__globals__", {})
    return {name: value for name, value in found.items() if name not in hidden and not hasattr(builtins, name)}


def _owners(function: Callable[..., object]) -> tuple[type, ...]:
    """The classes of the object that a method is bound to, the nearest last."""
    bound: object = getattr(_without_partials(function), "__self__", None)
    kind = bound if isinstance(bound, type) else type(bound)
    return () if bound is None else tuple(reversed(kind.__mro__))


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
