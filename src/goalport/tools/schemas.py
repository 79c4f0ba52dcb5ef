"""JSON Schemas of types, the reason why a type has none, and validation of values against a schema.

Schemas have no titles that repeat the names of fields, since a model pays for every word. The reason names the field
that JSON cannot express, for the author of the class; it is searched for only after generating the schema has failed.

Values are validated here for tools that have only a schema; where there is a Python type, pydantic validates. Untrusted
schemas and values cannot block the server: a pattern such as `^(a+)+$` would keep Python's `re` busy for hours, so
patterns are matched by Rust's `regex`, an engine without backtracking that pydantic uses. Patterns that it does not
support, or that are too large, are not checked, and the log says so once. Other checks that take too long raise
`NotChecked`.
"""

import json
import logging
import re
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import fields, is_dataclass
from functools import cache, lru_cache
from itertools import islice
from math import inf, isfinite
from time import thread_time
from types import NoneType
from typing import Annotated, Any, Final, cast, get_args

from pydantic import TypeAdapter
from pydantic.errors import PydanticInvalidForJsonSchema, PydanticSchemaGenerationError, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaMode
from pydantic_core import PydanticSerializationError, SchemaError, SchemaValidator, core_schema
from typing_extensions import is_typeddict

from goalport.agents.blackboard import field_kinds
from goalport.base.words import field_path, first_line, one_line, requirement, shown, type_name

_log = logging.getLogger(__name__)
SECONDS: Final = 5.0
"""The most processor time for the check of one value; harmless arguments of a megabyte take 3 s."""
_SECONDS_OF_SCHEMA: Final = 1.0
_MOST_ERRORS: Final = 5_000
"""Beyond this number, describing each error would block the event loop for too long."""
_MOST_PARTS: Final = 10_000
"""The longest pattern, with its repetitions expanded; one with Unicode classes counts `_CLASS` times."""
_MOST_STEPS: Final = 2_000_000
"""The greatest product of the expanded length of a pattern and the length of a text."""
_CLASSES: Final = re.compile(r"\\[wWdDsSpP]")
_CLASS: Final = 30
_COUNTED: Final = re.compile(r"\{(\d*),?(\d*)\}")
_VERBOSE: Final = re.compile(r"\(\?\w*x")
"""Finds a flag of Rust's `regex` that allows spaces inside of the numbers of a repetition."""
_DEADLINE: ContextVar[float] = ContextVar("goalport_schema_deadline", default=inf)


class NotChecked(Exception):
    """A schema could not be applied to a value; the message says why, as the end of a sentence about the schema."""


def _kind(schema: Mapping[str, object]) -> Any:
    """The validator class for the draft of JSON Schema that a schema names in `$schema`."""
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
    """A subclass of a validator class that replaces keywords which may take too long with our own."""
    from jsonschema import validators

    original = kind.evolve

    def evolve(self: Any, **changes: Any) -> Any:
        # `evolve` creates the validator of each subschema, so the time is checked here.
        if thread_time() > _DEADLINE.get():
            raise NotChecked("it takes too long")
        if isinstance(schema := changes.get("schema"), dict):
            # A nested `$schema` would switch back to the validators of the library.
            changes["schema"] = _without(cast("dict[str, Any]", schema), "$schema")
        return original(self, **changes)

    def additional_properties(validator: Any, allowed: Any, value: Any, schema: Any) -> Iterator[Any]:
        if patterns := schema.get("patternProperties"):
            schema = _without(schema, "patternProperties")
            if validator.is_type(value, "object"):
                value = {name: each for name, each in value.items() if all(_found(p, name) is False for p in patterns)}
        yield from kind.VALIDATORS["additionalProperties"](validator, allowed, value, schema)

    ours: dict[str, Callable[..., Iterator[Any]]] = {
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": additional_properties,
        "uniqueItems": _unique_items,
        # Not checked: for it, the library matches patterns with `re`.
        "unevaluatedProperties": lambda *_: iter(()),
    }
    known = {name: each for name, each in ours.items() if name in kind.VALIDATORS}
    made: Any = cast("Any", validators).extend(kind, known)
    made.evolve = evolve
    return made


