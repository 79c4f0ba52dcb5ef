"""Types and plain values as JSON: values of the standard library, and the names under which classes are stored.

Values without other values inside, such as bytes, times, paths and URLs, have a tag and two functions, and are read as
the same type, with the fold and the zone of a time. Values that JSON lacks are written as text: numbers that are not
finite, integers that others read as floats, lone surrogates.

A class of the workspace is named by its place there (`agents.star_news:Writeup`), any other by its module
(`module:qualname`), and a class marked with `@persistent` by the name of the mark; type expressions such as
`list[Story]` are composed of these. A name never imports or calls anything: it finds classes that the program has
imported already, and those of a few modules that goalport itself imports late. So somebody who can write to a store can
choose among existing classes, but can load no code.
"""

import importlib
import ipaddress
import re
import sys
import typing
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, InvalidOperation
from fractions import Fraction
from functools import partial, reduce
from pathlib import Path, PurePosixPath, PureWindowsPath
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, cast, get_args, get_origin
from uuid import UUID
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic_core import TzInfo
from typing_extensions import TypeAliasType

from goalport.agents.blackboard import origin_and_arguments
from goalport.base.errors import DeclarationError, Unreadable, Unstorable
from goalport.base.words import class_name, offer, type_name

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
"""The exceptions for data that does not fit its tag."""


@dataclass(frozen=True, slots=True)
class Standard:
    """How values of a class are written and read. Reading calls nothing but the class itself."""

    tag: str
    write: Callable[[Any], Json]
    read: Callable[[Any], object]


def _of_text(tag: str, make: Callable[[str], object]) -> Standard:
    """A class whose values are written as their `str`."""

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
    """A datetime or a time, with its zone apart: `fromisoformat` would replace the zone by an offset."""
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
"""The standard types by exact class; a subclass may hold more data, and is none of them."""
STANDARD_TAGS: Final = {each.tag: each.read for each in STANDARD.values()}


C = TypeVar("C", bound=type)
Upcast = Callable[[int, dict[str, Any]], Mapping[str, Any]]
"""Gets the version and the fields of a stored object, and returns the fields of today's class."""

_MARK: Final = "__goalport_persistent__"
_NAME: Final = re.compile(r"[A-Za-z_][\w.\-:]*")
_FOLDERS: Final = ("agents.", "tools.")
"""The folders of a workspace. Names of equally named installed packages begin with a slash."""
_OMITTED_FOLDERS: Final = ("agents", "base", "knowledge", "models", "runtime", "server", "tools")
"""The folders of goalport that names omit: `goalport.domain.wait_for:WaitFor`, wherever `domain` is."""
_OMITTED_PREFIX: Final = re.compile(r"goalport\.(?:agents|base|knowledge|models|runtime|server|tools(?=\.upstream))\.")
_STORED_NAMES: Final = {
    "goalport.domain.decorators:PlannerType": "goalport.domain.planner_type:PlannerType",
    "goalport.domain.signature:UserInput": "goalport.domain.values:UserInput",
    **{
        f"goalport.{now}:{name}": f"goalport.{stored}:{name}"
        for now, stored, names in (
            ("llm.model", "llm.messages", "AssistantMessage Image SystemMessage ToolCall ToolReply UserMessage"),
            ("workflow.workflow", "workflow.history", "Attempt Feedback History"),
        )
        for name in names.split()
    },
}
"""Classes of goalport in lower rooms, which cannot use `@persistent`: today's name, and the stored one."""
_CURRENT_NAMES: Final = {stored: now for now, stored in _STORED_NAMES.items()}
_LATE_MODULES: Final = frozenset({"mcp_types", "pydantic_ai.messages", "pydantic_ai.usage"})
"""Modules that goalport imports late, and whose objects its records contain."""
_LOCAL: Final = "<locals>"


@dataclass(frozen=True, slots=True)
class Persistent:
    """The arguments of `@persistent` for a class."""

    name: str
    version: int
    upcast: Upcast | None


