"""The arguments of a call: the input schema that clients see, and the objects that a process starts from.

Arguments are validated here; nothing is started. All mistakes are reported in one list. Unknown arguments are mistakes
too: pydantic would ignore them silently, and a model that misspells an optional argument would never learn of it.
`goal_tools` and `prompts` are above, `known_fields` and `portability` are below.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from typing import Any, Final, Literal, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from goalport.agents.blackboard import Typed
from goalport.agents.domain import FRAMEWORK_FIELDS, UserInput
from goalport.base.errors import BadInput, DeclarationError
from goalport.base.words import corrections, type_label, type_name, validation_problems
from goalport.runtime.platform.tool_agents import ToolCall
from goalport.server.publish.known_fields import Location, closed, extra_fields, not_in_json, unknown_fields
from goalport.server.publish.portability import Schema, is_object, portable, snake_identifier
from goalport.tools import Tool
from goalport.tools.schemas import UNREADABLE, LabelledSchema, PlainSchema, holds_secret, why_not_json, without_fields

_MOST_LINES: Final = 20
"""How many unknown arguments an error names; searching for more would block the event loop."""
_MOST_ERRORS: Final = 50_000
"""Beyond this, looking at each would block it too."""

_Extra = Literal["forbid"] | None


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

    @property
    def closed_schema(self) -> Schema:
        """The schema, saying of each object that fields which it does not name are refused, as `read` does."""
        return closed(self.schema)

    @classmethod
    def of(cls, starts: Sequence[object]) -> "PublishedArguments":
        """The arguments for these start types: the fields of a single object type, else one argument for each type.

        Raises `DeclarationError` for a type that cannot be read from JSON.
        """
        try:
            fields = cls._by_fields(starts[0]) if len(starts) == 1 else None
            return fields or cls.by_type(starts)
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
        return cls._by_name({snake_identifier(type_label(start)): start for start in starts})

    @classmethod
    def of_tool(cls, tool: Tool) -> "PublishedArguments":
        """The arguments of an exported tool, which start a process that calls it."""

        def parse(arguments: Mapping[str, Any], _: _Extra) -> tuple[object, ...]:
            tool.check(arguments)
            return (ToolCall(dict(arguments)),)

        return cls(portable(tool.input_schema), parse, (ToolCall,))

    @classmethod
    def of_fields(cls, kind: object, otherwise: str) -> "PublishedArguments":
        """The arguments for one type: its fields if it is an object in JSON, else one argument named `otherwise`.

        They take milliseconds to make, and are wanted several times for each question, so the last ones are kept.
        """
        try:
            hash(kind)
        except TypeError:
            return cls._labelled(kind, otherwise)
        return _kept_fields(kind, otherwise)

    @classmethod
    def _labelled(cls, kind: object, otherwise: str) -> "PublishedArguments":
        return cls._by_fields(kind, LabelledSchema) or cls._by_name({otherwise: kind}, LabelledSchema)

    @classmethod
    def _by_fields(cls, kind: object, generator: type[PlainSchema] = PlainSchema) -> "PublishedArguments | None":
        adapter: TypeAdapter[object] = TypeAdapter(cast("type", kind))
        schema = _input_schema(kind, portable(adapter.json_schema(schema_generator=generator)))
        if not is_object(schema):
            return None

        def parse(arguments: Mapping[str, Any], extra: _Extra) -> tuple[object, ...]:
            return (adapter.validate_python(arguments, extra=extra),)

        return cls(schema, parse, (kind,), _hidden_fields(kind))

    @classmethod
    def _by_name(cls, starts: Mapping[str, object], generator: type[PlainSchema] = PlainSchema) -> "PublishedArguments":
        # A TypedDict and not a model: a model forbids the names of its methods as names of arguments.
        fields: Any = TypedDict("Arguments", dict(starts))  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
        adapter = TypeAdapter[dict[str, object]](fields)
        schema = portable(adapter.json_schema(schema_generator=generator))
        properties = {name: _input_schema(starts[name], each) for name, each in schema.get("properties", {}).items()}
        schema = {key: value for key, value in schema.items() if key != "title"} | {"properties": properties}

        def parse(arguments: Mapping[str, Any], extra: _Extra) -> tuple[object, ...]:
            parsed = adapter.validate_python(arguments, extra=extra)
            return tuple(parsed[name] for name in starts)

        hidden = tuple((name, *each) for name, start in starts.items() for each in _hidden_fields(start))
        return cls(schema, parse, tuple(starts.values()), hidden)

    def begin(self, arguments: Mapping[str, Any]) -> tuple[Typed, ...]:
        """The objects of `read`, each with its start type, for a process to start from. Raises `BadInput`."""
        return tuple(map(Typed, self.read(arguments), self.kinds))

    def read(self, arguments: Mapping[str, Any]) -> tuple[object, ...]:
        """The objects to start from, in the order of the start types. Raises `BadInput` with one line per mistake."""
        wrong = [not_in_json(self.schema, arguments), unknown_fields(self._hidden, self.schema, arguments)]
        refused: Sequence[str] = ()
        objects: tuple[object, ...] = ()
        try:
            objects = self._parse(arguments, "forbid")
        except ValidationError as error:
            if error.error_count() > _MOST_ERRORS:
                raise BadInput(corrections(self._refused(error, arguments))) from None
            wrong.append(unknown_fields(extra_fields(error), self.schema, arguments))
            try:
                # With the rules of the classes, some of which may allow what was forbidden here.
                objects = self._parse(arguments, None)
            except ValidationError as refusal:
                refused = self._refused(refusal, arguments)
        named = {each.partition(": ")[0]: each for each in islice(chain(*wrong), _MOST_LINES + 1)}
        problems = [*named.values(), *(each for each in refused if each.partition(": ")[0] not in named)]
        if problems:
            raise BadInput(corrections(problems), problems)
        return objects

    def _refused(self, error: ValidationError, arguments: Mapping[str, Any]) -> Sequence[str]:
        known = self.schema.get("properties", {})
        return validation_problems(error, arguments, known, repeated=not holds_secret(self.schema))


@lru_cache(maxsize=256, typed=True)
def _kept_fields(kind: object, otherwise: str) -> PublishedArguments:
    return PublishedArguments._labelled(kind, otherwise)  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]


def _hidden_fields(start: object) -> tuple[Location, ...]:
    is_input = isinstance(start, type) and issubclass(start, UserInput)
    return tuple((name,) for name in FRAMEWORK_FIELDS) if is_input else ()


def _input_schema(start: object, schema: Schema) -> Schema:
    """The schema of a start type as clients see it: of `UserInput`, only its content."""
    if not _hidden_fields(start):
        return schema
    shown = without_fields(schema, FRAMEWORK_FIELDS)
    content = {**shown["properties"]["content"], "description": "What the user wants, in the user's words"}
    return {**shown, "properties": {**shown["properties"], "content": content}}