def _pattern(validator: Any, pattern: str, value: Any, _: object) -> Iterator[Any]:
    from jsonschema import ValidationError

    if validator.is_type(value, "string") and _found(pattern, value) is False:
        yield ValidationError(f"{value!r} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Mapping[str, Any], value: Any, _: object) -> Iterator[Any]:
    for pattern, schema in patterns.items() if validator.is_type(value, "object") else ():
        for name, each in value.items():
            if _found(pattern, name):
                yield from validator.descend(each, schema, path=name, schema_path=pattern)


def _unique_items(validator: Any, unique: Any, value: Any, _: object) -> Iterator[Any]:
    from jsonschema import ValidationError

    if unique and validator.is_type(value, "array"):
        written = {json.dumps(each, sort_keys=True, default=repr) for each in value}
        if len(written) < len(value):
            yield ValidationError(f"{value!r} has non-unique elements")


@contextmanager
def _in_time(seconds: float) -> Generator[None]:
    """A block in which a schema is applied. Raises `NotChecked` if that fails, or takes more seconds of CPU time."""
    from referencing.exceptions import Unresolvable

    before = _DEADLINE.set(thread_time() + seconds)
    try:
        yield
    except Unresolvable as error:
        raise NotChecked(f"its reference {shown(error.ref)} leads nowhere") from error
    except RecursionError as error:
        raise NotChecked("it goes round in a circle, or is too deep") from error
    except (ArithmeticError, ValueError) as error:
        raise NotChecked(one_line(str(error))) from error
    finally:
        _DEADLINE.reset(before)


def _without(schema: dict[str, Any], keyword: str) -> dict[str, Any]:
    return {name: each for name, each in schema.items() if name != keyword} if keyword in schema else schema


def _found(pattern: str, text: str) -> bool | None:
    """Whether a pattern matches somewhere in a text; None: it was not checked."""
    engine, parts = _engine(pattern)
    if engine is None:
        return None
    if parts * len(text) > _MOST_STEPS:
        _tell_unchecked(pattern, "a text is too long for it")
        return None
    return engine.isinstance_python(text)


@lru_cache(maxsize=256)
def _engine(pattern: str) -> tuple[SchemaValidator | None, int]:
    """A validator for a pattern (None: unsupported), and its length with expanded repetitions: 3 for `a{3}`."""
    parts, times = len(pattern), 1
    for each in _COUNTED.finditer(pattern):
        count = int(each[2] or each[1] or 1)
        if pattern[each.start() - 1] in ")}*+?":
            times *= max(count, 1)
        else:
            parts += count
    parts *= times
    if parts * (_CLASS if _CLASSES.search(pattern) else 1) > _MOST_PARTS or _VERBOSE.search(pattern):
        _tell_unchecked(pattern, "it is too large")
        return None, parts
    try:
        return SchemaValidator(core_schema.str_schema(pattern=pattern, regex_engine="rust-regex")), parts
    except SchemaError as error:
        _tell_unchecked(pattern, str(error).rpartition("error: ")[2])
        return None, parts


@lru_cache(maxsize=256)
def _tell_unchecked(pattern: str, why: str) -> None:
    _log.warning("The pattern %s of a JSON Schema is not checked: %s", shown(pattern), one_line(why))


_MOST_NUMBERS: Final = 5
_SIGNS: Final = ("null", "NaN", "Infinity")
_LABELS: Final = ("label", "title")
_PLAIN: Final = frozenset[type]({str, int, bool, NoneType})
"""The types of defaults that need no conversion to JSON."""
_MESSAGE_LIMIT = 300
_INTEGER = re.compile(r"[+-]?\d{1,18}")
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?")


def may_hold_non_finite(written: str) -> bool:
    """Whether JSON text may contain a non-finite number, which pydantic writes as null or by name."""
    return any(sign in written for sign in _SIGNS)


def non_finite_in_words(value: object) -> str:
    """A message that names the first few non-finite numbers and says what to do instead; empty when there are none."""
    found = " and ".join(islice(_non_finite_numbers(value), _MOST_NUMBERS))
    advice = "and JSON has no such number. Return None or a text where there is no number."
    return f"{found}, {advice}" if found else ""


def _non_finite_numbers(value: object, path: str = "") -> Iterator[str]:
    """A phrase for each NaN or infinity in JSON-like data, with its place: `sizes[0] is inf`."""
    if isinstance(value, float):
        if not isfinite(value):
            yield f"{path or 'it'} is {value}"
    elif isinstance(value, Mapping):
        for key, each in cast("Mapping[object, object]", value).items():
            yield from _non_finite_numbers(each, f"{path}.{key}" if path else str(key))
    elif isinstance(value, list | tuple):
        for index, each in enumerate(cast("list[object]", value)):
            yield from _non_finite_numbers(each, f"{path}[{index}]")


def with_items(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of an array with `items` for `prefixItems`: VS Code and model APIs refuse arrays without `items`.

    It also accepts the elements of a tuple in another order. Validation by the type still refuses that.
    """
    rest = {name: value for name, value in schema.items() if name != "prefixItems"}
    others: list[Any] = [rest["items"]] if isinstance(rest.get("items"), dict) else []
    places: list[Any] = [*schema.get("prefixItems", ()), *others]
    kinds = [each for number, each in enumerate(places) if each not in places[:number]]
    return {**rest, "items": kinds[0] if len(kinds) == 1 else {"anyOf": kinds} if kinds else {}}


def rooted(schema: dict[str, Any]) -> dict[str, Any]:
    """The schema with the object at its root: for a recursive type, pydantic returns only a `$ref`."""
    reference = schema.get("$ref")
    if not isinstance(reference, str):
        return schema
    definitions = cast("dict[str, dict[str, Any]]", schema["$defs"])
    return {**definitions[reference.rpartition("/")[2]], "$defs": definitions}


def without_fields(schema: dict[str, Any], fields: frozenset[str]) -> dict[str, Any]:
    """The schema of an object without some of its properties, which clients and models must neither see nor send."""
    if not fields & schema.get("properties", {}).keys():
        return schema
    kept = {name: value for name, value in schema["properties"].items() if name not in fields}
    required = [name for name in schema.get("required", ()) if name not in fields]
    rest = {key: value for key, value in schema.items() if key not in {"properties", "required"}}
    return {**rest, "properties": kept, **({"required": required} if required else {})}


class _Methods(dict[str, Callable[[Any], Any]]):
    """The methods of a generator by type of core schema, each looked up when it is first needed.

    Pydantic would look up all of them, some fifty, for each type that gets a schema.
    """

    def __init__(self, generator: GenerateJsonSchema) -> None:
        super().__init__()
        self._generator = generator

    def __missing__(self, kind: str) -> Callable[[Any], Any]:
        method = self[kind] = getattr(self._generator, f"{kind.replace('-', '_')}_schema")
        return method


class PlainSchema(GenerateJsonSchema):
    """Pydantic's schema, with `items` for each array, and without generated titles and defaults that are no JSON."""

    ignored_warning_kinds = {"skipped-choice", "non-serializable-default"}  # noqa: RUF012 - pydantic declares it so

    def build_schema_type_to_method(self) -> Any:
        return _Methods(self)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False

    def tuple_schema(self, schema: Any) -> Any:
        return with_items(super().tuple_schema(schema))

    def p_arguments_schema(self, *given: Any, **named: Any) -> Any:
        return with_items(super().p_arguments_schema(*given, **named))

    def dataclass_schema(self, schema: Any) -> Any:
        """The schema of a dataclass; fields with `metadata={"secret": True}` get `writeOnly`."""
        made = super().dataclass_schema(schema)
        for each in fields(schema["cls"]) if is_dataclass(schema["cls"]) else ():
            if each.metadata.get("secret") is True and each.name in made.get("properties", {}):
                made["properties"][each.name] = {**made["properties"][each.name], "writeOnly": True}
        return made

    def encode_default(self, dft: Any) -> Any:
        """A default as JSON. Raises `PydanticSerializationError` for one that has no JSON; pydantic then omits it."""
        if type(dft) in _PLAIN:
            return dft
        encoded = super().encode_default(dft)
        if words := non_finite_in_words(encoded):
            raise PydanticSerializationError(words)
        return encoded


class LabelledSchema(PlainSchema):
    """A schema for forms: members of an enumeration get titles, from their `label`, `title` or name."""

    def enum_schema(self, schema: Any) -> Any:
        made = super().enum_schema(schema)
        titles: list[str | None] = []
        for member in schema["members"]:
            own = (getattr(member, name, None) for name in _LABELS)
            title = next((each for each in own if isinstance(each, str) and each.strip()), None)
            by_name = None if isinstance(member.value, str) else member.name.replace("_", " ").capitalize()
            titles.append(title or by_name)
        if not any(titles):
            return made
        options = [
            {"const": value, **({"title": title} if title else {})}
            for value, title in zip(made.pop("enum"), titles, strict=True)
        ]
        return {**made, "oneOf": options}


UNREADABLE = (PydanticSchemaGenerationError, PydanticInvalidForJsonSchema, PydanticUserError, TypeError, NameError)
"""What pydantic raises for a type that it cannot describe."""


def why_not_json(kind: object, error: Exception, mode: JsonSchemaMode = "validation") -> str:
    """The field that JSON cannot express, with its class; the message of the error if no field is to blame."""
    return next(_culprits(kind, mode, []), first_line(str(error)).rstrip("."))


def _culprits(kind: Any, mode: JsonSchemaMode, seen: list[object]) -> Iterator[str]:
    """Sentences about the innermost fields, in a type and its parts, that JSON cannot express."""
    if any(kind is each for each in seen):
        return
    seen.append(kind)
    for part in get_args(kind):
        yield from _culprits(part, mode, seen)
    cls: Any = getattr(kind, "__origin__", kind)
    own: Mapping[str, FieldInfo] | None = getattr(kind, "model_fields", None)
    if own is not None:
        # Metadata may define a serialization for a type that has none by itself.
        kinds: Mapping[str, Any] = {
            name: Annotated[each.annotation, *each.metadata, None] for name, each in own.items()
        }
    else:
        kinds = field_kinds(kind) if is_dataclass(cls) or is_typeddict(cls) else {}
    for name, field in kinds.items():
        try:
            TypeAdapter(field).json_schema(mode=mode, schema_generator=PlainSchema)
        except UNREADABLE:
            words = f"the field {name!r} of {type_name(kind)} is of the type {type_name(field)}, which has no JSON"
            yield next(_culprits(field, mode, seen), words)


def schema_fault(schema: Mapping[str, object], *, formats: bool = True) -> str:
    """Why a mapping is no valid JSON Schema; empty: it is valid. `formats`: its patterns and such are checked too."""
    try:
        with _in_time(_SECONDS_OF_SCHEMA):
            kind = _kind(schema)
            validator = kind(kind.META_SCHEMA, format_checker=kind.FORMAT_CHECKER if formats else None)
            error = next(validator.iter_errors(schema), None)
    except NotChecked as reason:
        return f"it cannot be checked: {reason}"
    if error is None:
        return ""
    return f"{field_path(error.absolute_path)}: {one_line(error.message, _MESSAGE_LIMIT)}".removeprefix(": ")


def schema_problems(schema: Mapping[str, object], arguments: Mapping[str, object]) -> tuple[str, ...]:
    """One line for each violation of a JSON Schema by the arguments, or one that says why they could not be checked."""
    try:
        return problems_in_time(schema, dict(arguments))
    except NotChecked as error:
        return (f"cannot be checked against the schema: {error}",)


def problems_in_time(schema: Mapping[str, object], value: object, *, seconds: float = SECONDS) -> tuple[str, ...]:
    """One line for each violation of a JSON Schema by a value. Raises `NotChecked`, also after these CPU seconds."""
    from referencing.jsonschema import EMPTY_REGISTRY

    with _in_time(seconds):
        # Without the empty registry, references of an untrusted schema would be fetched from the network.
        validator = _kind(schema)(schema, registry=EMPTY_REGISTRY)
        found: list[Any] = list(islice(validator.iter_errors(value), _MOST_ERRORS))
    if not found:
        return ()
    found.sort(key=lambda each: list(map(str, each.absolute_path)))
    repeated = not holds_secret(schema)
    return tuple(dict.fromkeys(line for each in found for line in _lines(each, repeated=repeated)))


def _lines(error: Any, *, repeated: bool) -> Iterator[str]:
    path, keyword, limit = field_path(error.absolute_path), error.validator, error.validator_value
    if keyword == "required":
        missing = [each for each in limit if each not in error.instance]
        yield from (f"{path}.{each}".removeprefix(".") + ": required, but missing" for each in missing)
        return
    if keyword in {"anyOf", "oneOf"} and all("const" in each for each in limit):
        keyword, limit = "enum", [each["const"] for each in limit]
    if keyword == "const":
        keyword, limit = "enum", [limit]
    reason = requirement(keyword, limit)
    if repeated:
        words = error.message if reason is None else f"{reason}; came {shown(error.instance)}"
    else:
        words = reason or f"does not keep to {keyword}"
    yield f"{path}: {one_line(words, _MESSAGE_LIMIT)}".removeprefix(": ")


def holds_secret(schema: object) -> bool:
    """Whether a JSON Schema has a field that is marked as secret: by `writeOnly`, or by the format `password`."""
    match schema:
        case Mapping():
            said = cast("Mapping[str, object]", schema)
            marked = said.get("writeOnly") is True or said.get("format") == "password"
            return marked or any(map(holds_secret, said.values()))
        case list():
            return any(map(holds_secret, cast("list[object]", schema)))
        case _:
            return False


def may_hold_secret(kind: object) -> bool:
    """Whether a type has a field that is marked as secret; True also for a type without a JSON Schema."""
    try:
        return holds_secret(TypeAdapter[Any](cast("type", kind)).json_schema(schema_generator=PlainSchema))
    except UNREADABLE:
        return True


def coerce_numbers(schema: object, value: Any) -> Any:
    """A copy with strings converted to numbers where the schema allows numbers but no strings."""
    if not isinstance(schema, Mapping):
        return value
    rules = cast("Mapping[str, object]", schema)
    match value:
        case Mapping():
            inner = rules.get("properties")
            known = cast("Mapping[str, object]", inner if isinstance(inner, Mapping) else {})
            rest = rules.get("additionalProperties")
            members = cast("Mapping[str, object]", value)
            return {name: coerce_numbers(known.get(name, rest), each) for name, each in members.items()}
        case list():
            return [coerce_numbers(rules.get("items"), each) for each in cast("list[object]", value)]
        case str() if "string" not in (types := _types(rules)):
            text = value.strip()
            if types & {"integer", "number"} and _INTEGER.fullmatch(text):
                return int(text)
            return float(text) if "number" in types and _NUMBER.fullmatch(text) else value
        case _:
            return value


def _types(rules: Mapping[str, object]) -> set[object]:
    """The types that a schema allows, considering only its `type` and `anyOf`."""
    said = rules.get("type")
    found: set[object] = set(cast("list[object]", said)) if isinstance(said, list) else {said}
    for each in cast("Sequence[object]", rules.get("anyOf") or ()):
        if isinstance(each, Mapping):
            found |= _types(cast("Mapping[str, object]", each))
    return found
