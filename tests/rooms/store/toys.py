"""Toy types whose objects the tests of the codec write and read."""

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import InitVar, dataclass, field
from datetime import datetime, timedelta, tzinfo
from enum import KEEP, Enum, Flag, IntEnum, StrEnum
from functools import cached_property
from typing import Any, Generic, NamedTuple, NewType, TypedDict, TypeVar

from pydantic import BaseModel, ConfigDict, HttpUrl, PrivateAttr, RootModel, SecretStr, field_validator
from pydantic.dataclasses import dataclass as checked_dataclass

from goalport.agents.domain import SomeOf, State, WaitFor
from goalport.store import persistent

T = TypeVar("T")
UserId = NewType("UserId", int)


class Colour(Enum):
    RED = 1
    GREEN = 2


class Word(StrEnum):
    YES = "yes"


class Level(IntEnum):
    LOW = 1


class Right(Flag):
    READ = 1
    WRITE = 2


class Point(NamedTuple):
    x: Any
    y: Any = 0


@dataclass
class Node:
    value: Any = None
    next: Any = None


@dataclass(frozen=True)
class Frozen:
    value: Any
    tags: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Slotted:
    value: Any
    _hidden: Any = None


@dataclass(frozen=True, slots=True)
class SlottedBelow(Frozen):
    more: Any = None


@dataclass
class Computed:
    """Counts how often its constructor ran."""

    side: float
    scale: InitVar[float] = 1.0
    area: float = field(init=False)
    lazy: int = field(init=False)

    made = 0

    def __post_init__(self, scale: float) -> None:
        type(self).made += 1
        self.area = self.side**2 * scale
        self.note = "not declared"

    @cached_property
    def twice(self) -> float:
        return 2 * self.area


@dataclass(eq=False)
class Vertex:
    """A node of a graph, whose hash is its identity."""

    name: str
    neighbours: "set[Vertex]" = field(default_factory=set["Vertex"])


@dataclass(frozen=True)
class Holder:
    inside: Any = None

    def __hash__(self) -> int:
        return hash(id(self.inside))


@dataclass
class Box(Generic[T]):
    content: T


@checked_dataclass
class Checked:
    number: int


class Raw(BaseModel):
    text: str
    at: Any = None


class Page(BaseModel, Generic[T]):
    items: list[T]
    number: int = 1


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")

    name: str
    _seen: int = PrivateAttr(default=0)
    _unset: int = PrivateAttr()


class Strict(BaseModel):
    """A validator that no stored object passes a second time."""

    model_config = ConfigDict(frozen=True)

    name: str
    child: "Strict | None" = None

    @field_validator("name")
    @classmethod
    def _add(cls, name: str) -> str:
        return f"<{name}>"

    @cached_property
    def length(self) -> int:
        return len(self.name)


class Names(RootModel[list[str]]):
    pass


class Site(BaseModel):
    url: HttpUrl


class Login(BaseModel):
    user: str
    password: SecretStr


class Parts(SomeOf):
    raw: Raw | None = None
    frozen: Frozen | None = None


class Never(SomeOf):
    """Objects of it are made by the codec only."""

    raw: Raw | None = None


class Stage(State):
    draft: str
    by: Any = None


@dataclass(frozen=True)
class Approval(WaitFor[str]):
    """A question that users declare."""

    wanted: type[Any] = str
    expires_in: float | None = 60.0


@persistent("tests.point-3d", version=3)
@dataclass
class Kept:
    value: Any


@dataclass
class Lookup:
    find: Callable[[str], str]


class Client:
    """A class of its own, that is nothing a codec knows."""


@dataclass
class Live:
    client: Client | None = None
    images: list[Any] = field(default_factory=list[Any])


@dataclass
class Counted:
    name: str
    lock: Any = field(default_factory=threading.Lock, metadata={"stored": False})


@dataclass
class Resource:
    path: str

    def __del__(self) -> None:
        pass


@dataclass
class Named(dict[str, int]):
    name: str = ""


class Slug(str):
    __slots__ = ()


def stories() -> Iterator[str]:
    yield "once"


def make_local() -> type:
    @dataclass
    class Local:
        value: int = 0

    return Local


DYNAMIC = dataclass(type("Hidden", (), {"__annotations__": {"value": int}, "__module__": __name__}))


class Odd(tzinfo):
    """A time zone of a user."""

    def utcoffset(self, moment: datetime | None, /) -> timedelta:
        return timedelta(hours=1)


class Shape:
    """A plain class whose objects are of subclasses."""


@dataclass
class Circle(Shape):
    radius: float


@persistent("tests.faulty", version=2, upcast=lambda _, fields: {"value": fields["gone"]})
@dataclass
class Faulty:
    value: Any


@dataclass
class Forgetful:
    name: str
    lock: Any = field(init=False, metadata={"stored": False})


class Loose(Flag, boundary=KEEP):
    READ = 1


class Drawing(ABC):
    """An abstract class without a subclass."""

    @abstractmethod
    def draw(self) -> None: ...


class Options(TypedDict):
    client: Client
