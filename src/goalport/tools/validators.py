"""JSON Schema validation that ends soon, whoever wrote the schema and the value.

A pattern such as `^(a+)+$` keeps Python's `re` busy for hours. Patterns are therefore matched by Rust's `regex`, an
engine without backtracking that pydantic uses; those that it does not know or that are too large are not checked, and
the log says so once. Other ways to keep a processor busy end with `NotChecked`. Above: `schemas`, which puts what is
found into words.
"""

import json
import logging
import re
from collections.abc import Callable, Iterator, Mapping
from contextvars import ContextVar
from functools import cache, lru_cache
from itertools import islice
from math import inf
from time import thread_time
from typing import Any, Final, cast

from pydantic_core import SchemaError, SchemaValidator, core_schema

from goalport.base.words import one_line, shown

_log = logging.getLogger(__name__)
SECONDS: Final = 5.0
"""Processor time that the check of a value may take; honest arguments of a megabyte take three."""
_SECONDS_OF_SCHEMA: Final = 1.0
_MOST_ERRORS: Final = 5_000
"""Beyond this, describing each error would keep the event loop from its other work."""
_MOST_PARTS: Final = 10_000
"""Characters of a pattern whose repetitions are written out; with classes of Unicode, `_CLASS` times as many."""
_MOST_STEPS: Final = 2_000_000
"""Characters of a pattern for each character of a text, together."""
_CLASSES: Final = re.compile(r"\\[wWdDsSpP]")
_CLASS: Final = 30
_COUNTED: Final = re.compile(r"\{(\d*),?(\d*)\}")
_VERBOSE: Final = re.compile(r"\(\?\w*x")
"""A flag of Rust's that allows spaces inside of numbers."""
_DEADLINE: ContextVar[float] = ContextVar("goalport_schema_deadline", default=inf)


class NotChecked(Exception):
    """A schema that cannot be applied to a value; the message says why, as the end of a sentence about it."""


def violations(schema: Mapping[str, object], value: object, seconds: float) -> list[Any]:
    """The places where a value violates a valid JSON Schema, as errors of jsonschema. Raises `NotChecked`."""
    from referencing.jsonschema import EMPTY_REGISTRY

    # The empty registry prevents that the references of a foreign schema are fetched from the network.
    return _errors(lambda: _kind(schema)(schema, registry=EMPTY_REGISTRY), value, _MOST_ERRORS, seconds)


def schema_errors(schema: Mapping[str, object], *, formats: bool) -> list[Any]:
    """The first reason why a mapping is no valid JSON Schema; `formats`: its patterns have to be ones of Python too.

    Raises `NotChecked`.
    """
    kind = _kind(schema)
    format_checker = kind.FORMAT_CHECKER if formats else None
    return _errors(lambda: kind(kind.META_SCHEMA, format_checker=format_checker), schema, 1, _SECONDS_OF_SCHEMA)


def _kind(schema: Mapping[str, object]) -> Any:
    """The class of validators for the revision of JSON Schema that a schema is written in."""
    from jsonschema import Draft202012Validator
    from jsonschema.validators import validator_for

    said = schema.get("$schema")
    try:
        found: Any = validator_for({"$schema": said} if isinstance(said, str) else {}, Draft202012Validator)
    except ValueError:  # it is no address
        found = Draft202012Validator
    return _bounded(found)


