"""Annotations: where a declaration is written, and which types its annotations name.

Above: `signature`, which says what those types mean for parameters and results.
"""

import inspect
import sys
import types
from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NewType, Union, cast, get_args, get_origin, get_type_hints

from goalport.blackboard import is_alias
from goalport.errors import DeclarationError
from goalport.words import class_name, did_you_mean, nearest

__all__ = ["Origin", "class_place", "hints_of", "joined", "members_of", "unwrapped"]


@dataclass(frozen=True, slots=True)
class Origin:
    """The function or method that a declaration is, for messages that say where it is written."""

    function: Callable[..., object]
    owner: type | None = None

    @property
    def written(self) -> Callable[..., object]:
        """The function as it was written: beneath decorators, partials and callable objects."""
        return _written(self.function)

    @property
    def filled(self) -> Collection[str]:
        """The parameters that a partial fills."""
        function: Any = self.function
        return function.keywords if isinstance(function, partial) else ()

    def __str__(self) -> str:
        written = self.written
        code = getattr(written, "__code__", None)
        name = f"{self.owner.__name__}.{written.__name__}" if self.owner else written.__qualname__
        return f"{written.__module__}: {name}" + (
            f" ({_short(code.co_filename)}:{code.co_firstlineno})" if code else ""
        )

    def error(self, *, expected: str, came: str, fix: str) -> DeclarationError:
        """An error that names this place. It is returned and not raised."""
        return DeclarationError(str(self), expected=expected, came=came, fix=fix)


def _written(function: Any) -> Callable[..., object]:
    if isinstance(function, partial):
        return _written(cast("partial[object]", function).func)
    return inspect.unwrap(function if hasattr(function, "__qualname__") else type(function).__call__)


def class_place(cls: type) -> str:
    """Where a class is declared, for messages; without the line where its source cannot be read."""
    name = class_name(cls)
    try:
        file, line = inspect.getsourcefile(cls), inspect.getsourcelines(cls)[1]
    except (OSError, TypeError):
        return name
    return f"{name} ({_short(file)}:{line})" if file else name


def hints_of(origin: Origin, kind: type | None = None) -> dict[str, object]:
    """The types that the annotations of a function name, or those of a class. Raises `DeclarationError`."""
    try:
        return get_type_hints(kind or origin.written, localns=_names_around(origin), include_extras=True)
    except NameError as error:
        raise origin.error(
            expected="every annotation to name something that can be looked up in its module or enclosing classes",
            came=f"{error.name!r} {f'in {kind.__qualname__} ' if kind else ''}is not there",
            fix=_nearest(str(error.name), origin)
            + "Define or import it at module level, not inside a function and not under TYPE_CHECKING.",
        ) from error
    except (AttributeError, SyntaxError, TypeError) as error:
        raise origin.error(
            expected="an annotation that Python can read", came=str(error), fix="Correct the annotation."
        ) from error


def _nearest(name: str, origin: Origin) -> str:
    """An offer of the names that are there and alike."""
    known = {*getattr(origin.written, "__globals__", {}), *_names_around(origin)}
    near = nearest(name, sorted(each for each in known if not each.startswith("_")))
    return f"{did_you_mean(near)} " if near else ""


def _names_around(origin: Origin) -> dict[str, object]:
    """The names of the classes around a method, the innermost last."""
    found: dict[str, object] = {}
    place: object = sys.modules.get(origin.written.__module__)
    for part in origin.written.__qualname__.split(".")[:-1]:
        place = getattr(place, part, None)
        found |= dict(vars(place)) if isinstance(place, type) else {}
    return found | (dict(vars(origin.owner)) | {origin.owner.__name__: origin.owner} if origin.owner else {})


def unwrapped(hint: object) -> tuple[object, tuple[object, ...]]:
    """An annotation without `Annotated` and aliases, and the markers that it had, also inside `… | None`.

    A NewType counts as the type that it is made of, since at run time its values look like any others.
    """
    if isinstance(hint, NewType) or is_alias(hint):
        return unwrapped(cast("Any", hint).__supertype__ if isinstance(hint, NewType) else hint.__value__)
    if get_origin(hint) is Annotated:
        kind, markers = unwrapped(get_args(hint)[0])
        return kind, (*markers, *get_args(hint)[1:])
    if get_origin(hint) in (Union, types.UnionType):
        parts = [unwrapped(part) for part in get_args(hint)]
        return joined([part for part, _ in parts]), tuple(marker for _, markers in parts for marker in markers)
    return hint, ()


def members_of(kind: object) -> tuple[object, ...]:
    """The members of a union, or the type alone."""
    return get_args(kind) if get_origin(kind) in (Union, types.UnionType) else (kind,)


def joined(members: list[object]) -> object:
    """The union of types; None where there are none."""
    if not members:
        return None
    return members[0] if len(members) == 1 else Union[tuple(members)]  # noqa: UP007 - built at run time


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else filename
