"""Small documents for the tests of stores, cut by a simple splitter, and embeddings that need no model."""

import re
from collections.abc import Mapping, Sequence
from zlib import crc32

from pydantic import JsonValue

from goalport.knowledge.documents import Chunk, LeafSection, NavigableDocument
from goalport.knowledge.documents.content import element_id

__all__ = ["Hashing", "document"]


def document(
    uri: str,
    sections: Mapping[str, str],
    *,
    title: str = "",
    size: int = 200,
    metadata: Mapping[str, JsonValue] | None = None,
) -> tuple[NavigableDocument, tuple[Chunk, ...]]:
    """A document with one level of sections, and its chunks of `size` characters at most."""
    root, name = element_id(uri), title or uri
    leaves: list[LeafSection] = []
    start = 0
    for place, (heading, text) in enumerate(sections.items()):
        path = (name, heading)
        leaf = LeafSection(id=element_id(uri, place), title=heading, parent_id=root, path=path, text=text, start=start)
        leaves.append(leaf)
        start += len(text)
    made = NavigableDocument(id=root, uri=uri, title=name, children=tuple(leaves), metadata=metadata or {})
    pieces = [(leaf, at) for leaf in leaves for at in range(0, len(leaf.text), size)]
    chunks = [
        Chunk(
            id=element_id(uri, "chunk", number),
            text=leaf.text[at : at + size],
            urtext=leaf.text[at : at + size],
            parent_id=leaf.id,
            root_id=root,
            uri=uri,
            path=leaf.path,
            number=number,
            start=leaf.start + at,
            end=leaf.start + min(at + size, len(leaf.text)),
            metadata=metadata or {},
        )
        for number, (leaf, at) in enumerate(pieces)
    ]
    return made, tuple(chunks)


class Hashing:
    """An embedding service in which texts with the same words lie near each other."""

    def __init__(self, name: str = "hashing", dimensions: int = 64) -> None:
        self.name, self.dimensions = name, dimensions
        self.asked: list[Sequence[str]] = []

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        self.asked.append(texts)
        return [self._vector(each) for each in texts]

    def _vector(self, text: str) -> list[float]:
        vector = [0.0] * self.dimensions
        for word in re.findall(r"\w+", text.lower()):
            vector[crc32(word.encode()) % self.dimensions] += 1.0
        return vector
