"""What a document is made of: a root, its sections, and the chunks that are searched. User guide, section 3.12.4.

All of it is immutable. An id is made of where an element stands, so that the same document has the same ids when it is
read again, and a citation still leads to its place. A document is made of its text and the headings that a reader of
its format has found in it; plain text has none.
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
    """Of the file."""
    max_characters: int = 20_000_000
    """Of the text in it."""
    max_lines: int = 500_000
    """Of the text, and elements of a web page: each costs time and memory, however little is in it."""
    conversion_seconds: float = 60
    """For making Markdown of a file that is neither text nor a web page."""
    conversion_memory: int = 1_000_000_000
    """In bytes, of the child process that does so. It starts with about half of that reserved and a tenth in use."""


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

    def leaves(self) -> "Iterator[LeafSection]":
        """The sections with a text in this one, or itself, in order."""
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


_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
_LINE_ENDS: Final = re.compile("\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0e-\x1a\x1c-\x1f]")
_LOOKED_AT: Final = 100_000
_NOT_FOR_TEXTS: Final = frozenset(
    {"idna", "mbcs", "oem", "punycode", "raw-unicode-escape", "undefined", "unicode-escape"}
)
"""Codecs of Python that texts are not written in."""
_MEANT: Final = {
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
"""Encodings that texts are said to be in, and the larger ones in which browsers read them: encoding.spec.whatwg.org."""


def decoded(data: bytes, charset: str | None = None) -> str:
    """The text in these bytes. A byte order mark says the encoding, else `charset`; otherwise it is found out.

    Raises ValueError where they are no text.
    """
    said = ""
    with suppress(LookupError, ValueError):
        name = codecs.lookup(charset).name if charset and charset.isascii() else ""
        # Codecs that compress, for example, refuse texts; of an empty one they say nothing.
        " ".encode(name or "ascii")
        said = "" if name in _NOT_FOR_TEXTS else _MEANT.get(name, name)
    beginning = data[: _LOOKED_AT & ~1]
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
            # The last character of a text that was cut off, or a single slip, does not make it another encoding.
            if each == "utf-8" and problem.start > 0:
                text = data.decode(each, "replace")
                if text.count("\N{REPLACEMENT CHARACTER}") * 20 < sum(not letter.isascii() for letter in text):
                    return text
    return data.decode("latin-1")


def normalized(text: str) -> str:
    """The text with line feeds as its line ends, and without the characters that show nothing.

    Those hide words from people and not from models, and tear words apart for a search.
    """
    return visible(_LINE_ENDS.sub("\n", text))


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
    """Where sections are put: what holds them. A title that comes again below it is told apart by its number."""

    id: str
    path: tuple[str, ...]
    places: tuple[int | str, ...] = ()


def _sections(uri: str, text: str, headings: Sequence[Heading], root: _Place, start: int) -> tuple[Section, ...]:
    """The sections of a document, made from its headings one after the other."""
    after = 0
    """The number of the next heading."""

    def leaf(own: _Place, parent: _Place, start: int, until: int | None = None) -> LeafSection:
        """The text from a place to the next heading. In a container it has the title, and an id of its own."""
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
    """Text that is being written, and its headings. Words are joined by single spaces."""

    def __init__(self) -> None:
        self.headings: list[Heading] = []
        self._parts: list[str] = []
        self._length = 0
        self._breaks = 0
        self._space = False
        self._marker = ""
        self._lists: list[int | None] = []
        """The number of the last item of each list around; None where items have no numbers."""

    @property
    def text(self) -> str:
        return "".join(self._parts)

    def words(self, written: str) -> None:
        """Words of the paragraph; white space at their ends says whether they touch what is beside them."""
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
        """What follows is another paragraph."""
        self.line_break(1 if self._marker else 2)

    def line_break(self, lines: int = 1) -> None:
        """What follows is in another line."""
        self._breaks = max(self._breaks, lines)
        self._space = False

    def heading(self, level: int, title: str) -> None:
        if title := one_line(title, _LONGEST_TITLE):
            start = self._block(f"{'#' * level} {title}")
            self.headings.append(Heading(level, title, start, self._length))

    def code(self, written: str, language: str = "") -> None:
        """Lines that stay as they are, between fences that are longer than any in them."""
        lines = written.strip("\n").rstrip()
        if lines.strip():
            fence = "`" * max(3, 3, *(len(each) + 1 for each in _FENCE.findall(lines)))
            self._block(f"{fence}{language}\n{lines}\n{fence}")

    def table(self, rows: Sequence[Sequence[str]]) -> None:
        """Rows of cells, of which the first is the header."""
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
        """Write lines that nothing stands before, not even the mark of a list's item; the place where they begin."""
        self._put("\n\n" if self._length else "")
        start, self._marker = self._length, ""
        self._put(written)
        self._breaks, self._space = 2, False
        return start

    def _put(self, written: str) -> None:
        # Formats have ways of their own to write invisible characters, as `&shy;` is one of HTML.
        written = normalized(written)
        self._parts.append(written)
        self._length += len(written)


_SEPARATORS: Final = ",;\t|"


def read_plain_text(
    text: str, uri: str, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
) -> NavigableDocument:
    """The document that a text without headings is: one leaf. Its title is `title`, else the name in the URI."""
    return document_of(uri, title or title_from(uri), normalized(text), metadata=metadata)


def read_values(
    text: str, uri: str, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
) -> NavigableDocument:
    """The document that rows of separated values are (CSV, TSV): a table whose header is the first row.

    What cannot be read as rows is plain text.
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
