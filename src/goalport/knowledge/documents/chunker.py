"""The chunks of a document: its leaves, cut where they are too long to be searched and shown. User guide, 3.12.7.

A chunk is never of two leaves. Its id is made of its leaf and what it says, so that it stays while those stay.
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final, Protocol

from anyio import to_thread

from goalport.base.words import excerpt
from goalport.knowledge.documents.content import Chunk, LeafSection, NavigableDocument, element_id
from goalport.knowledge.documents.split import pieces

_LEAST_SIZE: Final = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkerConfig:
    """How long chunks are, in characters."""

    max_chunk_size: int = 1500
    """Of a chunk's text, with its section's title and what is repeated of a table or of code."""
    overlap_size: int = 200
    """How much a chunk at most repeats of the prose before it, up to half of its size; none of a table or of code."""
    include_section_title: bool = True
    """Whether the title of its section stands before a chunk's text."""

    def __post_init__(self) -> None:
        if self.max_chunk_size < _LEAST_SIZE:
            raise ValueError(f"max_chunk_size should be at least {_LEAST_SIZE}; came {self.max_chunk_size}")
        if self.overlap_size < 0:
            raise ValueError(f"overlap_size should be at least 0; came {self.overlap_size}")


class ChunkTransformer(Protocol):
    """Changes what of a chunk is searched and shown, for example by a sentence about its document before it."""

    async def transform(self, chunk: Chunk, leaf: LeafSection) -> Chunk:
        """The chunk with another `text` or `metadata`. All else of it stays as it is, whatever is returned."""
        ...


class Chunker:
    """Cuts documents into chunks, and hands each to the transformers, one after the other."""

    def __init__(self, config: ChunkerConfig | None = None, transformers: Iterable[ChunkTransformer] = ()) -> None:
        self.config = config or ChunkerConfig()
        self._transformers = tuple(transformers)

    async def chunk(self, document: NavigableDocument) -> tuple[Chunk, ...]:
        """The chunks of a document, in its order. Cutting runs in a thread."""
        chunks = await to_thread.run_sync(self.split, document)
        if not self._transformers:
            return chunks
        leaves = {leaf.id: leaf for leaf in document.leaves()}
        return tuple([await self._transformed(each, leaves[each.parent_id]) for each in chunks])

    async def _transformed(self, chunk: Chunk, leaf: LeafSection) -> Chunk:
        for transformer in self._transformers:
            changed = await transformer.transform(chunk, leaf)
            chunk = replace(chunk, text=changed.text, metadata=changed.metadata)
        return chunk

    def split(self, document: NavigableDocument) -> tuple[Chunk, ...]:
        """The chunks of a document before any transformer saw them."""
        return tuple(self._chunks(document))

    def _chunks(self, document: NavigableDocument) -> Iterator[Chunk]:
        number = 0
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
                yield Chunk(
                    id=element_id(document.uri, leaf.id, urtext, same[urtext]),
                    metadata=metadata,
                    text=f"{prefix}{piece.before}{urtext}{piece.after}",
                    urtext=urtext,
                    parent_id=leaf.id,
                    root_id=document.id,
                    uri=document.uri,
                    path=leaf.path,
                    number=number,
                    start=leaf.start + piece.start,
                    end=leaf.start + piece.end,
                )
                number += 1
