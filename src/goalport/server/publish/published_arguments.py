"""The arguments of a call: the input schema that clients see, and the objects that a process starts from.

Arguments are validated here; nothing is started. All mistakes are reported in one list. Unknown arguments are mistakes
too. Pydantic finds them; the schema gives the nearest names, and tells which objects allow them.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from math import isfinite
from typing import Any, Final, Literal, cast

from pydantic import BaseModel, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from goalport.agents.blackboard import Typed
from goalport.agents.domain import FRAMEWORK_FIELDS, UserInput
from goalport.base.errors import BadInput, DeclarationError
from goalport.base.words import corrections, field_path, offer, type_label, type_name, validation_problems
from goalport.runtime.platform.deployments import ToolCall
from goalport.server.publish.portability import DEFINITIONS, Schema, is_object, mapped, portable, snake_identifier
from goalport.tools import Tool
from goalport.tools.schemas import UNREADABLE, LabelledSchema, PlainSchema, holds_secret, why_not_json, without_fields

_OPEN: Final = ("additionalProperties", "patternProperties", "allOf", "not", "if")
_EXTRA: Final = frozenset({"extra_forbidden", "unexpected_keyword_argument"})
_LONGEST_PATH: Final = 80
_NON_FINITE: Final = frozenset({"nan", "inf", "infinity"})
_MOST_LINES: Final = 20
"""How many unknown arguments an error names; searching for more would block the event loop."""
_MOST_ERRORS: Final = 50_000
"""With more errors, unknown arguments are not looked for: that would block the event loop too."""

Location = tuple[int | str, ...]
"""The path to a part of a value: names and indexes. In the paths of pydantic, also names of union members."""
_Extra = Literal["forbid"] | None


def unknown_fields(locations: Iterable[Location], schema: Schema, value: Mapping[str, Any]) -> Iterator[str]:
    """One line for each of these fields that the schema neither names nor allows.

    In a union, a field that one member reports as extra may be known to another member.
    """
    for each in locations:
        path, around, _ = _walk(each, schema, value)
        names = [name for described in around for name in described.get("properties", {})]
        if path and path[-1] not in names and not any(map(_is_open, around)):
            known = offer(str(path[-1]), names, none="There are no arguments.")
            yield f"{field_path(path)[:_LONGEST_PATH]}: unknown. {known}"


def _non_finite(inner: object, location: Location, schema: Schema, value: Mapping[str, Any]) -> Iterator[str]:
    """One line for each non-finite number, also for a text such as "NaN" where the schema wants a number."""
    if isinstance(inner, float | str):
        if isfinite(inner) if isinstance(inner, float) else inner.strip().lower().lstrip("+-") not in _NON_FINITE:
            return
        path, _, described = _walk(location, schema, value)
        kinds = {each.get("type") for each in described}
        if isinstance(inner, float) or ("number" in kinds and "string" not in kinds):
            yield f"{field_path(path)[:_LONGEST_PATH]}: should be a number that JSON has; came {inner}"
    elif isinstance(inner, Mapping | list):
        found = cast("Any", inner)
        for step, each in found.items() if isinstance(inner, Mapping) else enumerate(found):
            if not isinstance(each, int):
                yield from _non_finite(each, (*location, step), schema, value)


def _walk(location: Location, schema: Schema, value: Any) -> tuple[Location, Sequence[Schema], Sequence[Schema]]:
    """The path of a part of a value without union members, the schemas of the object around it, and its own schemas."""
    definitions = schema.get("$defs", {})
    path: Location = ()
    around: list[Schema] = []
    here = [*_branches(schema, definitions)]
    for step in location:
        if isinstance(value, Mapping) and step in value:
            given = cast("Mapping[str, Any]", value)
            # A union member does not describe a value that contradicts one of its constants (discriminators).
            fitting = [
                described
                for described in here
                for fields in [described.get("properties", {}).items()]
                if all(name not in given or given[name] == each["const"] for name, each in fields if "const" in each)
            ]
            around = fitting or here
            parts = [each.get("properties", {}).get(step, each.get("additionalProperties")) for each in around]
        elif isinstance(value, list) and isinstance(step, int):
            parts = [each.get("items") for each in here]
        else:
            continue
        path, value = (*path, step), cast("Any", value)[step]
        found = {id(each): each for each in chain.from_iterable(_branches(part, definitions) for part in parts)}
        here = [*found.values()]
    return path, around, here


def _branches(schema: object, definitions: Mapping[str, Schema]) -> Iterator[Schema]:
    """The schemas that a schema expands to: the target of its reference, or the members of its unions."""
    if not isinstance(schema, Mapping):
        return
    described = cast("Schema", schema)
    target = str(described.get("$ref", "")).removeprefix(DEFINITIONS)
    members = [definitions[target]] if target in definitions else []
    members += [each for key in ("anyOf", "oneOf") for each in described.get(key, ())]
    for each in members:
        yield from _branches(each, definitions)
    if not members or "properties" in described:
        yield described


def _is_open(schema: Schema) -> bool:
    """Whether a schema accepts fields that it does not name."""
    return any(schema.get(key) for key in _OPEN) or not {"type", "const", "enum"} & schema.keys()


def closed(schema: Schema) -> Schema:
    """The schema with `additionalProperties: false` in all objects whose unknown fields `unknown_fields` refuses."""
    written = mapped(schema, closed)
    is_closed = schema.get("type") == "object" and not _is_open(schema)
    return {**written, "additionalProperties": False} if is_closed else written


@dataclass(frozen=True, slots=True)
class PublishedArguments:
    """The arguments that a tool or prompt takes."""

    schema: Schema
    """The schema of an object with one property for each argument."""
    _parse: Callable[[Mapping[str, Any], _Extra], tuple[object, ...]]
    """Validates arguments; "forbid" refuses unknown fields also where a class would ignore or allow them."""
    kinds: tuple[object, ...]
    """The start types, in order."""
    _hidden: tuple[Location, ...] = ()
    """Fields that clients must not send, though a type has them."""

    @classmethod
    def of(cls, starts: Sequence[object]) -> "PublishedArguments":
        """The arguments for these start types: the fields of a single object type, else one argument for each type.

        Raises `DeclarationError` for a type that cannot be read from JSON.
        """
        try:
            return (len(starts) == 1 and cls.by_fields(starts[0])) or cls.by_type(starts)
        except UNREADABLE as error:
            raise DeclarationError(
                f"The input {' and '.join(map(type_name, starts))}",
                expected="types that can be read from JSON",
                came=f"it cannot be ({why_not_json(tuple[*starts], error)})",
                fix="Start from a pydantic model or a dataclass whose fields JSON can express.",
            ) from error

    @classmethod
    def by_type(cls, starts: Sequence[object]) -> "PublishedArguments":
        """One argument for each of these start types, by the name of the type. Raises one of `UNREADABLE`."""
        return cls.by_name({snake_identifier(type_label(start)): start for start in starts})

    @classmethod
    def of_tool(cls, tool: Tool) -> "PublishedArguments":
        """The arguments of an exported tool, which start a process that calls it."""

        def parse(arguments: Mapping[str, Any], _: _Extra) -> tuple[object, ...]:
            tool.check(arguments)
            return (ToolCall(dict(arguments)),)

        return cls(portable(tool.input_schema), parse, (ToolCall,))

    @classmethod
    def of_model(cls, call: type[BaseModel]) -> "PublishedArguments":
        """The fields of a model as arguments. Its name and docstring do not reach clients: a tool has its own."""
        arguments = cls.of([call])
        shown = {key: value for key, value in arguments.schema.items() if key not in {"title", "description"}}
        return replace(arguments, schema=shown)

    @classmethod
    def of_fields(cls, kind: object, otherwise: str) -> "PublishedArguments":
        """The arguments for one type: its fields if it is an object in JSON, else one argument named `otherwise`.

        Making them takes milliseconds, and each question needs them several times, so the last ones are cached.
        """
        try:
            hash(kind)
        except TypeError:
            return _labelled.__wrapped__(kind, otherwise)
        return _labelled(kind, otherwise)

    @classmethod
    def by_fields(cls, kind: object, generator: type[PlainSchema] = PlainSchema) -> "PublishedArguments | None":
        """The fields of a type as arguments; None if it is no object in JSON."""
        adapter: TypeAdapter[object] = TypeAdapter(cast("type", kind))
        schema, hidden = _shown(kind, portable(adapter.json_schema(schema_generator=generator)))

        def parse(arguments: Mapping[str, Any], extra: _Extra) -> tuple[object, ...]:
            return (adapter.validate_python(arguments, extra=extra),)

        return cls(schema, parse, (kind,), hidden) if is_object(schema) else None

    @classmethod
    def by_name(cls, starts: Mapping[str, object], generator: type[PlainSchema] = PlainSchema) -> "PublishedArguments":
        """One argument for each of these types."""
        # A TypedDict and not a model: a model forbids the names of its methods as names of arguments.
        fields: Any = TypedDict("Arguments", dict(starts))  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
        adapter = TypeAdapter[dict[str, object]](fields)
        schema = portable(adapter.json_schema(schema_generator=generator))
        shown = {name: _shown(starts[name], each) for name, each in schema.get("properties", {}).items()}
        schema = {key: value for key, value in schema.items() if key != "title"}
        schema["properties"] = {name: each for name, (each, _) in shown.items()}

        def parse(arguments: Mapping[str, Any], extra: _Extra) -> tuple[object, ...]:
            parsed = adapter.validate_python(arguments, extra=extra)
            return tuple(parsed[name] for name in starts)

        hidden = tuple((name, *each) for name, (_, fields) in shown.items() for each in fields)
        return cls(schema, parse, tuple(starts.values()), hidden)

    def start_objects(self, arguments: Mapping[str, Any]) -> tuple[Typed, ...]:
        """The objects of `read`, each with its start type, for a process to start from. Raises `BadInput`."""
        return tuple(map(Typed, self.read(arguments), self.kinds))

    def read(
        self, arguments: Mapping[str, Any], of: Literal["arguments", "answer"] = "arguments"
    ) -> tuple[object, ...]:
        """The objects to start from, in the order of the start types. Raises `BadInput` with one line per mistake."""
        schema = self.schema

        def refused_by(error: ValidationError) -> Sequence[str]:
            repeated = not holds_secret(schema)
            return validation_problems(error, arguments, schema.get("properties", {}), repeated=repeated)

        wrong = [_non_finite(arguments, (), schema, arguments), unknown_fields(self._hidden, schema, arguments)]
        refused: Sequence[str] = ()
        objects: tuple[object, ...] = ()
        try:
            objects = self._parse(arguments, "forbid")
        except ValidationError as error:
            if error.error_count() > _MOST_ERRORS:
                raise BadInput(corrections(refused_by(error), of=of)) from None
            found = error.errors(include_url=False, include_context=False, include_input=False)
            extra = (each["loc"] for each in found if each["type"] in _EXTRA)
            wrong.append(unknown_fields(extra, schema, arguments))
            try:
                # By the rules of the classes alone: some may allow the fields that were forbidden above.
                objects = self._parse(arguments, None)
            except ValidationError as refusal:
                refused = refused_by(refusal)
        named = {each.partition(": ")[0]: each for each in islice(chain(*wrong), _MOST_LINES + 1)}
        problems = [*named.values(), *(each for each in refused if each.partition(": ")[0] not in named)]
        if problems:
            raise BadInput(corrections(problems, of=of), problems)
        return objects


@lru_cache(maxsize=256, typed=True)
def _labelled(kind: object, otherwise: str) -> PublishedArguments:
    by_fields = PublishedArguments.by_fields(kind, LabelledSchema)
    return by_fields or PublishedArguments.by_name({otherwise: kind}, LabelledSchema)


def _shown(start: object, schema: Schema) -> tuple[Schema, tuple[Location, ...]]:
    """The schema of a start type as clients see it, and the fields that they must not send.

    Of `UserInput`, clients send only the content.
    """
    if not (isinstance(start, type) and issubclass(start, UserInput)):
        return schema, ()
    shown = without_fields(schema, FRAMEWORK_FIELDS)
    content = {**shown["properties"]["content"], "description": "What the user wants, in the user's words"}
    hidden = tuple((name,) for name in FRAMEWORK_FIELDS)
    return {**shown, "properties": {**shown["properties"], "content": content}}, hidden
