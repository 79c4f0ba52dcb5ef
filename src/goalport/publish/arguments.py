"""The arguments of a call: the schema that clients are shown, and the objects that a run starts from.

`Arguments` reads and refuses; it starts nothing. What it refuses, it refuses as one readable list. `goal_tool` and
`prompts` are above it, `schemas` and `strangers` below.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, cast

from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict

from goalport.blackboard import Typed
from goalport.domain import FRAMEWORK_FIELDS, UserInput
from goalport.errors import BadInput, DeclarationError
from goalport.publish.names import snake
from goalport.publish.schemas import Schema, is_object, portable, without_fields
from goalport.publish.strangers import strangers_in
from goalport.tools import argument_problems, listed
from goalport.tools.schema_errors import UNREADABLE, why_not_json
from goalport.tools.schemas import PlainSchema
from goalport.words import type_label, type_name

__all__ = ["Arguments"]

_MOST_LINES: Final = 20
_MOST_ERRORS: Final = 5_000
"""Beyond this, describing each error one by one would keep the server from its other work."""


@dataclass(frozen=True, slots=True)
class Arguments:
    """What a tool or prompt takes."""

    schema: Schema
    """An object with one property for each argument."""
    _parse: Callable[[Mapping[str, Any]], tuple[object, ...]]
    kinds: tuple[object, ...]
    """The type of each."""

    @classmethod
    def of(cls, starts: Sequence[object]) -> "Arguments":
        """For one type with an object's schema its fields, else a property for each type.

        Raises `DeclarationError` for a type that has no JSON.
        """
        try:
            fields = cls._by_fields(starts[0]) if len(starts) == 1 else None
            return fields or cls._by_name({snake(type_label(start)): start for start in starts})
        except UNREADABLE as error:
            raise DeclarationError(
                f"The input {' and '.join(map(type_name, starts))}",
                expected="types that can be read from JSON",
                came=f"it cannot be ({why_not_json(tuple[*starts], error)})",
                fix="Start from a pydantic model or a dataclass whose fields JSON can express.",
            ) from error

    @classmethod
    def of_fields(cls, kind: object, otherwise: str) -> "Arguments":
        """For a type with an object's schema its fields, else a property called `otherwise`."""
        return cls._by_fields(kind) or cls._by_name({otherwise: kind})

    @classmethod
    def _by_fields(cls, kind: object) -> "Arguments | None":
        adapter: TypeAdapter[object] = TypeAdapter(cast("type", kind))
        schema = _shown(kind, portable(adapter.json_schema(schema_generator=PlainSchema)))
        return (
            cls(schema, lambda arguments: (adapter.validate_python(arguments),), (kind,)) if is_object(schema) else None
        )

    @classmethod
    def _by_name(cls, starts: Mapping[str, object]) -> "Arguments":
        # Not a model: its methods' names would be forbidden as names of arguments.
        fields: Any = TypedDict("Arguments", dict(starts))  # pyright: ignore[reportGeneralTypeIssues, reportArgumentType]
        adapter = TypeAdapter[dict[str, object]](fields)
        schema = portable(adapter.json_schema(schema_generator=PlainSchema))
        shown = {name: _shown(starts[name], each) for name, each in schema.get("properties", {}).items()}
        schema = {key: value for key, value in schema.items() if key != "title"} | {"properties": shown}
        kinds = tuple(starts.values())
        return cls(schema, lambda arguments: tuple(adapter.validate_python(arguments)[name] for name in starts), kinds)

    def begin(self, arguments: Mapping[str, Any]) -> tuple[Typed, ...]:
        """The same as `read`, for a process to begin with."""
        return tuple(map(Typed, self.read(arguments), self.kinds))

    def read(self, arguments: Mapping[str, Any]) -> tuple[object, ...]:
        """The objects to start from, in the order of the start types. Raises `BadInput` with a line per field."""
        strange = list(islice(strangers_in(self.schema, arguments), _MOST_LINES + 1))
        try:
            objects = self._parse(arguments)
        except ValidationError as error:
            named = {each.partition(": ")[0] for each in strange}
            refused = [each for each in self._refusals(error, arguments) if each.partition(": ")[0] not in named]
            raise BadInput(_worded([*strange, *refused])) from None
        if strange:
            raise BadInput(_worded(strange))
        return objects

    def _refusals(self, error: ValidationError, arguments: Mapping[str, Any]) -> Sequence[str]:
        if error.error_count() > _MOST_ERRORS:
            return [f"{error.error_count()} values do not fit the input schema"]
        return argument_problems(error, arguments, self.schema.get("properties", {}))


def _worded(problems: Sequence[str]) -> str:
    more = [f"and {len(problems) - _MOST_LINES} more"] if len(problems) > _MOST_LINES else []
    return listed([*problems[:_MOST_LINES], *more])


def _shown(start: object, schema: Schema) -> Schema:
    if not (isinstance(start, type) and issubclass(start, UserInput)):
        return schema
    shown = without_fields(schema, FRAMEWORK_FIELDS)
    content = {**shown["properties"]["content"], "description": "What the user wants, in the user's words"}
    return {**shown, "properties": {**shown["properties"], "content": content}}
