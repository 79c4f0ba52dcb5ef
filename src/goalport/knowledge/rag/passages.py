"""Passages of documents as a model is shown them: where each comes from, and that it is data and no instruction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from goalport.base.words import counted
from goalport.knowledge.documents import Chunk, LeafSection
from goalport.knowledge.rag.search import SimilarityResult
from goalport.models.prompts import DATA_RULE, marked_as_data

LONGEST: Final = 25_000
"""How many characters of a section a model is shown at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Passage:
    """A text of a document, and where it stands."""

    id: str
    section: str
    """The id of its section."""
    uri: str
    path: tuple[str, ...]
    start: int
    end: int
    text: str
    score: float | None = None
    """How well it fits what was searched for; None: it was not searched for."""
    resource: str = ""
    """The URI at which clients of the server can read its section; empty: they cannot."""

    @property
    def source(self) -> Mapping[str, Any]:
        """Where it stands, as JSON."""
        place = {"id": self.id, "uri": self.uri, "path": list(self.path), "start": self.start, "end": self.end}
        return {**place, "resource": self.resource} if self.resource else place

    @property
    def marked(self) -> str:
        """The text, marked as data, with where it stands."""
        known = {"id": self.id, "section": " > ".join(self.path), "characters": f"{self.start}-{self.end}"}
        score = {} if self.score is None else {"score": f"{self.score:.2f}"}
        resource = {"resource": self.resource} if self.resource else {}
        return marked_as_data(self.text, self.uri, **known, **score, **resource)


def passages_of(results: Iterable[SimilarityResult[Chunk]]) -> list[Passage]:
    """The passages that a search has found."""
    return [passage_of(each.match, each.score) for each in results]


def passage_of(chunk: Chunk, score: float | None = None) -> Passage:
    return Passage(
        id=chunk.id,
        section=chunk.parent_id,
        uri=chunk.uri,
        path=chunk.path,
        start=chunk.start,
        end=chunk.end,
        text=chunk.text,
        score=score,
    )


def pieces_of(leaves: Iterable[LeafSection], uri: str, offset: int = 0) -> Iterator[Passage]:
    """The passages with the texts of sections, after `offset` characters, as far as they are shown at once."""
    skip, room = offset, LONGEST
    for leaf in leaves:
        part = leaf.text[skip : skip + room]
        start = leaf.start + min(skip, len(leaf.text))
        skip, room = max(skip - len(leaf.text), 0), room - len(part)
        if part:
            end = start + len(part)
            yield Passage(id=leaf.id, section=leaf.id, uri=uri, path=leaf.path, start=start, end=end, text=part)


def as_text(passages: Sequence[Passage], what: str = "result") -> str:
    """What a model reads: how many passages there are, that they are data, and the passages."""
    if not passages:
        return f"0 {what}s:"
    return "\n\n".join([f"{counted(len(passages), what)}: {DATA_RULE}", *(each.marked for each in passages)])
