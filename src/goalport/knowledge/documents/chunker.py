"""The chunks of a document: its leaf sections, split if they are too long to be searched and shown. Guide, 3.12.7.

A chunk is never part of two leaves. Its id is a hash of its leaf and text, so that it stays while these do not change.
A text is cut between its blocks, else between sentences, lines or words. A table is cut between rows, and each piece
repeats its header; code is cut between lines, and each piece is fenced. Blocks that fit into a piece are never cut.
"""

import re
import unicodedata
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final, Protocol

from anyio import to_thread

from goalport.base.words import excerpt
from goalport.knowledge.documents.content import Chunk, LeafSection, NavigableDocument, element_id
from goalport.knowledge.documents.markdown import Block, BlockKind, blocks

# A sentence in Chinese or Japanese ends without a space.
_SENTENCE_END: Final = re.compile(r"(?<=[.!?…])\s++|(?<=[.!?…][\"'”’)\]])\s++|(?<=[\u3002\uff01\uff1f])")
_LINE_END: Final = re.compile(r"\n")
_WORD_END: Final = re.compile(r"\s++")
_PADDING: Final = re.compile(r"(?<= ) +|(?<=---)-+")
_MARKS: Final = re.compile(r"`{3,}|~{3,}")
_EMPTY_LINES: Final = re.compile(r"\s*\n")
_LONGEST_CLUSTER: Final = 64
"""The most characters that are kept together, such as the parts of an emoji. Longer sequences are attacks."""
_FLAG_HALVES: Final = frozenset(map(chr, range(0x1F1E6, 0x1F200)))
_ZERO_WIDTH_JOINER: Final = "\u200d"


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a text, and what makes it readable alone: the header of its table, the fence of its code."""

    start: int
    end: int
    before: str = ""
    after: str = ""


def pieces(text: str, room: int, overlap: int) -> Iterator[Piece]:
    """The pieces of a text, each of at most `room` characters, with repeated headers and fences.

    A piece begins with up to `overlap` characters of the prose before it. White space around pieces is left out.
    """
    found = _Cuts(text, room, overlap).pieces() if len(text) > room else (Piece(0, len(text)),)
    for each in found:
        empty = _EMPTY_LINES.match(text, each.start, each.end)
        start = empty.end() if empty is not None else each.start
        end = each.start + len(text[each.start : each.end].rstrip())
        if start < end:
            yield Piece(start, end, each.before, each.after)


class _Cuts:
    def __init__(self, text: str, room: int, overlap: int) -> None:
        self._text = text
        self._room = room
        self._overlap = overlap
        self._blocks = list(blocks(text))
        self._starts = [each.start for each in self._blocks]
        self._ends = [each.end for each in self._blocks]

    def pieces(self) -> Iterator[Piece]:
        begin = done = 0
        while done < len(self._text):
            begin = self._overlapping(begin, done)
            before = self._before(begin)
            end = self._end(begin + self._room - len(before), begin, done)
            block = self._at(end - 1)
            is_in_code = block.kind is BlockKind.FENCE and block.start < end < block.end
            yield Piece(begin, end, before, f"\n{self._marks(block)}" if is_in_code else "")
            done = end

    def _at(self, place: int) -> Block:
        return self._blocks[max(0, bisect_right(self._starts, place) - 1)]

    def _before(self, place: int) -> str:
        """What is repeated before a piece that begins inside a table or in code."""
        block = self._at(place)
        if place <= block.start or place >= block.end:
            return ""
        if block.kind is BlockKind.FENCE:
            line = self._text[block.start : block.end].partition("\n")[0].strip()
            return f"{line if len(line) <= self._room // 3 else self._marks(block)}\n"
        if block.kind is not BlockKind.TABLE:
            return ""
        # The header of a table with the line below it, or as many column names as fit into two thirds of a piece.
        header, most = self._text[block.start : self._header_end(block)], self._room * 2 // 3
        header = header if len(header) <= most else _PADDING.sub("", header)
        names = header.partition("\n")[0]
        return header if len(header) <= most else f"{excerpt(names, most - 2)}\n"

    def _header_end(self, block: Block) -> int:
        rule = self._text.find("\n", block.start, block.end) + 1
        end = self._text.find("\n", rule, block.end)
        return end + 1 if end >= 0 else block.end

    def _marks(self, block: Block) -> str:
        """The backticks or tildes that fence this code."""
        found = _MARKS.search(self._text, block.start, block.end)
        return found[0][: self._room // 4] if found is not None else "```"

    def _overlapping(self, previous: int, done: int) -> int:
        """Where the next piece begins, if the text up to `done` is used: in prose at a sentence or word before that."""
        if not done or not self._overlap:
            return done
        number = bisect_right(self._starts, done - 1) - 1
        earliest = max(done - self._overlap, previous + 1)
        following = self._at(done)
        if following.start == done and following.end - done <= self._room:
            earliest = max(earliest, following.end - self._room)
        lowest = done
        while number >= 0 and self._blocks[number].kind is BlockKind.PROSE and lowest > earliest:
            lowest = self._starts[number]
            number -= 1
        low = max(earliest, lowest)
        if low >= done:
            return done
        if low == lowest:
            return low
        first = self._starts[bisect_right(self._starts, low - 1)] if low <= self._starts[-1] else done
        cuts = chain((first,), self._cuts(_SENTENCE_END, low, done), self._cuts(_WORD_END, low, done))
        return next((each for each in cuts if low <= each < done), done)

    def _cuts(self, border: re.Pattern[str], low: int, high: int) -> Iterator[int]:
        for found in border.finditer(self._text, low, high):
            if not _belongs_together(self._text, found.end()):
                yield found.end()

    def _end(self, limit: int, begin: int, done: int) -> int:
        """Where a piece ends: up to `limit` if possible, and always after `done`."""
        if self._ends[-1] <= limit:
            return len(self._text)
        block = self._blocks[bisect_right(self._ends, limit)]
        if block.kind is BlockKind.FENCE:
            limit -= len(self._marks(block)) + 1
        border = block.start if block.start > done else None
        is_large = block.end - block.start > self._room
        if border is not None and (not is_large or border - begin >= self._room // 2):
            return border
        low = max(done, block.start, self._header_end(block) if block.kind is BlockKind.TABLE else 0)
        for kind in (_SENTENCE_END, _LINE_END) if block.kind is BlockKind.PROSE else (_LINE_END,):
            if (last := self._last(kind, low, limit)) is not None:
                return last
        if border is not None:
            return border
        # Between words, or where a word has to be cut.
        limit = max(limit, done + 1)
        if (word := self._last(_WORD_END, done, limit)) is not None:
            return word
        candidates = range(limit, max(done, limit - _LONGEST_CLUSTER), -1)
        return next((each for each in candidates if not _belongs_together(self._text, each)), limit)

    def _last(self, border: re.Pattern[str], low: int, limit: int) -> int | None:
        return max((each for each in self._cuts(border, low, limit) if each > low), default=None)


def _belongs_together(text: str, place: int) -> bool:
    """Whether the characters around a place are one to a reader: a letter and its accent, the parts of an emoji."""
    if not 0 < place < len(text):
        return False
    left, right = text[place - 1], text[place]
    if left in "\r\n":
        return left == "\r" and right == "\n"
    if right.isascii():
        return False
    if right in {_ZERO_WIDTH_JOINER, "\u200c"} or left == _ZERO_WIDTH_JOINER or unicodedata.category(right)[0] == "M":
        return True
    if "\U0001f3fb" <= right <= "\U0001f3ff" or "\U000e0020" <= right <= "\U000e007f" or "\u1160" <= right <= "\u11ff":
        return True
    # A flag is two letters, so the second of them belongs to the first.
    start = place
    while start > max(0, place - _LONGEST_CLUSTER) and text[start - 1] in _FLAG_HALVES:
        start -= 1
    return right in _FLAG_HALVES and (place - start) % 2 == 1


_LEAST_SIZE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkerConfig:
    """How long chunks are, in characters."""

    max_chunk_size: int = 1500
    """Characters of a chunk's text, including its section's title and repeated headers of tables or fences of code."""
    overlap_size: int = 200
    """The most characters of prose before it that a chunk repeats, up to half of its size. Tables and code: none."""
    include_section_title: bool = True
    """Whether a chunk's text begins with the title of its section."""

    def __post_init__(self) -> None:
        if self.max_chunk_size < _LEAST_SIZE:
            raise ValueError(f"max_chunk_size should be at least {_LEAST_SIZE}; came {self.max_chunk_size}")
        if self.overlap_size < 0:
            raise ValueError(f"overlap_size should be at least 0; came {self.overlap_size}")


