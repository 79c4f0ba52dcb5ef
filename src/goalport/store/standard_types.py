"""Values of the standard library that hold no other values, as JSON: bytes, numbers, times, paths, addresses.

Each kind has a tag and two functions, and comes back as the same type, with the fold and the zone of a time. Written
as text is what JSON cannot say: numbers that are not finite, integers that others read as floats, half surrogate pairs.
"""

import ipaddress
import re
from base64 import b64decode, b64encode
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any, Final, cast
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


@dataclass(frozen=True, slots=True)
class Standard:
    """How values of a class are written and read. Nothing else but the class itself is called to read them."""

    tag: str
    write: Callable[[Any], Json]
    read: Callable[[Any], object]


def _of_text(tag: str, make: Callable[[str], object]) -> Standard:
    """A class whose values are their texts."""

    def read(data: object) -> object:
        if type(data) is not str:
            raise TypeError(data)
        return make(data)

    return Standard(tag, str, read)


def _write_bytes(data: bytes | bytearray) -> str:
    return b64encode(data).decode()


def _read_bytes(data: str) -> bytes:
    return b64decode(data, validate=True)


def _write_zone(zone: tzinfo | None) -> Json:
    match zone:
        case None:
            return None
        case ZoneInfo(key=str() as key):
            return {"zone": key}
        case timezone() | TzInfo():
            offset, name = zone.utcoffset(None) or timedelta(), zone.tzname(None) or ""
            if not offset and name == "UTC":
                return "UTC"
            named = isinstance(zone, timezone) and not name.startswith("UTC")
            return {"offset": [_write_timedelta(offset), *([name] if named else [])]}
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
            return timezone(timedelta(*offset), *name)
        case {"pydantic": offset}:  # as earlier versions wrote the zones that pydantic makes
            return timezone(timedelta(*offset))
        case {"zone": str() as key}:
            return ZoneInfo(key)
        case _:
            raise ValueError("no time zone")


def _write_timedelta(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _write_moment(value: datetime | time) -> Json:
    """A date with time or a time, without its zone: `fromisoformat` would replace the zone by an offset."""
    text, zone = value.replace(tzinfo=None, fold=0).isoformat(), _write_zone(value.tzinfo)
    return [text, zone, value.fold] if value.fold else [text, zone] if zone is not None else text


def _read_moment(kind: type[datetime] | type[time], data: Json) -> datetime | time:
    text, zone, fold = [data, None, 0] if isinstance(data, str) else [*data, 0][:3]
    return kind.fromisoformat(cast("str", text)).replace(tzinfo=_read_zone(zone), fold=cast("int", fold))


def _read_pattern(data: list[Any]) -> object:
    text, flags = data
    return re.compile(text if isinstance(text, str) else _read_bytes(text[0]), flags)


_ADDRESSES: Final = (
    *(ipaddress.IPv4Address, ipaddress.IPv6Address, ipaddress.IPv4Network, ipaddress.IPv6Network),
    *(ipaddress.IPv4Interface, ipaddress.IPv6Interface),
)
STANDARD: Final[dict[type, Standard]] = {
    str: Standard(
        "$text",
        lambda text: _write_bytes(text.encode("utf-8", "surrogatepass")),
        lambda data: _read_bytes(data).decode("utf-8", "surrogatepass"),
    ),
    int: Standard("$int", hex, lambda data: int(data, 16)),
    float: Standard("$float", repr, float),
    bytes: Standard("$bytes", _write_bytes, _read_bytes),
    bytearray: Standard("$bytearray", _write_bytes, lambda data: bytearray(_read_bytes(data))),
    complex: Standard(
        "$complex",
        lambda value: [repr(value.real), repr(value.imag)],
        lambda data: complex(float(data[0]), float(data[1])),
    ),
    Decimal: _of_text("$decimal", Decimal),
    Fraction: Standard(
        "$fraction",
        lambda value: [hex(value.numerator), hex(value.denominator)],
        lambda data: Fraction(int(data[0], 16), int(data[1], 16)),
    ),
    datetime: Standard("$datetime", _write_moment, partial(_read_moment, datetime)),
    date: Standard("$date", date.isoformat, date.fromisoformat),
    time: Standard("$time", _write_moment, partial(_read_moment, time)),
    timedelta: Standard("$timedelta", _write_timedelta, lambda data: timedelta(*data)),
    **{cls: Standard("$zone", _write_zone, _read_zone) for cls in (timezone, TzInfo, ZoneInfo)},
    UUID: _of_text("$uuid", UUID),
    re.Pattern: Standard(
        "$pattern",
        lambda value: [value.pattern if isinstance(value.pattern, str) else [_write_bytes(value.pattern)], value.flags],
        _read_pattern,
    ),
    PurePosixPath: _of_text("$posix_path", PurePosixPath),
    PureWindowsPath: _of_text("$windows_path", PureWindowsPath),
    type(Path()): _of_text("$path", Path),
    **{cls: _of_text(f"${cls.__name__.lower()}", cls) for cls in _ADDRESSES},
}
"""The kinds by their exact classes; a subclass may hold more, and is no standard type."""
STANDARD_TAGS: Final = {each.tag: each.read for each in STANDARD.values()}
