"""What users write into their own signatures: the text of a user, markers on parameters, a result of several parts.

Plain values without behaviour; the reader gives them their meaning.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from datetime import UTC, datetime
from typing import Final, cast

__all__ = ["FRAMEWORK_FIELDS", "Named", "Provided", "SomeOf", "UserInput", "parts_of"]

FRAMEWORK_FIELDS: Final = frozenset({"timestamp"})
"""Fields of `UserInput` that goalport fills; clients neither see nor send them."""


@dataclass(frozen=True, slots=True)
class UserInput:
    """What a user said, in the user's words."""

    content: str
    """The text."""
    timestamp: datetime = field(default_factory=lambda: datetime.now(UTC), compare=False)
    """When it was said."""


@dataclass(frozen=True, slots=True)
class Named:
    """`Annotated[T, Named("x")]`: the object bound as `x`, not just the newest of its type.

    Without a name, the parameter's own name is meant. (User guide, section 3.2.4.)
    """

    name: str = ""


class Provided:
    """`Annotated[T, Provided]`: filled with the enclosing agent or component, or with a service of the platform.

    Such a parameter is never a precondition.
    """


class SomeOf:
    """The base of a result of several optional parts: each field that is not None goes on the blackboard.

    A subclass is a dataclass or a pydantic model whose fields are all `T | None`. (User guide, section 3.6.7.)
    """


def parts_of(result: SomeOf) -> Mapping[str, object]:
    """The fields of a result of several parts that are not None, by name."""
    if is_dataclass(result):
        names = [each.name for each in fields(result)]
    else:
        names = list(cast("Mapping[str, object]", getattr(type(result), "model_fields", {})))
    return {name: value for name in names if (value := getattr(result, name)) is not None}