class ChunkTransformer(Protocol):
    """Changes the text or metadata of chunks, for example to begin each with a sentence about its document."""

    async def transform(self, chunk: Chunk, leaf: LeafSection) -> Chunk:
        """Return the chunk with another `text` or `metadata`. Changes of other fields are ignored."""
        ...


class Chunker:
    """Splits documents into chunks, and passes each chunk through all transformers in order."""

    def __init__(self, config: ChunkerConfig | None = None, transformers: Iterable[ChunkTransformer] = ()) -> None:
        self.config = config or ChunkerConfig()
        self._transformers = tuple(transformers)

    async def chunk(self, document: NavigableDocument) -> tuple[Chunk, ...]:
        """The chunks of a document, in its order. Splitting runs in a thread."""
        chunks = await to_thread.run_sync(self.split, document)
        if not self._transformers:
            return chunks
        leaves = {leaf.id: leaf for leaf in document.leaves()}
        found: list[Chunk] = []
        for chunk in chunks:
            for transformer in self._transformers:
                changed = await transformer.transform(chunk, leaves[chunk.parent_id])
                chunk = replace(chunk, text=changed.text, metadata=changed.metadata)  # noqa: PLW2901 - one after another
            found.append(chunk)
        return tuple(found)

    def split(self, document: NavigableDocument) -> tuple[Chunk, ...]:
        """The chunks of a document, before any transformer changes them."""
        found: list[Chunk] = []
        size = self.config.max_chunk_size
        overlap = min(self.config.overlap_size, size // 2)
        for leaf in document.leaves():
            title = f"{excerpt(leaf.title, size // 4 - 3)}\n\n"
            prefix = title if self.config.include_section_title else ""
            metadata = {**document.metadata, **leaf.metadata}
            same = Counter[str]()
            for piece in pieces(leaf.text, size - len(prefix), overlap):
                urtext = leaf.text[piece.start : piece.end]
                same[urtext] += 1
                found.append(
                    Chunk(
                        id=element_id(document.uri, leaf.id, urtext, same[urtext]),
                        metadata=metadata,
                        text=f"{prefix}{piece.before}{urtext}{piece.after}",
                        urtext=urtext,
                        parent_id=leaf.id,
                        root_id=document.id,
                        uri=document.uri,
                        path=leaf.path,
                        number=len(found),
                        start=leaf.start + piece.start,
                        end=leaf.start + piece.end,
                    )
                )
        return tuple(found)
