"""Filters: which chunks a search may find, by what is known of them. A store applies them before it cuts its results.

A filter is data; each store makes of it what its database understands. The metadata of a chunk include those of its
document, and where both have a key, the chunk's value counts. A chunk without the key fits no comparison.

Of sections and documents there is only what chunks that fit are made of. A section with a text is left in if it has
chunks and all of them fit, since it is read as a whole; a section that holds others, if one of those is left in. A
document is there if one of its chunks fits, and has the sections that are left in.
"""

from dataclasses import dataclass
from typing import TypeAlias

Value: TypeAlias = str | int | float | bool
"""A value that metadata are compared with."""


@dataclass(frozen=True, slots=True)
class _OfKey:
    key: str

    def __post_init__(self) -> None:
        if not self.key or '"' in self.key or not self.key.isprintable():
            raise ValueError(f"Expected a key of metadata without quotation marks, but came {self.key!r}.")


@dataclass(frozen=True, slots=True)
class Equal(_OfKey):
    """The value of a key is this one."""

    value: Value


@dataclass(frozen=True, slots=True)
class OneOf(_OfKey):
    """The value of a key is one of these."""

    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class AtLeast(_OfKey):
    """The value of a key is this one or more. Texts are compared by their characters, as ISO dates can be."""

    value: str | int | float


@dataclass(frozen=True, slots=True)
class AtMost(_OfKey):
    """The value of a key is this one or less."""

    value: str | int | float


@dataclass(frozen=True, slots=True)
class Containing(_OfKey):
    """The value of a key is a text that has this one in it, or a list that has it as an item."""

    value: str


@dataclass(frozen=True, slots=True)
class UriPrefix:
    """The document's URI begins so: one document, a folder, or a site."""

    prefix: str


@dataclass(frozen=True, slots=True)
class AllOf:
    """All of these hold."""

    filters: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one of these holds."""

    filters: "tuple[Filter, ...]"


@dataclass(frozen=True, slots=True)
class Not:
    """This does not hold."""

    filter: "Filter"


Filter: TypeAlias = Equal | OneOf | AtLeast | AtMost | Containing | UriPrefix | AllOf | AnyOf | Not
