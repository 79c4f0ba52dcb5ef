"""Wording that messages of all packages share: names of types, similar names, validation errors, cleaned texts.

Each package words its own messages; parts that several of them need are worded here, so that they agree. The module
imports nothing of goalport, and no pydantic, which would slow down the start.
"""

import re
import types
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from difflib import SequenceMatcher, get_close_matches
from reprlib import Repr
from typing import TYPE_CHECKING, Annotated, Any, Final, ForwardRef, Literal, Union, cast, get_args, get_origin

if TYPE_CHECKING:
    from pydantic import ValidationError

_QUALIFIER: Final = re.compile(r"[\w<>]+\.")
_NOT_PORTABLE: Final = re.compile(r"[^A-Za-z0-9]+")
_VOWEL: Final = re.compile("[aeio]|un(?!i)", re.IGNORECASE)
"""Matches names that take the article "an": an Order and an UnpaidBill, but a UserInput and a Unit."""
_MOST_NEAR: Final = 3
_AS_NEAR: Final = 0.05
"""A name is suggested with the most similar one if its similarity is at most this much less."""
_MOST_LISTED: Final = 20
_LONGEST: Final = 80
"""The number of characters of a name that are compared, since names from outside may have any length."""
_LONGEST_TEXT: Final = 20_000
_LONGEST_LINE: Final = 500
_KEPT: Final = "\n\t\u200c\u200d"
"""Line feed, tab, and the zero-width joiners, which several scripts and emoji need, and which hide nothing."""
_HIDDEN: Final = frozenset({"Cc", "Cf", "Co", "Cs", "Cn", "Zl", "Zp"})
"""Unicode categories of invisible characters: control, format (zero width, direction, tags), private and unassigned."""
_SEQUENCE: Final = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]"  # colours, and all that moves the cursor
    r"|\x1b[]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)"  # links, titles and other strings
    r"|\x1b[ -/]+[0-~]"  # character sets; with `*`, a letter of the text after ESC would be removed too
)
"""An escape sequence for terminals (ECMA-48)."""
_MOST_LINES: Final = 20
_MOST_ERRORS: Final = 5_000
"""Beyond this number, describing each error would block the event loop for too long."""
_KINDS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("bool", "boolean"), "yes or no (true or false)"),
    **dict.fromkeys(("int", "integer"), "a whole number"),
    **dict.fromkeys(("float", "decimal", "number"), "a number"),
    "string": "a text",
    "date": "a date, such as 2026-11-22",
    **dict.fromkeys(("datetime", "date-time"), "a date with a time, such as 2026-11-22T14:30:00Z"),
    "time": "a time of day, such as 14:30",
    **dict.fromkeys(("time_delta", "duration"), "a length of time, such as PT1H30M"),
    **dict.fromkeys(("url", "uri"), "an address, such as https://example.com"),
    "email": "an email address, such as ada@example.com",
    "uuid": "a UUID, such as 123e4567-e89b-12d3-a456-426614174000",
    **dict.fromkeys(("list", "set", "frozen_set", "tuple", "array"), "a list"),
    **dict.fromkeys(("dict", "model", "dataclass", "model_attributes", "object"), "an object with fields"),
}
"""Kinds of values in words for a person, by their names in pydantic and JSON Schema."""
_OF_KIND: Final = re.compile("(.+?)_(?:type|parsing|parsing_size|from_[a-z]+(?:_parsing|_inexact)?)")
"""Matches the names of pydantic's errors about a value of another kind."""
_LIMITS: Final[Mapping[str, tuple[str, str]]] = {
    "string_too_short": ("minLength", "min_length"),
    "string_too_long": ("maxLength", "max_length"),
    "string_pattern_mismatch": ("pattern", "pattern"),
    "too_short": ("minItems", "min_length"),
    "too_long": ("maxItems", "max_length"),
    "greater_than": ("exclusiveMinimum", "gt"),
    "greater_than_equal": ("minimum", "ge"),
    "less_than": ("exclusiveMaximum", "lt"),
    "less_than_equal": ("maximum", "le"),
    "multiple_of": ("multipleOf", "multiple_of"),
}
"""The keyword of JSON Schema for each of pydantic's errors about a limit, and what pydantic calls that limit."""
_BOUNDS: Final[Mapping[str, str]] = {
    "exclusiveMinimum": "be more than",
    "minimum": "be at least",
    "exclusiveMaximum": "be less than",
    "maximum": "be at most",
    "multipleOf": "be a multiple of",
    "pattern": "match the pattern",
}
_SHOWN: Final = Repr()
_SHOWN.maxstring = _SHOWN.maxother = _SHOWN.maxlong = 80
_DESCRIBED: Final = Repr()
_DESCRIBED.maxstring = _DESCRIBED.maxother = _DESCRIBED.maxlong = 500


