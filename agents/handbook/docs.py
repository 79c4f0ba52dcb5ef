"""The docs in an index of documents: taken in when they are first needed, and again when their files have changed."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import anyio

from goalport.errors import DocumentError
from goalport.rag import AnyOf, DocumentIndex, DocumentIngestion, Filter, IngestedDocument, UriPrefix

__all__ = ["Docs"]


@dataclass(frozen=True)
class _Intake:
    """What takes the docs into one index, one call at a time."""

    index: DocumentIndex
    ingestion: DocumentIngestion
    turn: anyio.Lock = field(default_factory=anyio.Lock)


class Docs:
    """Files and folders below a folder, which are searched as one handbook."""

    def __init__(self, root: Path, places: Sequence[str]) -> None:
        self.root = root.absolute()
        self.places = [self.root / each for each in places]
        self._intake: _Intake | None = None

    @property
    def filter(self) -> Filter:
        """Limits a search to the docs, because the index may hold other documents too."""
        return AnyOf(tuple(UriPrefix(f"{each.as_uri()}/" if each.is_dir() else each.as_uri()) for each in self.places))

    def name_of(self, uri: str) -> str:
        """The path of a document from the folder on."""
        return unquote(uri.removeprefix(f"{self.root.as_uri()}/"))

    async def take_in(self, index: DocumentIndex) -> list[IngestedDocument]:
        """Bring the index up to date. Returns what has changed in it, and what cannot be read.

        Calls at the same time wait for each other, so that each file is read once. Raises `DocumentError` when none of
        the docs can be read.
        """
        intake = self._intake
        if intake is None or intake.index is not index:
            intake = self._intake = _Intake(index, DocumentIngestion(index))
        async with intake.turn, intake.ingestion:
            documents = await intake.ingestion.ingest(*self.places)
        if documents and all(each.outcome == "failed" for each in documents):
            raise DocumentError(documents[0].reason)
        return [each for each in documents if each.outcome != "unchanged"]
