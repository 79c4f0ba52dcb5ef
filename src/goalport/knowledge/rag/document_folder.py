"""Files and folders below a folder, searched as one: taken in when they are first needed, and again when they changed.

For agents that answer from documents beside them. Below: the ingestion and filters. Above: agents, with `ToolishRag`.
"""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

import anyio

from goalport.base.errors import DocumentError
from goalport.knowledge.rag.document_store import DocumentIndex
from goalport.knowledge.rag.filters import AnyOf, Filter, UriPrefix
from goalport.knowledge.rag.ingestion import DocumentIngestion, IngestedDocument


@dataclass(frozen=True)
class _Intake:
    """What takes the documents into one index, one call at a time."""

    index: DocumentIndex
    ingestion: DocumentIngestion
    turn: anyio.Lock = field(default_factory=anyio.Lock)


class DocumentFolder:
    """The documents at some places below a folder: `DocumentFolder(Path("/srv/manuals"), ["guide.md", "recipes"])`.

    `places` are files and folders, relative to `root`. An index may hold other documents too: a search with `filter`
    finds these alone.
    """

    def __init__(self, root: Path, places: Sequence[str]) -> None:
        self.root = root.absolute()
        self.places = [self.root / each for each in places]
        self._intake: _Intake | None = None

    @property
    def filter(self) -> Filter:
        """What holds of these documents and of no others in the index."""
        return AnyOf(tuple(UriPrefix(f"{each.as_uri()}/" if each.is_dir() else each.as_uri()) for each in self.places))

    def name_of(self, uri: str) -> str:
        """The path of a document from the folder on, such as `docs/waiting.md`."""
        return unquote(uri.removeprefix(f"{self.root.as_uri()}/"))

    async def take_in(self, index: DocumentIndex, report: Callable[[str], None] | None = None) -> None:
        """Bring the index up to date; `report` is told in words what has changed in it, and what cannot be read.

        Calls at the same time wait for each other, so that each file is read once. Raises `DocumentError` when none of
        the documents can be read, and what `DocumentIngestion.ingest` raises.
        """
        intake = self._intake
        if intake is None or intake.index is not index:
            intake = self._intake = _Intake(index, DocumentIngestion(index))
        async with intake.turn, intake.ingestion:
            documents = await intake.ingestion.ingest(*self.places)
        failures = [each.reason for each in documents if each.outcome == "failed"]
        if failures and len(failures) == len(documents):
            raise DocumentError(failures[0])
        if report is not None:
            for each in (*failures, *_changes(documents)):
                report(each)


def _changes(documents: Sequence[IngestedDocument]) -> list[str]:
    numbers = Counter(each.outcome for each in documents if each.outcome not in {"failed", "unchanged"})
    said = ", ".join(f"{number} {outcome}" for outcome, number in numbers.items())
    return [f"Docs: {said}"] if said else []