def type_name(kind: object) -> str:
    """A type as its author writes it, without modules and the metadata of `Annotated`: `list[Story] | None`.

    A NewType and an alias are called by their own names.
    """
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        # Pydantic makes a class of each generic model with arguments.
        made = cast("Mapping[str, Any]", vars(kind).get("__pydantic_generic_metadata__") or {})
        origin, arguments = made.get("origin"), made.get("args", ())
    else:
        # `get_origin` of an `Annotated` returns the origin of the annotated type.
        origin, arguments = (Annotated if hasattr(kind, "__metadata__") else get_origin(kind)), get_args(kind)
    if origin is None:
        return _bare_name(kind)
    if origin in (Union, types.UnionType):
        return " | ".join(map(type_name, arguments))
    if origin is Annotated:
        return type_name(arguments[0])
    if origin is Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if arguments or isinstance(kind, types.GenericAlias):
        return f"{type_name(origin)}[{', '.join(map(type_name, arguments)) or '()'}]"
    return type_name(origin)


def class_name(cls: type) -> str:
    """A class with its module, for messages about declarations: `agents.star_news: StarNewsFinder`."""
    return f"{cls.__module__}: {cls.__qualname__}"


def message_of(error: BaseException) -> str:
    """The message of an error, also of one whose `__str__` fails."""
    try:
        return str(error)
    except Exception as failure:
        return f"(its message cannot be read: __str__ raises {type(failure).__name__})"


def error_summary(error: BaseException) -> str:
    """The class of an error and its message: `ValueError: no such day`."""
    name, text = type(error).__name__, message_of(error)
    return f"{name}: {text}" if text else name


def type_label(kind: object) -> str:
    """The name of a type in letters, digits and underscores: `list_Story`, `Story_or_None`."""
    return _NOT_PORTABLE.sub("_", type_name(kind).replace(" | ", "_or_")).strip("_")


def with_article(kind: object) -> str:
    """The name of a type, or another noun, with its indefinite article: `a Story`, `an Order`."""
    noun = type_name(kind)
    return f"{'an' if _VOWEL.match(noun) else 'a'} {noun}"


def nearest(name: str, known: Iterable[str], *, likeness: float = 0.6) -> tuple[str, ...]:
    """The known names that are most similar to an unknown one: the nearest and those about as near, at most three.

    Case is ignored, and `-` equals `_`. `likeness` is the least similarity, from 0.0 to 1.0, which means equal.
    """
    wanted = name.lower().replace("-", "_")[:_LONGEST]
    spelled: dict[str, list[str]] = {}
    for each in known:
        spelled.setdefault(each.lower().replace("-", "_"), []).append(each)
    near = get_close_matches(wanted, spelled, n=_MOST_NEAR, cutoff=likeness)
    alike = {each: SequenceMatcher(None, each, wanted).ratio() for each in near}
    as_near = (each for each in near if alike[each] >= max(alike.values()) - _AS_NEAR)
    return tuple(each for plain in as_near for each in spelled[plain])[:_MOST_NEAR]


def did_you_mean(names: Iterable[str]) -> str:
    """The question "Did you mean …?" for these names; empty if there are none."""
    asked = " or ".join(map(repr, names))
    return f"Did you mean {asked}?" if asked else ""


