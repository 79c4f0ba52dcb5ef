"""The blocks of a Markdown text, in their order: headings, fenced code, tables, and all that is read as prose.

It knows as much of CommonMark as sections and chunks need, and takes time in proportion to the text: a parser of the
whole language takes twenty times as long, and minutes for some texts of a megabyte. The tests compare it with one.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from html import unescape
from typing import Final, NamedTuple

from goalport.words import one_line

__all__ = ["Block", "BlockKind", "blocks"]

_ATX: Final = re.compile(r" {0,3}(#{1,6})(?:[ \t]+(.*))?$", re.DOTALL)
_CLOSING_MARKS: Final = re.compile(r"(?:^|(?<=[ \t]))#+$")
_SETEXT: Final = re.compile(r" {0,3}(?:=+|-+)[ \t]*$")
_FENCE: Final = re.compile(r"[ \t]*(?:(?:[-*+]|\d{1,9}[.)])[ \t]+)?(`{3,}|~{3,})(.*)$", re.DOTALL)
_LIST_ITEM: Final = re.compile(r" {0,3}(?:[-*+]|\d{1,9}[.)])(?:[ \t]+|$)")
_BREAK: Final = re.compile(r" {0,3}([-*_])[ \t]*(?:\1[ \t]*){2,}$")
_TABLE_RULE: Final = re.compile(r"[ \t]*\|?[ \t]*:?-+:?[ \t]*(?:\|[ \t]*:?-+:?[ \t]*)*+\|?[ \t]*$")
_HTML_UNTIL: Final = (
    (re.compile(r" {0,3}<(?:script|pre|style|textarea)(?:[\s>]|$)", re.IGNORECASE), "</"),
    (re.compile(r" {0,3}<!--"), "-->"),
    (re.compile(r" {0,3}<\?"), "?>"),
    (re.compile(r" {0,3}<!\[CDATA\["), "]]>"),
    (re.compile(r" {0,3}<![A-Za-z]"), ">"),
)
"""How HTML begins that may have empty lines, and what ends it."""
_HTML_ELEMENTS: Final = (
    "address article aside base basefont blockquote body caption center col colgroup dd details dialog dir div dl dt "
    "fieldset figcaption figure footer form frame frameset h[1-6] head header hr html iframe legend li link main menu "
    "menuitem nav noframes ol optgroup option p param search section summary table tbody td tfoot th thead title tr "
    "track ul"
)
_HTML_BLOCK: Final = re.compile(rf" {{0,3}}</?(?:{'|'.join(_HTML_ELEMENTS.split())})(?:[\s/>]|$)", re.IGNORECASE)
_HTML_OPENINGS: Final = (*(opening for opening, _ in _HTML_UNTIL), _HTML_BLOCK)
_MOST_INDENT: Final = 3
"""A line that is indented by more spaces is code, and begins nothing else."""
_INLINE: Final = (
    (re.compile(r"!?\[([^\[\]]*)\](?:\((?:[^()]++|\([^()]*+\))*+\)|\[[^\[\]]*\])"), r"\1"),
    (re.compile(r"[ \t]*\{[#.:][^{}]*\}$"), ""),
    (re.compile(r"</?[A-Za-z][^<>]*>"), ""),
    (re.compile(r"(\*{1,3})(?=\S)([^*]+?)(?<=\S)\1"), r"\2"),
    (re.compile(r"(?<!\w)(_{1,3})(?=\S)([^_]+?)(?<=\S)\1(?!\w)"), r"\2"),
    (re.compile(r"~~([^~]+)~~"), r"\1"),
    (re.compile(r"\\([!-/:-@\[-`{-~])"), r"\1"),
)
"""Markup in a heading, and what remains of it in a title."""
_CODE: Final = re.compile(r"(`+)(?!`)(.+?)(?<!`)\1(?!`)")
_SET_ASIDE: Final = re.compile("\0(\\d+)\0")
_LONGEST_TITLE: Final = 200


class BlockKind(Enum):
    """What a block is, as far as a reader and a chunker treat it differently."""

    HEADING = auto()
    FENCE = auto()
    TABLE = auto()
    PROSE = auto()


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a text that belong together, without the empty lines after them."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    """Of a heading, from 1 to 6."""
    title: str = ""
    """Of a heading, without markup."""


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text. Between two of them there is nothing but white space."""
    return _Scan(text).blocks()


class _Line(NamedTuple):
    start: int
    text: str
    """Without the line feed, nor a carriage return before it."""
    indent: int
    is_empty: bool

    @property
    def end(self) -> int:
        return self.start + len(self.text)


