"""Ingestion: files, folders and web pages are read, split into chunks and stored, if they changed. Guide, 3.12.7.

A document is stored whole or not at all. If one cannot be read, a sentence says why, and the others are still read.
Below: `documents`, which reads and splits. Above: the command line, and all code that fills a store.
"""

import os
import stat
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from hashlib import sha256
from pathlib import Path, PurePosixPath
from typing import Final, Literal, TypeGuard
from urllib.parse import unquote, unquote_to_bytes, urlsplit

import anyio
from anyio import to_thread

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, DocumentError, UnreadableDocument
from goalport.knowledge.documents import (
    Chunker,
    DocumentReader,
    Folder,
    FolderLimits,
    ReadingLimits,
    RefreshPolicy,
    WebFetcher,
)
from goalport.knowledge.rag.index import DocumentIndex
from goalport.knowledge.rag.search import AnyOf, DocumentStore, Filter, StoredDocument, UriPrefix

_FileState = tuple[int, int]
"""When a file was changed last, in nanoseconds, and its size in bytes."""
Outcome = Literal["added", "changed", "unchanged", "removed", "failed"]
_VERSION: Final = "3"
"""Part of each content hash. Raise it if reading, splitting or indexing changes, so that all documents are updated."""
_MOST_FILES: Final = 1_000_000
_PAGE: Final = 1_000
_FILE_URI: Final = "file:/"
_NO_DOCUMENTS: Final = (
    *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".bmp", ".tif", ".tiff", ".ico", ".svg", ".heic", ".woff", ".woff2"),
    *(".mp3", ".mp4", ".m4a", ".wav", ".ogg", ".flac", ".avi", ".mov", ".mkv", ".webm", ".ttf", ".otf", ".eot"),
    *(".zip", ".gz", ".tgz", ".bz2", ".xz", ".zst", ".7z", ".rar", ".tar", ".jar", ".whl", ".egg", ".iso", ".dmg"),
    *(".exe", ".dll", ".so", ".dylib", ".a", ".o", ".obj", ".class", ".pyc", ".wasm", ".db", ".sqlite", ".lock"),
    *(".db-shm", ".db-wal", ".db-journal", ".sqlite-shm", ".sqlite-wal", ".sqlite-journal"),
)
"""Suffixes of files that are skipped in folders, as they are no documents. A file that is named itself is tried."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestedDocument:
    """The outcome of ingesting one document."""

    uri: str
    outcome: Outcome
    chunks: int = 0
    """The number of its chunks, if it was stored now."""
    reason: str = ""
    """Why it could not be read, as a sentence."""


@dataclass(frozen=True, slots=True)
class RefreshPolicies:
    """When documents are read again from their source. The first pattern that fits the URI decides.

    `RefreshPolicies((("https://example.com/news/*", RefreshPolicy.after(600)),), RefreshPolicy.never())`
    """

    by_pattern: Sequence[tuple[str, RefreshPolicy]] = ()
    """Patterns for URIs, such as `https://example.com/*` or `*.pdf`, each with its policy."""
    otherwise: RefreshPolicy = field(default_factory=RefreshPolicy.always)

    def of(self, uri: str) -> RefreshPolicy:
        """The policy for a document."""
        return next((each for pattern, each in self.by_pattern if fnmatchcase(uri, pattern)), self.otherwise)

    def due(self, stored: StoredDocument) -> bool:
        """Whether a document that is stored is to be read again now."""
        seconds = self.of(stored.root.uri).seconds
        return seconds is not None and datetime.now(UTC) - stored.stored_at >= timedelta(seconds=seconds)


class DocumentIngestion(AbstractAsyncContextManager["DocumentIngestion", None]):
    """Stores documents: `async with DocumentIngestion(store) as ingestion: await ingestion.ingest("docs")`.

    A document is read again when `refresh` says so, by default always, and replaced when its content has changed.
    `readers` are the callers who may read the documents, and the scopes that let others read them; None: everyone.
    A file in a folder has to match one of the patterns `include`, such as `*.md` or `manuals/*`.
    """

    def __init__(
        self,
        store: DocumentStore,
        *,
        chunker: Chunker | None = None,
        limits: ReadingLimits | None = None,
        fetcher: WebFetcher | None = None,
        refresh: RefreshPolicies | RefreshPolicy | None = None,
        readers: Collection[Caller | str] | None = None,
        include: Sequence[str] = ("*",),
    ) -> None:
        self._store = store
        self._chunker = chunker or Chunker()
        self._reader = DocumentReader(limits)
        self._fetcher = fetcher or WebFetcher()
        one_for_all = isinstance(refresh, RefreshPolicy)
        self._refresh = RefreshPolicies(otherwise=refresh) if one_for_all else refresh or RefreshPolicies()
        self._readers = readers
        self._include = include
        self._read: dict[str, tuple[_FileState, IngestedDocument]] = {}
        """By URI: the state of each file when it was last read, and the outcome."""

    async def __aexit__(self, *_: object) -> None:
        """Nothing is left open between two documents."""

    async def ingest(
        self, *places: str | Path, listener: Callable[[IngestedDocument], None] | None = None
    ) -> tuple[IngestedDocument, ...]:
        """Ingest files and folders by path or `file:` URI, and web pages by URL. `listener` is called with each result.

        In folders, hidden files, files that `include` does not match, and files that are no documents, such as images,
        are skipped. Documents whose files are gone are removed from the store. Chunks for which the embedding service
        made no vectors get them at the end, or when it answers again. Raises `BadInput` for an invalid place,
        `StoreError`, and `ModelError` if that service cannot be used at all; documents stored before that stay.
        """
        done: list[IngestedDocument] = []
        for place in places:
            async with aclosing(self._ingest_place(place)) as documents:
                async for each in documents:
                    done.append(each)
                    if listener is not None:
                        listener(each)
        while isinstance(self._store, DocumentIndex) and await self._store.catch_up():
            pass
        return tuple(done)

    async def ingest_uri_if_needed(self, uri: str | Path) -> str | None:
        """Ingest one document. Returns its id, or None if it has not changed. Raises `DocumentError`."""
        (document,) = await self.ingest(uri)
        if document.outcome == "failed":
            raise DocumentError(document.reason)
        stored = await self._store.document(document.uri)
        return None if document.outcome == "unchanged" or stored is None else stored.root.id

    async def _ingest_place(self, place: str | Path) -> AsyncGenerator[IngestedDocument]:
        if is_page(place):
            yield await self._ingest_one(place, await self._store.document(place))
            return
        path = absolute(place)
        if not await to_thread.run_sync(os.path.isdir, path):
            yield await self._ingest_one(path.as_uri(), await self._store.document(path.as_uri()), path)
            return
        prefix = f"{path.as_uri().rstrip('/')}/"
        known = await stored_within(self._store, prefix)
        files, unlisted = await to_thread.run_sync(_files, path, self._include)
        for file in files:
            yield await self._ingest_one(file.as_uri(), known.pop(file.as_uri(), None), file)
        for folder, reason in unlisted:
            yield IngestedDocument(uri=folder.as_uri(), outcome="failed", reason=reason)
        for uri in known:
            file = path / os.fsdecode(unquote_to_bytes(uri.removeprefix(prefix)))
            if await to_thread.run_sync(_is_gone, file):
                await self._store.remove(uri)
                yield IngestedDocument(uri=uri, outcome="removed")

    async def _ingest_one(self, uri: str, stored: StoredDocument | None, path: Path | None = None) -> IngestedDocument:
        """Store one document if it is due and has changed: a file, or (without `path`) a web page."""
        unchanged = IngestedDocument(uri=uri, outcome="unchanged")
        if stored is not None and not self._refresh.due(stored):
            return unchanged
        state: _FileState | None = None
        try:
            if path is None:
                found = await self._fetcher.fetch(uri)
                media_type = f"{found.media_type}; charset={found.charset}" if found.charset else found.media_type
                return await self._update(found.content, uri, media_type, stored)
            state = await to_thread.run_sync(_state, path)
            before, became = self._read.get(uri, (None, unchanged))
            if state == before and (stored is not None or became.outcome == "failed"):
                return became if became.outcome == "failed" else unchanged
            document = await self._update(await to_thread.run_sync(self._reader.content, path), uri, None, stored)
        except DocumentError as error:
            # Name a file by its path in all errors; those of the reader of its content have the URI.
            unread = error if path is not None and isinstance(error, UnreadableDocument) else None
            reason = str(error if unread is None else UnreadableDocument(str(path), unread.reason))
            document = IngestedDocument(uri=uri, outcome="failed", reason=reason)
        if state is not None:
            self._read[uri] = (state, document)
        return document

    async def _update(
        self, data: bytes, uri: str, media_type: str | None, stored: StoredDocument | None
    ) -> IngestedDocument:
        made_by = f"{_VERSION} {self._chunker.config} {media_type}\0"
        content_hash = sha256(made_by.encode() + data).hexdigest()
        if stored is not None and stored.content_hash == content_hash:
            if self._refresh.of(uri).seconds:
                await self._store.confirm(uri)
            return IngestedDocument(uri=uri, outcome="unchanged")
        document = await self._reader.read(data, uri, media_type)
        chunks = await self._chunker.chunk(document)
        await self._store.put(document, chunks, content_hash=content_hash, readers=self._readers)
        return IngestedDocument(uri=uri, outcome="added" if stored is None else "changed", chunks=len(chunks))


async def stored_within(store: DocumentStore, folder: str) -> dict[str, StoredDocument]:
    """The stored documents in a folder by URI; `folder` is the beginning of their URIs and ends with a slash."""
    known: dict[str, StoredDocument] = {}
    after = folder
    while page := await store.documents(limit=_PAGE, after=after):
        known |= {each.root.uri: each for each in page if each.root.uri.startswith(folder)}
        after = page[-1].root.uri
        if not after.startswith(folder):
            break
    return known


def is_page(place: str | Path) -> TypeGuard[str]:
    """Whether somebody named a page on the web, and not a file or a folder."""
    return isinstance(place, str) and "://" in place and not place.lower().startswith(_FILE_URI)


def absolute(place: str | Path) -> Path:
    """The absolute path, without `..`, of a file or folder that is named by path or `file:` URI.

    So a file has the same URI, whatever the working directory is. Links in the path stay. Raises
    `BadInput` for an empty name, and for the URI of a file on another machine.
    """
    if not str(place):
        raise BadInput("Expected the path of a file or folder, but came an empty text.")
    if isinstance(place, str) and place.lower().startswith(_FILE_URI):
        named = urlsplit(place)
        if named.netloc not in {"", "localhost"}:
            raise BadInput(f"Expected the URI of a file here, such as file:///srv/docs, but came {place!r}.")
        place = os.fsdecode(unquote_to_bytes(named.path))
    written = Path(os.path.expanduser(place))  # noqa: PTH111 - that of pathlib raises for a user who is not known
    path = written.absolute()
    if ".." not in path.parts:
        return path
    after_last = len(path.parts) - path.parts[::-1].index("..")
    # Behind a symbolic link, only the file system knows the parent folder that `..` means.
    return Path(os.path.realpath(Path(*path.parts[:after_last])), *path.parts[after_last:])


def _state(path: Path) -> _FileState:
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        raise UnreadableDocument.after(path, error) from None
    return status.st_mtime_ns, status.st_size


def _files(folder: Path, include: Sequence[str]) -> tuple[list[Path], list[tuple[Path, str]]]:
    """The files below a folder that may be documents and match `include`, and folders that cannot be listed and why."""
    failures: list[OSError] = []
    found = Folder(folder, FolderLimits(entries=_MOST_FILES)).files(onerror=failures.append)
    documents = (PurePosixPath(each) for each in found if not each.lower().endswith(_NO_DOCUMENTS))
    # The path of a file, or its name alone, matches one of the patterns; `*` stands for slashes too.
    files = [
        folder / each
        for each in documents
        if any(fnmatchcase(name, pattern) for pattern in include for name in (str(each), each.name))
    ]
    return files, [(Path(each.filename), str(UnreadableDocument.after(each.filename, each))) for each in failures]


def _is_gone(file: Path) -> bool:
    """Whether a file does not exist any more. A file that may not be accessed is not gone."""
    try:
        return not stat.S_ISREG(file.stat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        return False


class DocumentFolder:
    """The documents at some places below a folder: `DocumentFolder(Path("/srv/manuals"), ["guide.md", "recipes"])`.

    `places` are files and folders, relative to `root`. An index may have other documents too: a search with `filter`
    finds only those at these places.
    """

    def __init__(self, root: Path, places: Sequence[str]) -> None:
        self.root = root.absolute()
        self.places = [self.root / each for each in places]
        self._intake: tuple[DocumentIndex, DocumentIngestion, anyio.Lock] | None = None
        """The index, its ingestion, and the lock that lets one call at a time use them."""

    @property
    def filter(self) -> Filter:
        """The filter that only these documents in an index fit."""
        return AnyOf(tuple(UriPrefix(f"{each.as_uri()}/" if each.is_dir() else each.as_uri()) for each in self.places))

    def name_of(self, uri: str) -> str:
        """The path of a document relative to `root`, such as `docs/waiting.md`."""
        return unquote(uri.removeprefix(f"{self.root.as_uri()}/"))

    async def take_in(self, index: DocumentIndex, report: Callable[[str], None] | None = None) -> None:
        """Bring the index up to date. `report` is called with sentences on what has changed and what cannot be read.

        Calls at the same time wait for each other, so that each file is read once. Raises `DocumentError` when none of
        the documents can be read, and what `DocumentIngestion.ingest` raises.
        """
        if self._intake is None or self._intake[0] is not index:
            self._intake = index, DocumentIngestion(index), anyio.Lock()
        _, ingestion, turn = self._intake
        async with turn, ingestion:
            documents = await ingestion.ingest(*self.places)
        failures = [each.reason for each in documents if each.outcome == "failed"]
        if failures and len(failures) == len(documents):
            raise DocumentError(failures[0])
        changes = Counter(each.outcome for each in documents if each.outcome not in {"failed", "unchanged"})
        if changes:
            failures.append(f"Docs: {', '.join(f'{number} {outcome}' for outcome, number in changes.items())}")
        if report is not None:
            for each in failures:
                report(each)