def offer(name: str, known: Iterable[str], *, none: str = "There are none.", most: int = _MOST_LISTED) -> str:
    """A hint to follow "unknown …": the most similar names as a question, else the known names.

    `none` is the hint if no name is known. At most `most` names are listed, in the order of `known`.
    """
    names = list(dict.fromkeys(known))
    return did_you_mean(nearest(name, names)) or (f"Known: {listed(names, most)}." if names else none)


def listed(names: Iterable[str], most: int = _MOST_LISTED) -> str:
    """Names separated by commas: the first `most`, and how many more there are."""
    every = list(names)
    more = f" and {len(every) - most} more" if len(every) > most else ""
    return f"{', '.join(every[:most])}{more}"


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


def validation_problems(
    error: "ValidationError",
    value: object,
    known: Collection[str] | None = None,
    *,
    root: str = "",
    repeated: bool = True,
) -> tuple[str, ...]:
    """What pydantic found wrong with a value, one line per field: `stops[1].nights: required, but missing`.

    `known` are the names of the top-level fields, to suggest for unknown names. `root` is the name of the whole value.
    `repeated`: each line shows the wrong value; pass False if it may be a secret.
    """
    if error.error_count() > _MOST_ERRORS:
        return (f"{error.error_count()} values do not fit the schema",)
    lines: dict[str, list[str]] = {}
    for each in error.errors(include_url=False):
        path = _path(each["loc"], value, missing=each["type"] == "missing")
        reasons = lines.setdefault(path or root, [])
        match each["type"]:
            case "missing":
                reason = "required, but missing"
            case "extra_forbidden" | "unexpected_keyword_argument":
                is_within = "." in path or "[" in path
                others = "" if known is None or is_within else offer(path, known, none="There are no arguments.")
                reason = f"unknown. {others}".rstrip()
            case kind:
                reason = _expected(kind, each.get("ctx", {})) or validation_reason(each["msg"])
                came = f"; came {shown(each['input'])}"
                if repeated and not reason.endswith(came):  # a validator may have said it
                    reason += came
        if reason not in reasons:
            reasons.append(reason)
    return tuple(f"{f'{path}: ' if path else ''}{'; or '.join(reasons)}" for path, reasons in lines.items())


def validation_reason(message: str) -> str:
    """A message of pydantic, reworded as the end of a sentence about the field: `should be a valid integer`."""
    words = " ".join(message.removeprefix("Value error, ").removeprefix("Assertion failed, ").split())
    return words.replace("Input should", "should", 1)


def requirement(keyword: str, limit: object) -> str | None:
    """A keyword of JSON Schema in words, as the end of a sentence about the value; None for rare keywords."""
    match keyword, limit:
        case ("minLength", 1):
            return "should not be empty"
        case (("minLength" | "maxLength" | "minItems" | "maxItems"), int()):
            most = "most" if keyword.startswith("max") else "least"
            return f"should have at {most} {counted(limit, 'item' if keyword.endswith('Items') else 'character')}"
        case (("type" | "format"), str()) if limit in _KINDS:
            return f"should be {_KINDS[limit]}"
        case "enum", list():
            *others, last = map(repr, cast("list[object]", limit) or [None])
            return f"should be {', '.join(others)} or {last}" if others else f"should be {last}"
        case _:
            words = _BOUNDS.get(keyword)
            plain = int(limit) if isinstance(limit, float) and limit.is_integer() else limit
            return None if words is None else f"should {words} {plain}"


def limit_hint(keyword: str, limit: object) -> str | None:
    """A requirement as a hint before a person enters a value: `at least 1`; None for rare keywords."""
    words = requirement(keyword, limit)
    return words and re.sub(r"^should (?:be |have )?", "", words)


def shown(value: object) -> str:
    """The `repr` of a value, shortened."""
    return _SHOWN.repr(value)


def in_json(value: object) -> str:
    """A value as JSON for people and models to read; objects that JSON cannot express appear as a shortened `repr`."""
    from pydantic_core import to_json

    try:
        return to_json(value, fallback=_DESCRIBED.repr, bytes_mode="base64").decode()
    except ValueError:  # it contains itself, or lone surrogates
        return _DESCRIBED.repr(value)