class _Scan:
    """One pass over the lines of a text, which are taken one by one or, of a fence or HTML, up to its end."""

    def __init__(self, text: str) -> None:
        self._lines = list(_lines(text))
        self._next = 0
        self._list_indent = 0
        """How far a line has to be indented to belong to the list before it; 0 where there is none."""
        self._unclosed = {"`": len(text), "~": len(text)}
        """The least number of marks of a fence that nothing closes, so that a closing line is looked for once."""

    def blocks(self) -> Iterator[Block]:
        while self._next < len(self._lines):
            line = self._lines[self._next]
            if line.is_empty:
                self._next += 1
            else:
                yield self._block(line)

    def _block(self, line: _Line) -> Block:
        if line.indent < self._list_indent and not _LIST_ITEM.match(line.text):
            self._list_indent = 0
        heading = _atx_heading(line) if self._is_outside_lists(line) else None
        if heading is not None:
            self._next += 1
            return heading
        if (last := self._end_of_fence()) is not None:
            return self._until(last, BlockKind.FENCE)
        if (last := self._end_of_table()) is not None:
            return self._until(last, BlockKind.TABLE)
        if (last := self._end_of_html(line)) is not None:
            return self._until(last, BlockKind.PROSE)
        return self._paragraph()

    def _until(self, last: int, kind: BlockKind) -> Block:
        first, self._next = self._next, last + 1
        return Block(kind, self._lines[first].start, self._lines[last].end)

    def _is_outside_lists(self, line: _Line) -> bool:
        return not self._list_indent or line.indent < self._list_indent

    def _end_of_fence(self) -> int | None:
        """The number of the line that closes the fence which begins here. One in a list may end with the list."""
        opening = _FENCE.match(self._lines[self._next].text)
        if opening is None or (opening[1][0] == "`" and "`" in opening[2]):
            return None
        marks = opening[1]
        if len(marks) < self._unclosed[marks[0]]:
            for number in range(self._next + 1, len(self._lines)):
                written = self._lines[number].text.strip()
                if written.startswith(marks) and not written.strip(marks[0]):
                    return number
            self._unclosed[marks[0]] = len(marks)
        # Deeply indented, it is rather an example of a fence, and must not swallow what follows.
        return len(self._lines) - 1 if self._lines[self._next].indent <= _MOST_INDENT else None

    def _is_table(self, number: int) -> bool:
        """Whether a table begins at a line, which the line of hyphens below it says."""
        if number + 1 >= len(self._lines) or "|" not in self._lines[number].text:
            return False
        rule = self._lines[number + 1].text
        return "|" in rule and _TABLE_RULE.match(rule) is not None

    def _end_of_table(self) -> int | None:
        if not self._is_table(self._next):
            return None
        number = self._next + 1
        while number + 1 < len(self._lines) and "|" in self._lines[number + 1].text:
            number += 1
        return number

    def _end_of_html(self, line: _Line) -> int | None:
        if line.text[line.indent : line.indent + 1] != "<" or line.indent > _MOST_INDENT:
            return None
        closing = next((closing for opening, closing in _HTML_UNTIL if opening.match(line.text)), None)
        if closing is None and not _HTML_BLOCK.match(line.text):
            return None
        for number in range(self._next, len(self._lines)):
            each = self._lines[number]
            if each.is_empty if closing is None else closing in each.text:
                return number if closing else number - 1
        return len(self._lines) - 1

    def _paragraph(self) -> Block:
        """Lines up to an empty one or to one that begins something else; a heading, if it is underlined."""
        first = self._next
        if _BREAK.match(self._lines[first].text):
            return self._until(first, BlockKind.PROSE)
        item = _LIST_ITEM.match(self._lines[first].text)
        if item is not None:
            self._list_indent = len(item[0].expandtabs(4)) if item.end() < len(self._lines[first].text) else 2
        is_code = item is None and _is_code(self._lines[first]) and not self._list_indent
        alone = item is None and self._is_plain(self._lines[first])
        quoted = self._lines[first].text.lstrip().startswith(">")
        number = first + 1
        while number < len(self._lines) and not self._lines[number].is_empty:
            line = self._lines[number]
            if alone and _SETEXT.match(line.text):
                self._next = number + 1
                return self._underlined(first, number)
            if self._interrupts(line, quoted=quoted) or self._is_table(number) or (is_code and not _is_code(line)):
                break
            number += 1
        return self._until(number - 1, BlockKind.PROSE)

    def _is_plain(self, line: _Line) -> bool:
        """Whether a line can be the first of a heading that is underlined."""
        return not _is_code(line) and self._is_outside_lists(line) and line.text[line.indent] != ">"

    def _interrupts(self, line: _Line, *, quoted: bool) -> bool:
        match line.text[line.indent]:
            case "#":
                return self._is_outside_lists(line) and _ATX.match(line.text) is not None
            case "<":
                return line.indent <= _MOST_INDENT and any(each.match(line.text) for each in _HTML_OPENINGS)
            case ">":
                return not quoted
            case "`" | "~":
                return _FENCE.match(line.text) is not None
            case _:
                return bool(_LIST_ITEM.match(line.text) or _BREAK.match(line.text))

    def _underlined(self, first: int, last: int) -> Block:
        words = " ".join(each.text.strip() for each in self._lines[first:last])
        level = 1 if "=" in self._lines[last].text else 2
        return Block(BlockKind.HEADING, self._lines[first].start, self._lines[last].end, level, _title(words))


def _is_code(line: _Line) -> bool:
    """Whether a line is indented as code is, where a paragraph may begin."""
    return line.indent > _MOST_INDENT or "\t" in line.text[: line.indent]


def _lines(text: str) -> Iterator[_Line]:
    start = 0
    for written in text.split("\n"):
        line = written.removesuffix("\r")
        indent = len(line) - len(line.lstrip())
        yield _Line(start, line, indent, indent == len(line))
        start += len(written) + 1


def _atx_heading(line: _Line) -> Block | None:
    found = _ATX.match(line.text) if line.text[line.indent] == "#" else None
    if found is None:
        return None
    words = _CLOSING_MARKS.sub("", (found[2] or "").rstrip())
    return Block(BlockKind.HEADING, line.start, line.end, len(found[1]), _title(words))


def _title(words: str) -> str:
    """The words of a heading as they are shown: what is in code stays as it is, other markup goes."""
    codes: list[str] = []

    def set_aside(code: re.Match[str]) -> str:
        codes.append(code[2])
        return f"\0{len(codes) - 1}\0"

    words = _CODE.sub(set_aside, words[: 4 * _LONGEST_TITLE].replace("\0", ""))
    for markup, kept in _INLINE:
        words = markup.sub(kept, words)
    shown = _SET_ASIDE.sub(lambda place: codes[int(place[1])], unescape(words))
    return one_line(shown, _LONGEST_TITLE)
