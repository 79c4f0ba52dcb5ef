"""How messages name things: types as their authors write them, and the names that were probably meant.

Every room words its own messages; what several of them name is worded here, so that they agree. Standard library only,
and no knowledge of agents, tools or servers. Below everything, the errors too.
"""

import re
import types
from collections.abc import Iterable, Mapping
from difflib import SequenceMatcher, get_close_matches
from typing import Annotated, Any, Final, ForwardRef, Literal, Union, cast, get_args, get_origin

__all__ = ["did_you_mean", "listed", "nearest", "offer", "type_label", "type_name", "with_article"]

_QUALIFIER: Final = re.compile(r"[\w<>]+\.")
_NOT_PORTABLE: Final = re.compile(r"[^A-Za-z0-9]+")
_VOWEL: Final = re.compile("[aeio]|un(?!i)", re.IGNORECASE)
"""How a name begins that takes "an": an Order and an UnpaidBill, but a UserInput and a Unit."""
_MOST_NEAR: Final = 3
_AS_NEAR: Final = 0.05
"""By how much names may be less like the one that was given than the nearest, to be offered beside it."""
_MOST_LISTED: Final = 20
_LONGEST: Final = 80
"""Characters of a name that are compared: what came from outside may be of any length."""


def type_name(kind: object) -> str:
    """A type as its author writes it, without modules and what `Annotated` adds: `list[Story] | None`.

    A NewType and an alias are called by their own names.
    """
    origin, arguments = _taken_apart(kind)
    if origin is None:
        return _bare_name(kind)
    if origin is Annotated:
        return type_name(arguments[0])
    if origin in (Union, types.UnionType):
        return " | ".join(map(type_name, arguments))
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if arguments or isinstance(kind, types.GenericAlias):
        return f"{type_name(origin)}[{', '.join(map(type_name, arguments)) or '()'}]"
    return type_name(origin)


def type_label(kind: object) -> str:
    """A type's name of letters, digits and underscores: `list_Story`, `Story_or_None`."""
    return _NOT_PORTABLE.sub("_", type_name(kind).replace(" | ", "_or_")).strip("_")


def with_article(kind: object) -> str:
    """A type's name, or another noun, with the article that it takes: `a Story`, `an Order`."""
    noun = type_name(kind)
    return f"{'an' if _VOWEL.match(noun) else 'a'} {noun}"


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> tuple[str, ...]:
    """The name that is spelled most like one that is not known, and those that are as near, at most three.

    Case counts for nothing, and `-` is `_`. `likeness` is how alike they have to be: 1.0 is the same.
    """
    wanted = _plain(name)[:_LONGEST]
    spelled: dict[str, list[str]] = {}
    for each in known:
        spelled.setdefault(_plain(each), []).append(each)
    near = get_close_matches(wanted, spelled, n=_MOST_NEAR, cutoff=likeness)
    best = max((_likeness(each, wanted) for each in near), default=0.0)
    as_near = (each for each in near if _likeness(each, wanted) >= best - _AS_NEAR)
    return tuple(each for plain in as_near for each in spelled[plain])[:_MOST_NEAR]


def did_you_mean(names: Iterable[str]) -> str:
    """The question whether one of these names was meant; empty where there are none."""
    asked = " or ".join(map(repr, names))
    return f"Did you mean {asked}?" if asked else ""


def offer(name: str, known: Iterable[str], *, none: str = "There are none.", most: int = _MOST_LISTED) -> str:
    """What to say after "unknown …": the nearest names as a question, else the names that are known.

    `none` is said where no name is known. At most `most` names are listed, in the order in which they come.
    """
    names = list(dict.fromkeys(known))
    return did_you_mean(nearest(name, names)) or (f"Known: {listed(names, most)}." if names else none)


def listed(names: Iterable[str], most: int = _MOST_LISTED) -> str:
    """Names with commas between them: the first few, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"


def _likeness(one: str, other: str) -> float:
    return SequenceMatcher(None, one, other).ratio()


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")


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