def corrections(problems: Sequence[str], *, of: Literal["arguments", "answer"] = "arguments") -> str:
    """The message that asks a caller to correct its arguments or its answer: a line for each problem."""
    need = "need" if of == "arguments" else "needs"
    return "\n- ".join([f"The {of} {need} correcting:", *shortened(problems)])


def shortened(problems: Sequence[str], most: int = _MOST_LINES) -> tuple[str, ...]:
    """The first `most` problems, and a line that says how many more there are."""
    more = len(problems) - most
    return (*problems[:most], f"and {more} more") if more > 0 else tuple(problems)


def cleaned(text: str, limit: int = _LONGEST_TEXT) -> str:
    """The text without invisible characters, cut at `limit` characters.

    Control characters and escape sequences steer terminals, direction marks make a text look different from what it
    says, zero-width characters hide words from people but not from models, and lone surrogates cannot be encoded as
    UTF-8.
    """
    kept = text[: 2 * limit]
    shown = visible(kept).strip()
    return excerpt(shown, limit) if len(text) <= 2 * limit else f"{shown[:limit]}…"


def visible(text: str) -> str:
    """The text without invisible characters and escape sequences, as in `cleaned`, but not shortened."""
    if text.isprintable():
        return text
    if "\x1b" in text:
        text = _SEQUENCE.sub("", text)
    # A text has few different characters.
    hidden = [ord(each) for each in set(text) if each not in _KEPT and unicodedata.category(each) in _HIDDEN]
    return text.translate(dict.fromkeys(hidden)) if hidden else text


def excerpt(text: str, limit: int) -> str:
    """The text; if it has more than `limit` characters, its beginning and an ellipsis."""
    return text if len(text) <= limit else f"{text[:limit]}…"


def one_line(text: str, limit: int = _LONGEST_LINE) -> str:
    """A cleaned text in one line: each run of white space becomes one space."""
    return cleaned(" ".join(text[: 4 * limit].split()), limit)


def folded(text: str) -> str:
    """The text for comparison with others: case-folded, and with accents composed (NFC)."""
    return text.casefold() if text.isascii() else unicodedata.normalize("NFC", text.casefold())


def first_line(text: str, limit: int = _LONGEST_LINE) -> str:
    """The first line of a text, cleaned."""
    return cleaned(text.partition("\n")[0], limit)


def counted(number: int, what: str) -> str:
    """A number and a noun, in the plural where needed: `1 tool`, `2 tools`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def field_path(steps: Iterable[int | str]) -> str:
    """The path of a field as people write it: `stops[1].nights`."""
    path = ""
    for step in steps:
        if isinstance(step, int):
            path += f"[{step}]"
        else:  # the name may be from outside
            is_safe = step.isprintable() and len(step) <= _SHOWN.maxstring
            path += f".{step if is_safe else _SHOWN.repr(step)}"
    return path.removeprefix(".")


def _expected(kind: str, limits: Mapping[str, Any]) -> str | None:
    """An error of pydantic in words, as `requirement` words it; None for other errors."""
    if kind in _LIMITS:
        keyword, limit = _LIMITS[kind]
        # For a secret text, pydantic counts items and not characters.
        keyword = keyword.replace("Items", "Length") if limits.get("field_type") == "Value" else keyword
        return requirement(keyword, limits[limit])
    found = _OF_KIND.fullmatch(kind)
    return requirement("type", found[1]) if found is not None else None


def _path(location: Sequence[int | str], value: object, *, missing: bool) -> str:
    """The path of a problem inside a value.

    Pydantic's locations also name members of unions and validators, which are not in the caller's value. A step that is
    not in the value is such a name, unless it is the missing field.
    """
    steps: list[int | str] = []
    place = value
    for number, step in enumerate(location, start=1):
        inside = cast("Any", place if isinstance(place, Mapping | list | tuple) else ())
        is_there = step in inside if isinstance(inside, Mapping) else isinstance(step, int) and step < len(inside)
        if is_there or (missing and number == len(location)):
            steps.append(step)
        if is_there:
            place = cast("object", inside[step])
    return field_path(steps)
