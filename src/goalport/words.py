"""How messages name things: types as their authors write them.

Every room words its own messages; what several of them name is worded here, so that they agree. Standard library only,
and no knowledge of agents, tools or servers. Below everything, the errors too.
"""

import re
import types
from collections.abc import Mapping
from typing import Annotated, Any, Final, ForwardRef, Literal, Union, cast, get_args, get_origin

__all__ = ["type_label", "type_name", "with_article"]

_QUALIFIER: Final = re.compile(r"[\w<>]+\.")
_NOT_PORTABLE: Final = re.compile(r"[^A-Za-z0-9]+")
_VOWEL: Final = re.compile("[aeio]|un(?!i)", re.IGNORECASE)
"""How a name begins that takes "an": an Order and an UnpaidBill, but a UserInput and a Unit."""


def type_name(kind: object) -> str:
    """A type as its author writes it, without modules and what `Annotated` adds: `list[Story] | None`.

    A NewType and an alias are called by their own names.
    """
    origin, arguments = _taken_apart(kind)
    match origin:
        case _ if origin is Annotated:
            return type_name(arguments[0])
        case _ if origin in (Union, types.UnionType):
            return " | ".join(map(type_name, arguments))
        case _ if origin is Literal:
            return f"Literal[{', '.join(map(repr, arguments))}]"
        case None:
            return _bare_name(kind)
        case _ if not arguments and not isinstance(kind, types.GenericAlias):
            return type_name(origin)
        case _:
            return f"{type_name(origin)}[{', '.join(map(type_name, arguments)) or '()'}]"


def type_label(kind: object) -> str:
    """A type's name of letters, digits and underscores: `list_Story`, `Story_or_None`."""
    return _NOT_PORTABLE.sub("_", type_name(kind).replace(" | ", "_or_")).strip("_")


def with_article(kind: object) -> str:
    """A type's name, or another noun, with the article that it takes: `a Story`, `an Order`."""
    noun = type_name(kind)
    return f"{'an' if _VOWEL.match(noun) else 'a'} {noun}"


def _taken_apart(kind: object) -> tuple[object, tuple[object, ...]]:
    """A generic type and its arguments; None where it is none. Pydantic makes a class of each generic model."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        made = cast("Mapping[str, Any]", vars(kind).get("__pydantic_generic_metadata__") or {})
        return made.get("origin"), made.get("args", ())
    # `Annotated` hides behind the type that it annotates.
    return (Annotated if hasattr(kind, "__metadata__") else get_origin(kind)), get_args(kind)


def _bare_name(kind: object) -> str:
    match kind:
        case None | types.NoneType:
            return "None"
        case types.EllipsisType():
            return "..."
        case str() | ForwardRef():
            return kind if isinstance(kind, str) else kind.__forward_arg__
        case list():
            return f"[{', '.join(map(type_name, cast('list[object]', kind)))}]"
        case _:
            name: object = getattr(kind, "__name__", None)
            return name if isinstance(name, str) else _QUALIFIER.sub("", repr(kind))