def persistent(name: str, *, version: int = 1, upcast: Upcast | None = None) -> Callable[[C], C]:
    """Store objects of a class under a name that stays when the class is renamed, moved or changed.

    `name`: any name that no other class has; use the earlier name of a class (`agents.star_news:Writeup`) to read what
    was stored under it. `version`: raise it by one whenever stored fields no longer fit the class. `upcast`: is called
    with the version and the fields of an object that was stored by an earlier version, and returns the fields that the
    class has today; for a member of an enum, the fields are its `name`.
    """

    def mark(cls: C) -> C:
        where, problem = f"@persistent on {class_name(cls)}", None
        if not _NAME.fullmatch(name):
            problem = ("a name of letters, digits and any of `_.:-`", f"the name is {name!r}", "Choose another.")
        elif type(version) is not int or version < 1:
            problem = ("a version from 1 up", f"the version is {version!r}", "Count it in whole numbers.")
        if problem is not None:
            expected, came, fix = problem
            raise DeclarationError(where, expected=expected, came=came, fix=fix)
        setattr(cls, _MARK, Persistent(name, version, upcast))
        return cls

    return mark


def persistent_mark(cls: type) -> Persistent | None:
    """The mark of a class itself; a subclass is another class, with a name of its own."""
    return vars(cls).get(_MARK)


