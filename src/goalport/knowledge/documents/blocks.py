"""The blocks of a Markdown text, in their order: headings, fenced code, tables, and all that is read as prose.

markdown-it-py finds them. It is not asked for what is inside of paragraphs, for which it takes minutes where a text is
made to do harm, nor for block quotes, which it reads once for each that they are in.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, auto
from itertools import accumulate
from typing import Final

from markdown_it import MarkdownIt
from markdown_it.token import Token

_DEEPEST: Final = 60
"""Levels of lists, of which each counts twice. What is nested more deeply is prose, with all that follows."""
_PARSER: Final = (
    MarkdownIt("commonmark", {"maxNesting": _DEEPEST}).enable("table").disable(["blockquote", "inline", "text_join"])
)


class BlockKind(Enum):
    """What a block is, as far as a reader and a chunker treat it differently."""

    HEADING = auto()
    FENCE = auto()
    TABLE = auto()
    PROSE = auto()


_KINDS: Final = {
    "heading_open": BlockKind.HEADING,
    "fence": BlockKind.FENCE,
    "table_open": BlockKind.TABLE,
    **dict.fromkeys(("paragraph_open", "code_block", "html_block", "hr"), BlockKind.PROSE),
}


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a text that belong together, without the empty lines after them."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    """Of a heading, from 1 to 6."""


class _Blocks(list[Token]):
    """Keeps no token but the one that begins a block: a table has several for each cell."""

    def append(self, token: Token) -> None:
        if token.type in _KINDS:
            super().append(token)


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text. Between two of them there is nothing but white space."""
    tokens = _Blocks()
    # The parser takes a carriage return for the end of a line, and does not say where in the text a line begins.
    _PARSER.block.parse(text.replace("\r", " "), _PARSER, {}, tokens)
    lines = [*accumulate((len(line) + 1 for line in text.split("\n")), initial=0)]
    done = 0
    for token in tokens:
        start, end = (lines[number] for number in token.map or (0, 0))
        yield from _block(text, done, start)
        yield from _block(text, start, end, token)
        done = end
    yield from _block(text, done, len(text))


def _block(text: str, start: int, end: int, token: Token | None = None) -> Iterator[Block]:
    """The block in these lines, if there is anything in them; where nothing is known to begin, it is prose."""
    words = text[start:end].strip()
    if not words:
        return
    kind = _KINDS[token.type] if token is not None else BlockKind.PROSE
    level = 0
    if token is not None and kind is BlockKind.HEADING:
        is_section = not token.level and not words.startswith(">")
        kind, level = (kind, int(token.tag[1:])) if is_section else (BlockKind.PROSE, 0)
    yield Block(kind, start, start + len(text[start:end].rstrip()), level)
