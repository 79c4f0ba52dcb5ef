"""A document out of its text and the headings in it: which section holds which, and where the text of each stands.

Readers find the text and the headings; the rest is the same for all of them.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import islice
from typing import Final
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from goalport.base.words import one_line
from goalport.knowledge.documents.content import ContainerSection, LeafSection, NavigableDocument, Section, element_id

MOST_HEADINGS: Final = 20_000
"""Those that follow are text, because a section takes far more memory than the line that begins it."""


@dataclass(frozen=True, slots=True)
class Heading:
    """Where a section begins, and how far up it stands."""

    level: int
    title: str
    start: int
    end: int
    """The number of characters of the text up to the end of the heading."""


def document_of(
    uri: str,
    title: str,
    text: str,
    headings: Iterable[Heading] = (),
    *,
    start: int = 0,
    metadata: Mapping[str, JsonValue] | None = None,
) -> NavigableDocument:
    """The document with this text. `start` is where its first section may begin, for example after front matter.

    A heading above all others that has the document's title is that title, and no section.
    """
    known = list(islice(headings, MOST_HEADINGS))
    if known and known[0].title == title and all(each.level > known[0].level for each in known[1:]):
        heading = known.pop(0)
        # What stands before it, as pictures do, belongs to one text with what follows.
        start = start if text[start : heading.start].strip() else heading.end
    root_id = element_id(uri)
    children = _Sections(uri, text, known).all(title, root_id, start)
    return NavigableDocument(
        id=root_id, uri=uri, title=title, text=text, children=children, metadata=dict(metadata or {})
    )


def title_from(uri: str) -> str:
    """The name of the file in a URI, without its suffix; of a site, its host."""
    parts = urlsplit(uri)
    name = unquote(parts.path).rstrip("/").rpartition("/")[2]
    return one_line(name.rpartition(".")[0] or name or parts.netloc or uri)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where sections are put: what holds them. A title that comes again below it is told apart by its number."""

    id: str
    path: tuple[str, ...]
    places: tuple[int | str, ...] = ()


class _Sections:
    """The sections of a document, made from its headings one after the other."""

    def __init__(self, uri: str, text: str, headings: list[Heading]) -> None:
        self._uri = uri
        self._text = text
        self._headings = headings
        self._next = 0

    def all(self, title: str, root_id: str, start: int) -> tuple[Section, ...]:
        root = _Place(root_id, (title,))
        before = self._leaf(root, root, start)
        sections = self._below(root, level=0)
        return (before, *sections) if before.text else sections

    def _below(self, place: _Place, level: int) -> tuple[Section, ...]:
        """The sections whose headings come next and are deeper than a level."""
        titles = Counter[str]()
        found: list[Section] = []
        while self._next < len(self._headings) and self._headings[self._next].level > level:
            heading = self._headings[self._next]
            self._next += 1
            title = heading.title or place.path[-1]
            titles[title] += 1
            places = (*place.places, title, titles[title])
            own = _Place(element_id(self._uri, *places), (*place.path, title), places)
            found.append(self._section(own, place, heading))
        return tuple(found)

    def _section(self, own: _Place, parent: _Place, heading: Heading) -> Section:
        text = self._leaf(own, parent, heading.end)
        children = self._below(own, heading.level)
        if not children:
            return text
        if text.text:
            children = (self._leaf(own, own, heading.end, until=text.end), *children)
        return ContainerSection(id=own.id, title=own.path[-1], parent_id=parent.id, path=own.path, children=children)

    def _leaf(self, own: _Place, parent: _Place, start: int, until: int | None = None) -> LeafSection:
        """The text from a place to the next heading. In a container it has the title, and an id of its own."""
        if until is None:
            until = self._headings[self._next].start if self._next < len(self._headings) else len(self._text)
        written = self._text[start:until]
        text = written.strip()
        start += len(written) - len(written.lstrip())
        id_ = element_id(self._uri, *own.places, "") if own is parent else own.id
        return LeafSection(id=id_, title=own.path[-1], parent_id=parent.id, path=own.path, text=text, start=start)