@cache
def _bounded(kind: Any) -> Any:
    """A class of validators with our own keywords in place of those that a schema can make take for ever."""
    from jsonschema import validators

    original = kind.evolve

    def evolve(self: Any, **changes: Any) -> Any:
        # Each part of a schema is applied by a validator that is made here.
        if thread_time() > _DEADLINE.get():
            raise NotChecked("it takes too long")
        if isinstance(schema := changes.get("schema"), dict):
            # It would bring back the validators of the library.
            changes["schema"] = _without(cast("dict[str, Any]", schema), "$schema")
        return original(self, **changes)

    def additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[Any]:
        if patterns := schema.get("patternProperties"):
            schema = _without(schema, "patternProperties")
            if validator.is_type(value, "object"):
                value = {name: each for name, each in value.items() if all(_found(p, name) is False for p in patterns)}
        yield from kind.VALIDATORS["additionalProperties"](validator, allowed, value, schema)

    ours = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": additional_properties,
        "uniqueItems": _unique_items,
        "unevaluatedProperties": _unevaluated_properties,
    }
    known = {name: each for name, each in ours.items() if name in kind.VALIDATORS}
    made: Any = cast("Any", validators).extend(kind, known)
    made.evolve = evolve
    return made


def _errors(made: Callable[[], Any], value: object, most: int, seconds: float) -> list[Any]:
    from referencing.exceptions import Unresolvable

    before = _DEADLINE.set(thread_time() + seconds)
    try:
        return list(islice(made().iter_errors(value), most))
    except Unresolvable as error:
        raise NotChecked(f"its reference {shown(error.ref)} leads nowhere") from error
    except RecursionError as error:
        raise NotChecked("it goes round in a circle, or is too deep") from error
    except (ArithmeticError, ValueError) as error:
        raise NotChecked(one_line(str(error))) from error
    finally:
        _DEADLINE.reset(before)


def _pattern(validator: Any, pattern: str, value: Any, _: object) -> Iterator[Any]:
    if validator.is_type(value, "string") and _found(pattern, value) is False:
        yield _error(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, _: object) -> Iterator[Any]:
    for pattern, schema in patterns.items() if validator.is_type(value, "object") else ():
        for name, each in value.items():
            if _found(pattern, name):
                yield from validator.descend(each, schema, path=name, schema_path=pattern)


def _unique_items(validator: Any, unique: Any, value: Any, _: object) -> Iterator[Any]:
    if unique and validator.is_type(value, "array"):
        written = {json.dumps(each, sort_keys=True, default=repr) for each in value}
        if len(written) < len(value):
            yield _error(f"{value!r} has non-unique elements")


def _unevaluated_properties(*_: object) -> Iterator[Any]:
    """Nothing: the library matches patterns for it in its own way."""
    return iter(())


def _without(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    return {name: each for name, each in schema.items() if name != keyword} if keyword in schema else schema


def _error(message: str) -> Exception:
    from jsonschema import ValidationError

    return ValidationError(message)


def _found(pattern: str, text: str) -> bool | None:
    """Whether a pattern matches somewhere in a text; None: nobody knows."""
    engine, parts = _engine(pattern)
    if engine is None:
        return None
    if parts * len(text) > _MOST_STEPS:
        _tell_unchecked(pattern, "a text is too long for it")
        return None
    return engine.isinstance_python(text)


@lru_cache(maxsize=256)
def _engine(pattern: str) -> tuple[SchemaValidator | None, int]:
    """What matches a pattern (None: it cannot be matched), and of how many parts it consists."""
    parts = _parts(pattern)
    if parts * (_CLASS if _CLASSES.search(pattern) else 1) > _MOST_PARTS or _VERBOSE.search(pattern):
        _tell_unchecked(pattern, "it is too large")
        return None, parts
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")), parts
    except SchemaError as error:
        _tell_unchecked(pattern, str(error).rpartition("error: ")[2])
        return None, parts


def _parts(pattern: str) -> int:
    """About how long a pattern is when its repetitions are written out: `a{3}` is `aaa`."""
    parts, times = len(pattern), 1
    for each in _COUNTED.finditer(pattern):
        count = int(each[2] or each[1] or 1)
        if pattern[each.start() - 1] in ")}*+?":
            times *= max(count, 1)
        else:
            parts += count
    return parts * times


@lru_cache(maxsize=256)
def _tell_unchecked(pattern: str, why: str) -> None:
    _log.warning("The pattern %s of a JSON Schema is not checked: %s", shown(pattern), one_line(why))
