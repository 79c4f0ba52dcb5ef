"""What is wrong with arguments by a JSON Schema, one line per place, in words that a model can act on.

For tools that are known by their schema alone; where there is a type, pydantic validates. It decides nothing: whoever
asks says what follows.
"""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from goalport.words import field_path, one_line

__all__ = ["schema_fault", "schema_problems"]

_MESSAGE_LIMIT = 300
_MOST_ERRORS = 5_000
"""Beyond this, describing each error would keep the event loop from its other work."""


def schema_fault(schema: Mapping[str, object]) -> str:
    """What keeps a mapping from being a JSON Schema; empty: nothing does."""
    from jsonschema import Draft202012Validator
    from jsonschema.exceptions import SchemaError

    try:
        Draft202012Validator.check_schema(dict(schema))
    except SchemaError as error:
        return _line(field_path(error.absolute_path), error.message)
    return ""


def schema_problems(schema: Mapping[str, object], arguments: Mapping[str, object]) -> tuple[str, ...]:
    """One line per place where arguments break a JSON Schema."""
    from jsonschema import Draft202012Validator
    from referencing.jsonschema import EMPTY_REGISTRY

    # An empty registry: a schema of somebody else's must not make us fetch what it refers to.
    validator: Any = Draft202012Validator(dict(schema), registry=EMPTY_REGISTRY)
    errors = islice(validator.iter_errors(dict(arguments)), _MOST_ERRORS)
    found = sorted(errors, key=lambda each: list(map(str, each.absolute_path)))
    return tuple(_line(field_path(each.absolute_path), each.message) for each in found)


def _line(path: str, message: str) -> str:
    words = one_line(message, _MESSAGE_LIMIT)
    return f"{path}: {words}" if path else words
