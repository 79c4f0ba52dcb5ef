"""What the agents of a platform look things up in: its index of documents, and the references of its workspace.

Both are loaded when there are any, so that a server without them pays nothing. Below: `rag`, `references`, `skills`,
models and settings. Above: `AgentPlatform`, and the commands for documents, references and skills.
"""

import logging
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from typing import Final

from goalport.base.errors import ModelNotReady, StoreError
from goalport.knowledge.rag import DocumentIndex
from goalport.knowledge.references import NamedReferences
from goalport.models.llm import EmbeddingService, Models
from goalport.workspace import Workspace
from goalport.workspace.settings import DocumentsSettings, Settings

INDEX_FILE: Final = "documents.db"
"""The name of the file with the documents in a data folder."""
REFERENCES_FILE: Final = "references.yml"
"""The name of the file of references in a workspace."""
_log = logging.getLogger(__name__)


class DocumentsOfPlatform:
    """The index of documents of a platform: the one that a program gave, or one that is made when it is first used."""

    def __init__(self, given: DocumentIndex | None, make: Callable[[], DocumentIndex]) -> None:
        self.make = make
        """Makes the index if none was given. It is called once, in any thread."""
        self._given, self._made = given, None
        self._lock = Lock()

    @property
    def index(self) -> DocumentIndex:
        """The index. Raises what making it raises."""
        if self._given is not None:
            return self._given
        with self._lock:
            self._made = self._made or self.make()
            return self._made

    def as_service(self, kind: type) -> DocumentIndex | None:
        """The index, if it is of that type; a type of another room than `rag` does not make it."""
        if not kind.__module__.startswith("goalport.knowledge.rag."):
            return None
        return self.index if isinstance(self.index, kind) else None

    async def close(self) -> None:
        """Close the index, unless it was given."""
        if self._made is not None:
            await self._made.close()


def document_index(models: Models, settings: Settings | None = None, file: Path | None = None) -> DocumentIndex:
    """The index of documents that the settings of a workspace name, or the one in a file; without both, in memory.

    An embedding model that is not ready is a warning: words are searched then. Nothing is opened before it is used.
    """
    chosen = settings.documents if settings else DocumentsSettings()
    embeddings = _embeddings(models, chosen.embedding_model)
    if file is None and chosen.store != "sqlite":
        from goalport.knowledge.rag import PostgresDocumentStore

        connections, pooler = chosen.connections, chosen.pooler
        return PostgresDocumentStore(
            chosen.store, embeddings=embeddings, on_other_model="text", connections=connections, pooler=pooler
        )
    from goalport.knowledge.rag import SqliteDocumentStore

    return SqliteDocumentStore(
        file or (settings and index_file(settings)), embeddings=embeddings, on_other_model="text"
    )


def index_file(settings: Settings) -> Path | None:
    """The file with the documents of a workspace; None: they are in a database."""
    return settings.data_dir / INDEX_FILE if settings.documents.store == "sqlite" else None


def document_problems(models: Models, settings: Settings) -> list[str]:
    """What is missing for what the settings say about documents, a sentence each. No database is asked."""
    chosen, problems = settings.documents, list[str]()
    try:
        if chosen.embedding_model:
            _embedding(models, chosen.embedding_model)
    except ModelNotReady as error:
        problems.append(f"[documents] embedding_model: {error}")
    if chosen.store != "sqlite":
        from goalport.knowledge.rag import PostgresDocumentStore

        try:
            PostgresDocumentStore(chosen.store)
        except StoreError as error:
            problems.append(f"[documents] store: {error}")
    return problems


def _embeddings(models: Models, name: str) -> EmbeddingService | None:
    if not (name or models.default_embedding):
        return None
    try:
        return _embedding(models, name)
    except ModelNotReady as error:
        _log.warning("Documents are stored and searched by words alone, without vectors. %s", error)
        return None


def _embedding(models: Models, name: str) -> EmbeddingService:
    """The embedding service, if it and what works with its vectors are there. Raises `ModelNotReady`."""
    from goalport.knowledge.rag.vectors import require_numpy

    require_numpy()
    return models.embedding(name)


def workspace_references(documents: DocumentsOfPlatform, settings: Settings, workspace: Workspace) -> NamedReferences:
    """The references in the `references.yml` of a workspace, and what is wrong with it; none where there is no file."""
    file = workspace.root / REFERENCES_FILE
    if not file.exists():
        return NamedReferences()
    from goalport.runtime.platform.workspace_references import references_in

    return references_in(file, documents, settings.data_dir)
