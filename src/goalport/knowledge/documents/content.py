"""What a document consists of: a root, sections, and the chunks that are searched. User guide, section 3.12.4.

All of it is immutable. An id is a hash of an element's position, so that a document that is read again has the same
ids, and citations remain valid. A document is built from its text and the headings that the reader of its format has
found; plain text has none.
"""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import islice
from typing import Final
from urllib.parse import unquote, urlsplit

from pydantic import JsonValue

from goalport.base.words import one_line, visible


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingLimits:
    """The largest document that is read. What is larger is refused as a whole, never cut."""

    max_bytes: int = 50_000_000
    """Bytes of the file."""
    max_characters: int = 20_000_000
    """Characters of its text."""
    max_lines: int = 500_000
    """Lines of its text, or elements of a web page: each costs time and memory, even if it is empty."""
    conversion_seconds: float = 60
    """Seconds for converting a file that is neither text nor a web page to Markdown."""
    conversion_memory: int = 1_000_000_000
    """Bytes of memory of the child process that converts. At start it reserves about half of that, and uses a tenth."""


_ID_LENGTH: Final = 16


def element_id(uri: str, *places: int | str) -> str:
    """The id of an element of a document: a hash of the document's URI and the places that lead to the element."""
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
    """The titles from that of the document to that of this section."""

    def leaves(self) -> "Iterator[LeafSection]":
        """The sections with a text inside this one, or itself, in order."""
        if isinstance(self, LeafSection):
            yield self
        elif isinstance(self, ContainerSection):
            for each in self.children:
                yield from each.leaves()


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafSection(Section):
    """A section that has a text and no sections."""

    text: str
    start: int = 0
    """Where its text begins in the document's text, in characters."""

    @property
    def end(self) -> int:
        """Where its text ends in the document's text, in characters."""
        return self.start + len(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerSection(Section):
    """A section with subsections. Text before the first of them is a leaf section with the same title."""

    children: tuple[Section, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ContentRoot(ContentElement):
    """A document without its sections: its title, and the URI of its source."""

    uri: str
    title: str


@dataclass(frozen=True, slots=True, kw_only=True)
class NavigableDocument(ContentRoot):
    """A document with all its sections."""

    text: str = field(default="", repr=False)
    """The whole text, to which all positions refer: that of the leaves, and what is between them."""
    children: tuple[Section, ...] = ()

    def sections(self) -> Iterator[Section]:
        """Its sections of all levels, in the order of the document; a section comes before its subsections."""
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
    """What is searched and shown: the piece, after the title of its section if that is configured."""
    urtext: str
    """The piece exactly as in the document."""
    parent_id: str
    """The id of its leaf section."""
    root_id: str
    uri: str
    path: tuple[str, ...]
    """The titles from that of the document to that of its section."""
    number: int
    """Its place among the chunks of the document, from 0."""
    start: int
    """Where `urtext` begins in the document's text, in characters."""
    end: int
    """Where `urtext` ends in the document's text, in characters."""


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LINE_ENDS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_SNIFFED_BYTES: Final = 100_000
_NOT_FOR_TEXTS: Final = frozenset(
    {"idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
)
"""Codecs of Python that are no encodings of documents."""
_SUPERSETS: Final = {
    "ascii": "cp1252",
    "big5": "big5hkscs",
    "euc_kr": "cp949",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "iso8859-1": "cp1252",
    "iso8859-9": "cp1254",
    "iso8859-11": "cp874",
    "shift_jis": "cp932",
    "tis-620": "cp874",
}
"""Declared encodings, and the supersets of them that browsers use instead: encoding.spec.whatwg.org."""


def decoded(data: bytes, charset: str | None = None) -> str:
    """The text in these bytes. The encoding is that of a byte order mark, else `charset`, else it is guessed.

    Raises ValueError if they are binary data.
    """
    said = ""
    with suppress(LookupError, ValueError):
        name = codecs.lookup(charset).name if charset and charset.isascii() else ""
        # Codecs that are no encodings, such as those that compress, raise an error unless the text is empty.
        " ".encode(name or "ascii")
        said = "" if name in _NOT_FOR_TEXTS else _SUPERSETS.get(name, name)
    beginning = data[: _SNIFFED_BYTES & ~1]
    wide = next((encoding for mark, encoding in _MARKS if data.startswith(mark)), "")
    if not wide and said.startswith(("utf-16", "utf-32")):
        wide = said
    elif not wide:
        # UTF-16 without a mark: nearly all bytes of one half are zeros.
        half, even, odd = len(beginning) // 2, beginning[::2].count(0), beginning[1::2].count(0)
        if odd > 0.9 * half and even < 0.1 * half:
            wide = "utf-16-le"
        elif even > 0.9 * half and odd < 0.1 * half:
            wide = "utf-16-be"
    if wide:
        return data.decode(wide, "replace")
    if len(_CONTROL.findall(beginning)) > max(2, len(beginning) // 50):
        raise ValueError("it is binary data and no text")
    for each in dict.fromkeys((said or "utf-8", "utf-8", "cp1252")):
        try:
            return data.decode(each)
        except UnicodeDecodeError as problem:
            # A last character that was cut off, or a single wrong byte, does not mean another encoding.
            if each == "utf-8" and problem.start > 0:
                text = data.decode(each, "replace")
                if text.count("\N{REPLACEMENT CHARACTER}") * 20 < sum(not letter.isascii() for letter in text):
                    return text
    return data.decode("latin-1")


def normalized(text: str) -> str:
    """The text with line feeds as line ends, and without invisible characters.

    Invisible characters hide text from people but not from models, and split words for a search.
    """
    return visible(_LINE_ENDS.sub("\n", text))


MOST_HEADINGS: Final = 20_000
"""Further headings are treated as text, because a section takes far more memory than a line."""


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading in a text, which begins a section."""

    level: int
    title: str
    start: int
    end: int
    """Where the heading ends in the text, in characters."""


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

    If the first heading has the document's title, and all others are deeper, it begins no section.
    """
    known = list(islice(headings, MOST_HEADINGS))
    if known and known[0].title == title and all(each.level > known[0].level for each in known[1:]):
        heading = known.pop(0)
        # Text before the heading, such as that of pictures, is joined with the text after it.
        start = start if text[start : heading.start].strip() else heading.end
    root_id = element_id(uri)
    return NavigableDocument(
        id=root_id,
        uri=uri,
        title=title,
        text=text,
        children=_sections(uri, text, known, _Place(root_id, (title,)), start),
        metadata=dict(metadata or {}),
    )


@dataclass(frozen=True, slots=True)
class _Place:
    """The parent of sections: a section, or the document. `places` are titles, with numbers if a title is repeated."""

    id: str
    path: tuple[str, ...]
    places: tuple[int | str, ...] = ()


def _sections(uri: str, text: str, headings: Sequence[Heading], root: _Place, start: int) -> tuple[Section, ...]:
    """The sections of a document, built from its headings in one pass."""
    after = 0
    """The number of the next heading."""

    def leaf(own: _Place, parent: _Place, start: int, until: int | None = None) -> LeafSection:
        """A leaf with the text up to the next heading. As text of its parent it has the same title and another id."""
        if until is None:
            until = headings[after].start if after < len(headings) else len(text)
        written = text[start:until]
        start += len(written) - len(written.lstrip())
        id_ = element_id(uri, *own.places, "") if own is parent else own.id
        title = own.path[-1]
        return LeafSection(id=id_, title=title, parent_id=parent.id, path=own.path, text=written.strip(), start=start)

    def below(place: _Place, level: int) -> tuple[Section, ...]:
        """The sections whose headings come next and are deeper than a level."""
        nonlocal after
        titles, found = Counter[str](), list[Section]()
        while after < len(headings) and headings[after].level > level:
            heading = headings[after]
            after += 1
            title = heading.title or place.path[-1]
            titles[title] += 1
            places = (*place.places, title, titles[title])
            own = _Place(element_id(uri, *places), (*place.path, title), places)
            before = leaf(own, place, heading.end)
            if children := below(own, heading.level):
                if before.text:
                    children = (leaf(own, own, heading.end, until=before.end), *children)
                found.append(
                    ContainerSection(id=own.id, title=title, parent_id=place.id, path=own.path, children=children)
                )
            else:
                found.append(before)
        return tuple(found)

    before = leaf(root, root, start)
    return (before, *below(root, 0)) if before.text else below(root, 0)


def title_from(uri: str) -> str:
    """The name of the file in a URI, without its suffix; of a site, its host."""
    parts = urlsplit(uri)
    name = unquote(parts.path).rstrip("/").rpartition("/")[2]
    return one_line(name.rpartition(".")[0] or name or parts.netloc or uri)


_FENCE: Final = re.compile("`{3,}")
_MOST_INDENT: Final = 10
_LONGEST_TITLE: Final = 200


class Outline:
    """Builds a text in Markdown, and collects its headings. Words are joined by single spaces."""

    def __init__(self) -> None:
        self.headings: list[Heading] = []
        self._parts: list[str] = []
        self._length = 0
        self._breaks = 0
        self._space = False
        self._marker = ""
        self._lists: list[int | None] = []
        """For each open list, the number of its last item; None: a list without numbers."""

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def words(self, written: str) -> None:
        """Add words to the paragraph. Only white space at their ends separates them from words before and after."""
        words = " ".join(written.split())
        if not words:
            self._space = self._space or bool(written)
            return
        if self._breaks or not self._length:
            depth = min(len(self._lists), _MOST_INDENT)
            indent = "  " * (depth - 1 if self._marker else depth)
            self._put("\n" * (self._breaks if self._length else 0) + indent + self._marker)
            self._breaks, self._marker = 0, ""
        elif self._space or written[0].isspace():
            self._put(" ")
        self._put(words)
        self._space = written[-1].isspace()

    def paragraph(self) -> None:
        """End the paragraph."""
        self.line_break(1 if self._marker else 2)

    def line_break(self, lines: int = 1) -> None:
        """End the line."""
        self._breaks = max(self._breaks, lines)
        self._space = False

    def heading(self, level: int, title: str) -> None:
        if title := one_line(title, _LONGEST_TITLE):
            start = self._block(f"{'#' * level} {title}")
            self.headings.append(Heading(level, title, start, self._length))

    def code(self, written: str, language: str = "") -> None:
        """Add code, unchanged, between fences that are longer than any fence in it."""
        lines = written.strip("\n").rstrip()
        if lines.strip():
            fence = "`" * max(3, 3, *(len(each) + 1 for each in _FENCE.findall(lines)))
            self._block(f"{fence}{language}\n{lines}\n{fence}")

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Add a table. The first row is the header."""
        header, *others = ([" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows)
        self._block("\n".join(f"| {' | '.join(cells)} |" for cells in (header, ["---"] * len(header), *others)))

    def list_begins(self, *, numbered: bool) -> None:
        self.line_break(1 if self._lists else 2)
        self._lists.append(0 if numbered else None)

    def list_item(self) -> None:
        self.line_break(1)
        number = self._lists[-1] if self._lists else None
        if number is None:
            self._marker = "- "
        else:
            self._lists[-1] = number + 1
            self._marker = f"{number + 1}. "

    def list_ends(self) -> None:
        if self._lists:
            self._lists.pop()
        self._marker = ""
        self.line_break(1 if self._lists else 2)

    def _block(self, written: str) -> int:
        """Add a block, without the marker of a list item before it. Returns where it begins, in characters."""
        self._put("\n\n" if self._length else "")
        start, self._marker = self._length, ""
        self._put(written)
        self._breaks, self._space = 2, False
        return start

    def _put(self, written: str) -> None:
        # Formats can encode invisible characters, such as `&shy;` in HTML.
        written = normalized(written)
        self._parts.append(written)
        self._length += len(written)


_SEPARATORS: Final = ",;\t|"


def read_plain_text(
    text: str, uri: str, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
) -> NavigableDocument:
    """The document of a text without headings: one leaf section. Its title is `title`, else the name in the URI."""
    return document_of(uri, title or title_from(uri), normalized(text), metadata=metadata)


def read_values(
    text: str, uri: str, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
) -> NavigableDocument:
    """The document of rows of separated values (CSV, TSV): a table whose header is the first row.

    A text that cannot be read as rows becomes plain text.
    """
    shown = normalized(text)
    first = shown.lstrip().partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    try:
        rows = [row for row in csv.reader(shown.splitlines(keepends=True), delimiter=separator) if any(row)]
    except csv.Error:
        rows = []
    if max(map(len, rows), default=0) <= 1:
        return read_plain_text(text, uri, title=title, metadata=metadata)
    outline = Outline()
    outline.table(rows)
    return document_of(uri, title or title_from(uri), outline.text, metadata=metadata)
