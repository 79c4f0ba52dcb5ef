"""Types as JSON: the names under which classes are stored, and expressions of them such as `list[Story]`, and back.

A class of the workspace is named from there (`agents.star_news:Writeup`), any other by its module (`module:qualname`),
and one that is marked with `@persistent` by the name it is given. A name never imports or calls anything: it finds
classes that the program has imported already, and those of a few modules that goalport itself imports late. So whoever
can write to a store can choose among the classes that are there, and can load no code.
"""

import importlib
import re
import sys
import typing
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import reduce
from types import ModuleType, NoneType, UnionType
from typing import Annotated, Any, Final, Literal, NewType, TypeVar, Union, cast, get_args, get_origin

from typing_extensions import TypeAliasType

from goalport.agents.blackboard import taken_apart
from goalport.base.errors import DeclarationError, Unreadable, Unstorable
from goalport.base.words import class_name, offer, type_name
from goalport.store.standard_types import Json

C = TypeVar("C", bound=type)
Upcast = Callable[[int, dict[str, Any]], Mapping[str, Any]]
"""Takes the version of stored fields and the fields by name, and returns the fields that the class has today."""

_MARK: Final = "__goalport_persistent__"
_NAME: Final = re.compile(r"[A-Za-z_][\w.\-:]*")
_FOLDERS: Final = ("agents.", "tools.")
"""The folders of a workspace. An installed package may be called the same, and is written with a slash before."""
_WINGS: Final = ("agents", "base", "knowledge", "models", "runtime", "server", "tools")
"""The folders of goalport that names leave out: `goalport.domain.wait_for:WaitFor`, wherever `domain` stands."""
_IN_WING: Final = re.compile(r"goalport\.(?:agents|base|knowledge|models|runtime|server|tools(?=\.upstream))\.")
_MOVED: Final = {
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
"""Classes of goalport below this room, which `@persistent` cannot mark, by their modules: as they are stored."""
_STAND: Final = {stored: now for now, stored in _MOVED.items()}
_LATE: Final = frozenset({"mcp_types", "pydantic_ai.messages", "pydantic_ai.usage"})
"""Modules that goalport imports when it needs them, and whose objects its records hold."""
_LOCAL: Final = "<locals>"


@dataclass(frozen=True, slots=True)
class Persistent:
    """What `@persistent` says of a class."""

    name: str
    version: int
    upcast: Upcast | None


def persistent(name: str, *, version: int = 1, upcast: Upcast | None = None) -> Callable[[C], C]:
    """Store objects of a class under a name that stays when the class is renamed, moved or changed.

    `name`: any name that no other class has; the earlier name of a class (`agents.star_news:Writeup`) reads what was
    stored under it. `version`: raise it by one whenever stored fields no longer fit the class. `upcast`: is called with
    the version and the fields of an object that was stored by an earlier version, and returns the fields that the class
    has today; for a member of an enum, the fields are its `name`.
    """

    def mark(cls: C) -> C:
        if not _NAME.fullmatch(name):
            expected = "a name of letters, digits and any of `_.:-`"
            raise _misused(cls, expected, f"the name is {name!r}", "Choose another.")
        if type(version) is not int or version < 1:
            raise _misused(cls, "a version from 1 up", f"the version is {version!r}", "Count it in whole numbers.")
        setattr(cls, _MARK, Persistent(name, version, upcast))
        return cls

    return mark


def _misused(cls: type, expected: str, came: str, fix: str) -> DeclarationError:
    return DeclarationError(f"@persistent on {class_name(cls)}", expected=expected, came=came, fix=fix)


def persistent_mark(cls: type) -> Persistent | None:
    """What `@persistent` says of a class itself; a subclass is another class, with a name of its own."""
    return vars(cls).get(_MARK)


class TypeNames:
    """Names of classes, and classes by their names, among the imported modules.

    Make a new one when a workspace is loaded again: its classes are new then. `workspace` is the package under which
    modules of the workspace are imported.
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
        """The name under which a class, a `NewType` or an alias is stored. Raises `Unstorable` where it has none."""
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
        module = _IN_WING.sub("goalport.", module)
        found = f"{'/' if f'{module}.'.startswith(_FOLDERS) else ''}{module}:{qualname}"
        return _MOVED.get(found, found)

    def find(self, name: str) -> Any:
        """The class, `NewType` or alias of a name. Raises `Unreadable` where there is none, or more than one."""
        found = self._found.get(name)
        if found is None:
            found = self._found[name] = self._find(name)
        return found

    def _find(self, name: str) -> Any:
        if name not in self._marked and self._searched != len(self._modules):
            self._searched, self._marked = len(self._modules), _marked_in(list(self._modules.values()))
        marked = self._marked.get(name, [])
        if len(marked) > 1:
            both = " and ".join(class_name(each) for each in marked)
            raise Unreadable(name, f"{both} have this persistent name.", "Give each a name of its own.")
        if marked:
            return marked[0]
        module, _, qualname = _STAND.get(name, name).partition(":")
        if module.startswith(_FOLDERS):
            module = f"{self._package}{module}"
        elif module.startswith("goalport."):
            stands = (f"goalport.{wing}.{module.removeprefix('goalport.')}" for wing in _WINGS)
            module = next((each for each in stands if each in self._modules), module)
        found = self._lookup(module.removeprefix("/"), qualname) if qualname else None
        if found is None:
            hint = "" if qualname else offer(name, sorted(self._marked), none="")
            fix = f'{hint} If it was renamed or moved, write @persistent("{name}") above it.'.lstrip()
            raise Unreadable(name, "no class of that name is imported.", fix)
        return found

    def _lookup(self, module: str, qualname: str) -> Any:
        """What a module has under a qualified name, if it is a type. Runs no code of the module or of classes."""
        if (module, qualname) == ("builtins", "NoneType"):
            return NoneType
        if module in _LATE and module not in self._modules:
            with suppress(ImportError):
                importlib.import_module(module)
        place: Any = self._modules.get(module)
        for part in qualname.split("."):
            if not isinstance(place, ModuleType | type):
                return None
            place = vars(place).get(part)
        return place if isinstance(place, type | NewType | TypeAliasType) else None


def _marked_in(modules: list[ModuleType]) -> dict[str, list[type]]:
    """The marked classes at the top level of modules, by name."""
    found: dict[str, list[type]] = {}
    values: dict[int, Any] = {
        id(each): each for module in modules for each in [*getattr(module, "__dict__", {}).values()]
    }
    for each in values.values():
        # Uses the type and not the value, as a proxy may fail when it is asked for its class.
        if issubclass(type(each), type) and (mark := persistent_mark(each)) is not None:
            found.setdefault(mark.name, []).append(each)
    return found


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
"""The classes of type expressions that are no classes themselves."""


def written_type(kind: Any, names: TypeNames, write: Callable[[object], Json]) -> Json:
    """A type expression as JSON; `write` writes the values in it. Raises `Unstorable` for one without a stable form.

    What is read is equal to it, and may be another form of the same: `list[int]` for `List[int]`.
    """
    if kind is None or kind is ...:
        return None if kind is None else "..."
    taken: tuple[Any, tuple[Any, ...]] = taken_apart(kind)
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
    """The type expression of JSON data; `read` reads the values in it. Raises `Unreadable` for data that is none."""

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
