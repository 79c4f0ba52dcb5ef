"""What a document is made of: a root, its sections, and the chunks that are searched. User guide, section 3.12.4.

All of it is immutable. An id is made of where an element stands, so that the same document has the same ids when it is
read again, and a citation still leads to its place.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Final

from pydantic import JsonValue

_ID_LENGTH: Final = 16


def element_id(uri: str, *places: int | str) -> str:
    """The id of the element of a document that stands at these places, counted from the root."""
    written = "\0".join((uri, *(str(each) for each in places)))
    return sha256(written.encode("utf-8", "surrogatepass")).hexdigest()[:_ID_LENGTH]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentElement:
    """Anything that has an id: a document, a section or a chunk."""

    id: str
    metadata: Mapping[str, JsonValue] = field(default_factory=dict[str, JsonValue])
    """What is known of it beyond its text, for example its language; searches can be limited by it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Section(ContentElement):
    """A part of a document with a title."""

    title: str
    parent_id: str
    path: tuple[str, ...]
    """The titles from the document's to its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSection(Section):
    """A section that has a text and no sections."""

    text: str
    start: int = 0
    """The number of characters of the document's text before this one's."""

    @property
    def end(self) -> int:
        """The number of characters of the document's text up to its end."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSection(Section):
    """A section that holds sections. A text that stands before the first of them is a leaf with the same title."""

    children: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRoot(ContentElement):
    """Where a document begins: what it is called, and where it came from."""

    uri: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigableDocument(ContentRoot):
    """A document with all its sections."""

    text: str = field(default="", repr=False)
    """All of its text, which character ranges count in: that of the leaves, and what stands between them."""
    children: tuple[Section, ...] = ()

    def sections(self) -> Iterator[Section]:
        """Its sections of all levels, in the order of the document; a section comes before those that it holds."""
        waiting = list(reversed(self.children))
        while waiting:
            section = waiting.pop()
            yield section
            if isinstance(section, ContainerSection):
                waiting.extend(reversed(section.children))

    def leaves(self) -> Iterator[LeafSection]:
        """Its sections that have a text, in the order of the document."""
        return (section for section in self.sections() if isinstance(section, LeafSection))


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk(ContentElement):
    """A piece of a leaf's text, small enough to be searched and shown."""

    text: str
    """What is searched and shown: the piece, with the title of its section before it where that is configured."""
    urtext: str
    """The piece as it stands in the document."""
    parent_id: str
    """The id of its leaf section."""
    root_id: str
    uri: str
    path: tuple[str, ...]
    """The titles from the document's to its section's."""
    number: int
    """Its place among the chunks of the document, from 0."""
    start: int
    """The number of characters of the document's text before `urtext`."""
    end: int
    """The number of characters of the document's text up to the end of `urtext`."""
