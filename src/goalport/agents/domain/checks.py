"""Checks of the arguments of decorators and of their records.

A decorator runs when its module is imported, so that Python's traceback names the faulty line. Each function raises
`TypeError` with the parameter's name, the value, and what to write instead.
"""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields
from numbers import Real
from typing import Any, Final, TypeGuard, cast, get_origin

from goalport.base.words import offer

_LARGEST: Final = sys.float_info.max


def require_text(what: str, value: object) -> None:
    """Raise `TypeError` unless the value is a string."""
    if not isinstance(value, str):
        raise TypeError(f"Expected {what} to be a string, but got {value!r}. Write it in quotes.")


def require_access(value: object) -> None:
    """Raise `TypeError` unless the value says who may run something, or is None: an empty variable lets nobody in."""
    if value is None:
        return
    require_text("access", value)
    if not str(value).strip():
        raise TypeError(f"Expected access to name scopes, but got {value!r}. Leave it out to let everybody in.")


def require_number(what: str, value: object) -> None:
    """Raise `TypeError` unless the value is a number."""
    if not _is_number(value) or abs(value) > _LARGEST:
        raise TypeError(f"Expected {what} to be a number, but got {value!r}. By convention it lies between 0 and 1.")


def require_settings(decorator: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Raise `TypeError` for a setting that a decorator does not have, with the nearest one that it has."""
    known = list(known)
    for name in given:
        if name not in known:
            raise TypeError(f"Expected settings of @{decorator}, but got {name!r}. {offer(name, known)}")


def require_type(what: str, value: object) -> None:
    """Raise `TypeError` unless the value is a type, or None."""
    if value is not None and not isinstance(value, type) and get_origin(value) is None:
        raise TypeError(f"Expected {what} to be a type, but got {value!r}. Write the class itself, without quotes.")


def require_amount(what: str, value: object, unit: str = "a number", *, most: float = _LARGEST) -> None:
    """Raise `TypeError` unless the value is a number from 0 to `most`."""
    if not _is_number(value) or not 0 <= value <= most:
        upper = "" if most == _LARGEST else f" to {most:,}"
        raise TypeError(f"Expected {what} to be {unit} from 0 up{upper}, but got {value!r}.")


def require_limit(what: str, value: object, *, whole: bool = False) -> None:
    """Raise `TypeError` unless the value is a number from 0 up, a whole one if `whole`; infinity is no limit."""
    if not _is_number(value) or not value >= 0 or (whole and value != math.inf and not isinstance(value, int)):
        raise TypeError(f"Expected {what} to be a {'whole ' * whole}number from 0 up, but got {value!r}.")


def require_boolean(what: str, value: object) -> None:
    """Raise `TypeError` unless the value is true or false, or left open with None."""
    if value is not None and not isinstance(value, bool):
        raise TypeError(f"Expected {what} to be True or False, but got {value!r}.")


def require_names(what: str, value: object) -> None:
    """Raise `TypeError` unless the value is a list of strings."""
    given = None if isinstance(value, str) or not isinstance(value, Iterable) else list(cast("Iterable[object]", value))
    if given is None or not all(isinstance(each, str) for each in given):
        raise TypeError(f'Expected {what} to be a list of names, but got {value!r}. Write {what}=["…"].')


def require_types(what: str, value: object) -> None:
    """Raise `TypeError` unless the value is a list of types."""
    if isinstance(value, str) or not isinstance(value, Sequence):  # a set has another order in each program
        raise TypeError(f"Expected {what} to be a list of types, but got {value!r}. Write {what}=[YourType].")
    for each in cast("Sequence[object]", value):
        if not isinstance(each, type) and not hasattr(each, "__origin__"):
            raise TypeError(f"Expected {what} to hold types, but got {each!r}. Write the class, not an instance.")


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(cast("object", value), bool)


_OF_ANNOTATION: Final[dict[object, Callable[[str, object], None]]] = {
    str: require_text,
    bool: require_boolean,
    bool | None: require_boolean,
    float: require_number,
    Sequence[str]: require_names,
    Sequence[type]: require_types,
    type | None: require_type,
}


def require_fields(record: Any, *apart: str) -> None:
    """Check the fields of a record by their annotations, except those `apart`, which have limits of their own."""
    for each in fields(record):
        check = _OF_ANNOTATION.get(each.type)
        if check is not None and each.name not in apart:
            check(each.name, getattr(record, each.name))
