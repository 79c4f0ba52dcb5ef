"""What is wrong with arguments, one line per field, in words that a model can act on.

Turns what pydantic and JSON Schema report into those lines. It decides nothing: whoever validates asks it for words.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from reprlib import Repr
from typing import Any, cast

from pydantic import ValidationError

from goalport.words import offer

__all__ = ["argument_problems", "listed", "schema_problems", "shortened"]

_SHOWN = Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80
_MESSAGE_LIMIT = 300
_MOST_LINES = 20
_MOST_ERRORS = 5_000
"""Beyond this, describing each error would keep the event loop from its other work."""


def listed(problems: Iterable[str]) -> str:
    """The message to answer with."""
    return "The arguments need correcting:\n" + "\n".join(f"- {problem}" for problem in problems)


def shortened(problems: Sequence[str]) -> tuple[str, ...]:
    """As many as a reader takes in, and how many more there are."""
    more = len(problems) - _MOST_LINES
    return (*problems[:_MOST_LINES], f"and {more} more") if more > 0 else tuple(problems)


def argument_problems(error: ValidationError, arguments: object, known: Collection[str]) -> tuple[str, ...]:
    """One line per field that pydantic refused; `known` are the names that the top level may have."""
    if error.error_count() > _MOST_ERRORS:
        return (f"{error.error_count()} values do not fit the schema",)
    lines: dict[str, list[str]] = {}
    for each in error.errors(include_url=False, include_context=False):
        path = _path(each["loc"], arguments, missing=each["type"] == "missing")
        reason = _reason(each["type"], path, each["msg"], each["input"], known)
        reasons = lines.setdefault(path, [])
        if reason not in reasons:
            reasons.append(reason)
    return tuple(f"{f'{path}: ' if path else ''}{'; or '.join(reasons)}" for path, reasons in lines.items())


def schema_fault(schema: Mapping[str, object]) -> str:
    """What keeps a mapping from being a JSON Schema; empty: nothing does."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        return _line(_spelled(error.absolute_path), error.message)
    return ""


def schema_problems(schema: Mapping[str, object], arguments: Mapping[str, object]) -> tuple[str, ...]:
    """One line per place where arguments break a JSON Schema."""
    from jsonschema import Draft202012Validator
    from referencing.jsonschema import EMPTY_REGISTRY

    # An empty registry: a schema of somebody else's must not make us fetch what it refers to.
    validator: Any = Draft202012Validator(dict(schema), registry=EMPTY_REGISTRY)
    errors = islice(validator.iter_errors(dict(arguments)), _MOST_ERRORS)
    found = sorted(errors, key=lambda each: list(map(str, each.absolute_path)))
    return tuple(_line(_spelled(each.absolute_path), each.message) for each in found)


def _line(path: str, message: str) -> str:
    words = " ".join(message[: 2 * _MESSAGE_LIMIT].split())
    cut = words if len(words) <= _MESSAGE_LIMIT else f"{words[:_MESSAGE_LIMIT]}…"
    return f"{path}: {cut}" if path else cut


def _reason(kind: str, path: str, message: str, came: object, known: Collection[str]) -> str:
    match kind:
        case "missing":
            return "required, but missing"
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"unknown.{_offer(path, known)}"
        case _:
            words = " ".join(message.removeprefix("Value error, ").removeprefix("Assertion failed, ").split())
            return f"{words.replace('Input should', 'should', 1)}; came {_SHOWN.repr(came)}"


def _offer(name: str, known: Collection[str]) -> str:
    if "." in name or "[" in name:
        return ""
    return f" {offer(name, known, none='There are no arguments.')}"


def _path(location: Sequence[int | str], arguments: object, *, missing: bool) -> str:
    """Where in the arguments a problem is.

    Pydantic's locations also name the members of unions and the validators on the way, which no caller ever wrote; what
    cannot be found in the arguments themselves is such a name, except for the field that is missing.
    """
    steps: list[int | str] = []
    place = arguments
    for number, step in enumerate(location, start=1):
        inside = _inside(place, step)
        if inside is not None:
            place = inside[0]
            steps.append(step)
        elif missing and number == len(location):
            steps.append(step)
    return _spelled(steps)


def _inside(place: object, step: int | str) -> tuple[object] | None:
    if isinstance(place, Mapping):
        mapping = cast("Mapping[object, object]", place)
        return (mapping[step],) if step in mapping else None
    if isinstance(place, list | tuple) and isinstance(step, int):
        items = cast("Sequence[object]", place)
        return (items[step],) if step < len(items) else None
    return None


def _spelled(steps: Iterable[int | str]) -> str:
    return "".join(f"[{step}]" if isinstance(step, int) else f".{_name(step)}" for step in steps).removeprefix(".")


def _name(step: str) -> str:
    """A caller's field name as it may stand in a line."""
    return step if step.isprintable() and len(step) <= _SHOWN.maxstring else _SHOWN.repr(step)
