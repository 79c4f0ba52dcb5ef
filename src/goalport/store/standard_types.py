"""Values of the standard library that hold no other values, as JSON: numbers, texts, bytes, times, paths, addresses.

Each kind has a tag and two functions. A value comes back as the same type, with what equality does not show: the fold
and the zone of a time, the sign of a zero. What JSON or a database would change is written as text: integers of more
than 64 bits, numbers like 1e22 and NaN, and texts with lone surrogates or zero characters.
"""

import ipaddress
import math
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic_core import TzInfo

from goalport.base.errors import Unstorable
from goalport.base.words import type_name

Json = Any
"""None, bool, int, float, str, and lists and string-keyed dicts of these."""
BAD_DATA: Final = (
    TypeError,
    ValueError,
    AttributeError,
    LookupError,
    ArithmeticError,
    InvalidOperation,
    ZoneInfoNotFoundError,
    re.error,
)
"""What reading raises for data that is not what the tag says."""
_EXACT: Final = 1e16
"""From here on `repr` of a float has an exponent, and a database may make an integer of it."""


@dataclass(frozen=True, slots=True)
class Standard:
    """How values of a class are written and read. Nothing else but the class itself is called to read them."""

    tag: str
    write: Callable[[Any], Json]
    read: Callable[[Any], object]


def plain_text(text: str) -> bool:
    """Whether every parser and database keeps a text as it is."""
    if "\0" in text:
        return False
    if text.isascii():
        return True
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def plain_float(number: float) -> bool:
    """Whether every parser and database keeps a number as it is."""
    return -_EXACT < number < _EXACT and (number != 0 or math.copysign(1, number) > 0)


def _write_text(text: str) -> str:
    return b64encode(text.encode("utf-8", "surrogatepass")).decode()


def _read_text(data: str) -> str:
    return b64decode(data, validate=True).decode("utf-8", "surrogatepass")


def _write_bytes(data: bytes) -> str:
    return b64encode(data).decode()


def _read_bytes(data: str) -> bytes:
    return b64decode(data, validate=True)


def _read_hex(data: str) -> int:
    return int(data, 16)


def _write_zone(zone: tzinfo | None) -> Json:
    match zone:
        case None:
            return None
        case timezone() if zone == UTC and zone.tzname(None) == "UTC":
            return "UTC"
        case timezone():
            name = zone.tzname(None)
            return {"offset": [_write_timedelta(zone.utcoffset(None)), *([] if name.startswith("UTC") else [name])]}
        case TzInfo():
            return {"pydantic": _write_timedelta(zone.utcoffset(None) or timedelta())}
        case ZoneInfo(key=str() as key):
            return {"zone": key}
        case _:
            raise Unstorable(
                type_name(type(zone)), "only zones of zoneinfo and fixed offsets can be stored. Use zoneinfo.ZoneInfo."
            )


def _read_zone(data: Json) -> tzinfo | None:
    match data:
        case None:
            return None
        case "UTC":
            return UTC
        case {"offset": [offset, *name]}:
            return timezone(_read_timedelta(offset), *name)
        case {"pydantic": offset}:
            return TzInfo(_read_timedelta(offset).total_seconds())
        case {"zone": str() as key}:
            return ZoneInfo(key)
        case _:
            raise ValueError("no time zone")


def _write_moment(value: datetime | time) -> Json:
    """A date with time or a time, without its zone: `fromisoformat` would replace the zone by an offset."""
    text, zone = value.replace(tzinfo=None, fold=0).isoformat(), _write_zone(value.tzinfo)
    return [text, zone, value.fold] if value.fold else [text, zone] if zone is not None else text


def _parts(data: Json) -> tuple[str, Json, int]:
    if isinstance(data, str):
        return data, None, 0
    text, zone, *fold = data
    return text, zone, fold[0] if fold else 0


def _read_moment(kind: type[datetime] | type[time]) -> Callable[[Json], datetime | time]:
    def read(data: Json) -> datetime | time:
        text, zone, fold = _parts(data)
        return kind.fromisoformat(text).replace(tzinfo=_read_zone(zone), fold=fold)

    return read


def _write_timedelta(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _read_timedelta(data: list[int]) -> timedelta:
    return timedelta(*data)


def _read_pattern(data: list[Any]) -> object:
    text, flags = data
    return re.compile(text if isinstance(text, str) else _read_bytes(text[0]), flags)


def _write_pattern(value: "re.Pattern[Any]") -> Json:
    pattern: str | bytes = value.pattern
    return [pattern if isinstance(pattern, str) else [_write_bytes(pattern)], value.flags]


def _texts(kind: Callable[[str], object]) -> tuple[Callable[[Any], str], Callable[[str], object]]:
    """The functions of a class whose values are their texts."""

    def read(data: str) -> object:
        if type(data) is not str:
            raise TypeError(data)
        return kind(data)

    return str, read


_PATHS: Final = {
    "$path": (type(Path()), Path),
    "$posix_path": (PurePosixPath, PurePosixPath),
    "$windows_path": (PureWindowsPath, PureWindowsPath),
}
_ADDRESSES: Final = (
    ipaddress.IPv4Address,
    ipaddress.IPv6Address,
    ipaddress.IPv4Network,
    ipaddress.IPv6Network,
    ipaddress.IPv4Interface,
    ipaddress.IPv6Interface,
)
STANDARD: Final[dict[type, Standard]] = {
    str: Standard("$text", _write_text, _read_text),
    int: Standard("$int", hex, _read_hex),
    float: Standard("$float", repr, float),
    bytes: Standard("$bytes", _write_bytes, _read_bytes),
    bytearray: Standard("$bytearray", _write_bytes, lambda data: bytearray(_read_bytes(data))),
    complex: Standard(
        "$complex",
        lambda value: [repr(value.real), repr(value.imag)],
        lambda data: complex(float(data[0]), float(data[1])),
    ),
    Decimal: Standard("$decimal", *_texts(Decimal)),
    Fraction: Standard(
        "$fraction",
        lambda value: [hex(value.numerator), hex(value.denominator)],
        lambda data: Fraction(_read_hex(data[0]), _read_hex(data[1])),
    ),
    range: Standard(
        "$range",
        lambda value: [hex(value.start), hex(value.stop), hex(value.step)],
        lambda data: range(*map(_read_hex, data)),
    ),
    datetime: Standard("$datetime", _write_moment, _read_moment(datetime)),
    date: Standard("$date", date.isoformat, date.fromisoformat),
    time: Standard("$time", _write_moment, _read_moment(time)),
    timedelta: Standard("$timedelta", _write_timedelta, _read_timedelta),
    timezone: Standard("$zone", _write_zone, _read_zone),
    TzInfo: Standard("$zone", _write_zone, _read_zone),
    ZoneInfo: Standard("$zone", _write_zone, _read_zone),
    UUID: Standard("$uuid", *_texts(UUID)),
    re.Pattern: Standard("$pattern", _write_pattern, _read_pattern),
    **{cls: Standard(tag, *_texts(make)) for tag, (cls, make) in _PATHS.items()},
    **{cls: Standard(f"${cls.__name__.lower()}", *_texts(cls)) for cls in _ADDRESSES},
}
"""The kinds by their exact classes; a subclass may hold more, and is no standard type."""
STANDARD_TAGS: Final[dict[str, Callable[[Any], object]]] = {each.tag: each.read for each in STANDARD.values()}