class TypeNames:
    """Finds names of classes, and classes by name, among the imported modules.

    Create a new one when a workspace is loaded again, since its classes are new then. `workspace` is the package under
    which modules of the workspace are imported.
    """

    def __init__(
        self, modules: Mapping[str, ModuleType] | None = None, *, workspace: str = "goalport_workspace"
    ) -> None:
        self._modules = sys.modules if modules is None else modules
        self._package = f"{workspace}."
        self._names: dict[Any, str] = {}
        self._found: dict[str, Any] = {}
        self._marked: dict[str, list[type]] = {}
        self._searched = -1
        """The number of modules that were searched for marked classes."""

    def name_of(self, kind: Any) -> str:
        """The name under which a class, a `NewType` or an alias is stored. Raises `Unstorable` if it has none."""
        name = self._names.get(kind)
        if name is None:
            name = self._names[kind] = self._name_of(kind)
        return name

    def _name_of(self, kind: Any) -> str:
        module, name = str(kind.__module__), str(kind.__name__)
        qualname = str(getattr(kind, "__qualname__", name))
        if _LOCAL in qualname:
            why = "it is defined inside a function, where nothing finds it again. Define it at the top of a module."
            raise Unstorable(name, why)
        if isinstance(kind, type) and (mark := persistent_mark(kind)) is not None:
            return mark.name
        if kind is not NoneType and module in self._modules and self._lookup(module, qualname) is None:
            fix = "Bind the class to this name, or give it one by @persistent."
            raise Unstorable(name, f"module {module} has no {qualname}. {fix}")
        # The nearest public module that has the class: libraries move their private modules.
        while re.search(r"\._[^_]", module):
            above = module[: module.rindex("._")]
            if above not in self._modules or self._lookup(above, qualname) is not kind:
                break
            module = above
        if module.startswith(self._package):
            return f"{module.removeprefix(self._package)}:{qualname}"
        module = _OMITTED_PREFIX.sub("goalport.", module)
        found = f"{'/' if f'{module}.'.startswith(_FOLDERS) else ''}{module}:{qualname}"
        return _STORED_NAMES.get(found, found)

    def find(self, name: str) -> Any:
        """The class, `NewType` or alias of a name. Raises `Unreadable` if there is none, or more than one."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._find(name)
        return found

    def _find(self, name: str) -> Any:
        if name not in self._marked and self._searched != len(self._modules):
            self._searched, self._marked = len(self._modules), {}
            modules = [*self._modules.values()]
            values = {id(each): each for module in modules for each in [*getattr(module, "__dict__", {}).values()]}
            for each in values.values():
                # Uses the type and not the value, as a proxy may fail when it is asked for its class.
                if issubclass(type(each), type) and (mark := persistent_mark(each)) is not None:
                    self._marked.setdefault(mark.name, []).append(each)
        marked = self._marked.get(name, [])
        if len(marked) > 1:
            both = " and ".join(class_name(each) for each in marked)
            raise Unreadable(name, f"{both} have this persistent name.", "Give each a name of its own.")
        if marked:
            return marked[0]
        module, _, qualname = _CURRENT_NAMES.get(name, name).partition(":")
        if module.startswith(_FOLDERS):
            module = f"{self._package}{module}"
        elif module.startswith("goalport."):
            candidates = (f"goalport.{folder}.{module.removeprefix('goalport.')}" for folder in _OMITTED_FOLDERS)
            module = next((each for each in candidates if each in self._modules), module)
        found = self._lookup(module.removeprefix("/"), qualname) if qualname else None
        if found is None:
            hint = "" if qualname else offer(name, sorted(self._marked), none="")
            fix = f'{hint} If it was renamed or moved, write @persistent("{name}") above it.'.lstrip()
            raise Unreadable(name, "no class of that name is imported.", fix)
        return found

    def _lookup(self, module: str, qualname: str) -> Any:
        """The type with a qualified name in a module, or None. Runs no code of the module or of classes."""
        if (module, qualname) == ("builtins", "NoneType"):
            return NoneType
        if module in _LATE_MODULES and module not in self._modules:
            with suppress(ImportError):
                importlib.import_module(module)
        place: Any = self._modules.get(module)
        for part in qualname.split("."):
            if not isinstance(place, ModuleType | type):
                return None
            place = vars(place).get(part)
        return place if isinstance(place, type | NewType | TypeAliasType) else None


_TYPING: Final = vars(typing)
_SPECIAL: Final = cast("type[object]", type(_TYPING["List"]))
"""The class of `typing.List` and its like."""
_EXAMPLES: Final[tuple[Any, ...]] = (
    list[int],
    int | str,
    NewType("_", int),
    *(_TYPING[name] for name in ("List", "Tuple", "Union")),
    *(_TYPING[name][int] for name in ("List", "Type")),
    _TYPING["Union"][int, str],
    Annotated[int, 0],
    Literal[0],
)
TYPE_FORMS: Final = frozenset[type]({TypeAliasType, *map(type, _EXAMPLES)})
"""The classes of type expressions that are not classes."""


def written_type(kind: Any, names: TypeNames, write: Callable[[object], Json]) -> Json:
    """A type expression as JSON; `write` encodes the values in it. Raises `Unstorable` for one without a stable form.

    It is read as an equal type, perhaps in another form: `list[int]` for `List[int]`.
    """
    if kind is None or kind is ...:
        return None if kind is None else "..."
    taken: tuple[Any, tuple[Any, ...]] = origin_and_arguments(kind)
    origin, arguments = taken
    if hasattr(kind, "__metadata__"):
        return {"annotated": [written_type(get_args(kind)[0], names, write), *map(write, kind.__metadata__)]}
    if origin is Literal:
        return {"literal": [*map(write, arguments)]}
    if origin is kind and isinstance(kind, type | NewType | TypeAliasType):
        return names.name_of(kind)
    if origin is kind or any(isinstance(each, list) for each in arguments):
        raise Unstorable(type_name(kind), "it is no type of which there are objects. Name a class.")
    parts = [written_type(each, names, write) for each in arguments]
    if origin in {Union, UnionType}:
        return {"union": parts}
    name = written_type(origin, names, write)
    return name if isinstance(kind, _SPECIAL) else {"of": [name, *parts]}


def read_type(data: Json, names: TypeNames, read: Callable[[Json], object]) -> Any:
    """The type expression of JSON data; `read` decodes the values in it. Raises `Unreadable` for other data."""

    def each_of(parts: list[Json]) -> tuple[Any, ...]:
        return tuple(read_type(each, names, read) for each in parts)

    match data:
        case None:
            return None
        case str():
            return ... if data == "..." else names.find(data)
        case {"annotated": [kind, *added]}:
            return Annotated[(read_type(kind, names, read), *map(read, added))]
        case {"literal": [*values]}:
            return Literal[tuple(map(read, values))]
        case {"union": [*kinds]} | {"typing": ["Union", *kinds]}:
            return reduce(lambda one, other: one | other, each_of(kinds))
        case {"of": [origin, *arguments]}:
            return _subscripted(read_type(origin, names, read), each_of(arguments))
        case {"typing": str() as name} if isinstance(_TYPING.get(name), _SPECIAL):
            return get_origin(_TYPING[name])
        case {"typing": [str() as name, *arguments]} if isinstance(_TYPING.get(name), _SPECIAL):
            return _subscripted(get_origin(_TYPING[name]), each_of(arguments))
        case _:
            raise Unreadable(repr(data)[:80], "it is no type expression.", "The store was written by something else.")


def _subscripted(origin: Any, arguments: tuple[Any, ...]) -> Any:
    try:
        return origin[arguments]
    except (TypeError, AttributeError) as error:
        problem = f"it takes no type arguments now ({error})."
        raise Unreadable(type_name(origin), problem, "Make it generic again.") from None
