"""`goalport ingest` and `goalport rag`: documents are taken in, searched, listed and removed.

They are kept where the settings of the workspace say, unless `--index` names a file or a PostgreSQL database.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar, get_args

import anyio
from cyclopts import Parameter

from goalport.base.caller import ANONYMOUS
from goalport.base.errors import BadInput, UnknownName
from goalport.base.words import counted, excerpt, one_line
from goalport.cli.options import WorkspaceFolder
from goalport.cli.terminal import Format, Record, say, show, show_json, show_lines
from goalport.cli.workspace import LoadedWorkspace, loop_of, open_with_warnings
from goalport.knowledge.documents import Chunk, Chunker, ChunkerConfig, RefreshPolicy, WebFetcher
from goalport.knowledge.rag import (
    DocumentIndex,
    DocumentIngestion,
    IngestedDocument,
    Outcome,
    SimilarityResult,
    TextSimilaritySearchRequest,
    find_chunks,
)
from goalport.knowledge.rag.ingestion import absolute, is_page, stored_within
from goalport.models.llm import TokenUsage
from goalport.runtime.platform.knowledge import document_index, index_file
from goalport.runtime.process import DirectCalls, Spending, spending_outside
from goalport.runtime.process.ledger import in_dollars
from goalport.store.postgres import PostgresAddress
from goalport.tools import calling_from
from goalport.workspace.settings import Settings

DONE, FAILED = 0, 1
_PAUSE: Final = 1.0
"""Seconds after which files are looked at again."""
_SHOWN: Final = 400
"""Characters of a result."""
T = TypeVar("T")
By = Literal["words", "meaning", "both", "pattern"]
"""How documents are searched."""

Index = Annotated[
    str | None,
    Parameter(help="A file with documents, or the URL of a PostgreSQL database. Default: where the settings say."),
]


def ingest(
    *places: str,
    refresh: str = "always",
    include: tuple[str, ...] = (),
    max_chunk_size: int | None = None,
    overlap_size: int | None = None,
    allow: tuple[str, ...] = (),
    watch: bool = False,
    structured: Annotated[bool, Parameter("--json")] = False,
    index: Index = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Take in documents, so that they can be searched; what has not changed is left alone.

    [documents] of the settings has the defaults. Of a folder, documents whose files are gone are removed.

    Parameters
    ----------
    places
        Files, folders and URLs; file: URIs too.
    refresh
        When what is stored is read again: always, never, or after a time such as 30m or 1d. Default: always.
    include
        Of a folder, only what matches: '*.md'.
    max_chunk_size
        The most characters of a chunk.
    overlap_size
        How many of them at most repeat what is before.
    allow
        A host of this network that may be fetched from: HOST[:PORT].
    watch
        Go on, and take in what changes, until Ctrl-C.
    structured
        Print a line of JSON for each document.

    Examples:
        goalport ingest docs handbook.pdf
        goalport ingest https://example.com/guide.html --refresh 1d
        goalport ingest docs --watch
    """
    if not places:
        raise BadInput("Say what to take in, such as `goalport ingest docs` or `goalport ingest https://example.com/`.")
    loaded = open_with_warnings(workspace)
    chosen = loaded.settings.documents
    try:
        policy = RefreshPolicy.of(refresh)
    except ValueError as error:
        raise BadInput(f"--refresh {error}.") from None
    most = chosen.max_chunk_size if max_chunk_size is None else max_chunk_size
    overlap = chosen.overlap_size if overlap_size is None else overlap_size
    ingestion_of = partial(
        DocumentIngestion,
        chunker=_chunker(most, overlap),
        refresh=policy,
        fetcher=WebFetcher(allow=allow),
        include=include or chosen.include,
    )
    follows = [each for each in places if not is_page(each) or policy.seconds] if watch else None
    shown = ShownDocuments(structured=structured)
    return _with_store(loaded, index, partial(_ingested, places, follows, ingestion_of, shown))


def _chunker(max_chunk_size: int, overlap_size: int) -> Chunker:
    try:
        return Chunker(ChunkerConfig(max_chunk_size=max_chunk_size, overlap_size=overlap_size))
    except ValueError as error:
        raise BadInput(f"{error}.") from None


async def _ingested(
    places: Sequence[str],
    follows: Sequence[str] | None,
    ingestion_of: Callable[[DocumentIndex], DocumentIngestion],
    listener: Callable[[IngestedDocument], None],
    store: DocumentIndex,
) -> int:
    """Take in all, and say what became of it, also of what was done before something stopped it; the exit code.

    `follows` are the places that are looked at again and again; None: it ends.
    """
    documents: list[IngestedDocument] = []

    def note(document: IngestedDocument) -> None:
        documents.append(document)
        listener(document)

    async with ingestion_of(store) as ingestion:
        began, whole = time.monotonic(), False
        with spending_outside() as spent:
            try:
                await ingestion.ingest(*places, listener=note)
                whole = True
            finally:
                if documents or whole:
                    say(_summary(documents, time.monotonic() - began, spent))
        while follows is not None:
            await anyio.sleep(_PAUSE)
            await ingestion.ingest(*follows, listener=listener)
    return FAILED if any(each.outcome == "failed" for each in documents) else DONE


class ShownDocuments:
    """Shows what became of each document; when it is looked at again and nothing happened, nothing."""

    def __init__(self, *, structured: bool) -> None:
        self._structured = structured
        self._shown: dict[str, IngestedDocument] = {}

    def __call__(self, document: IngestedDocument) -> None:
        if self._is_known(document):
            return
        self._shown[document.uri] = document
        if self._structured:
            told = {"uri": document.uri, "outcome": document.outcome, "chunks": document.chunks}
            show_json(told | ({"reason": document.reason} if document.reason else {}), None)
        elif document.outcome == "failed":
            say(f"failed: {document.reason}")
        elif document.outcome != "unchanged":
            of = f" ({counted(document.chunks, 'chunk')})" if document.outcome != "removed" else ""
            show_lines([f"{document.outcome}: {document.uri}{of}"])

    def _is_known(self, document: IngestedDocument) -> bool:
        """Whether nothing happened to a document since it was shown."""
        before = self._shown.get(document.uri)
        if document.outcome == "unchanged":
            return before is not None and before.outcome != "failed"
        return document.outcome == "failed" and document == before


def _summary(documents: Sequence[IngestedDocument], seconds: float, spent: Sequence[Spending]) -> str:
    numbers = Counter(each.outcome for each in documents)
    told = [f"{numbers[each]} {each}" for each in get_args(Outcome) if numbers[each]]
    chunks = sum(each.chunks for each in documents)
    return (
        f"Documents: {', '.join(told) or 'none'}; {counted(chunks, 'chunk')} stored in {seconds:.1f} s.{_cost(spent)}"
    )


def _cost(spent: Sequence[Spending]) -> str:
    """What embeddings cost, as a sentence that follows another one; empty where that is not known."""
    usage = sum((each.usage for each in spent), start=TokenUsage())
    dollars = f", {in_dollars(usage.cost)}" if usage.cost else ""
    return f" Embeddings: {usage.tokens:,} tokens{dollars}." if usage.tokens or usage.cost else ""


def search(
    query: str,
    /,
    *,
    by: By | None = None,
    top: int = 5,
    format: Format = "text",  # noqa: A002 - the option's name
    index: Index = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Search the documents that were taken in. The exit code is 1 if nothing was found.

    Parameters
    ----------
    query
        What is searched for.
    by
        How. Default: both if there are vectors, else words.
    top
        The most results. Default: 5.

    Examples:
        goalport rag search "how are tokens renewed"
        goalport rag search '+token "refresh policy" -draft' --by words --format json
        goalport rag search -- '-draft +token'
    """
    if not query.strip():
        raise BadInput("Say what to search for: the query is empty.")

    results = _with_store(open_with_warnings(workspace), index, lambda store: _found(store, query, by, top), reads=True)
    if format == "json":
        show_json([_wire(each) for each in results])
    elif not results:
        say("Nothing was found.")
    for each in results if format == "text" else ():
        where = " / ".join(each.match.path)
        show_lines([f"{each.score:.2f}  {where}", f"      {each.match.uri} ({each.match.start}-{each.match.end})"])
        show_lines([f"      {one_line(excerpt(each.match.urtext, _SHOWN), _SHOWN)}", ""])
    return DONE if results else FAILED


async def _found(store: DocumentIndex, query: str, by: By | None, top: int) -> Sequence[SimilarityResult[Chunk]]:
    try:
        request = TextSimilaritySearchRequest(query=query, top_k=top)
    except ValueError as error:
        raise BadInput(str(error)) from None
    match by:
        case None:
            return await find_chunks(store, request)
        case "words":
            return await store.text_search(request, Chunk)
        case "meaning":
            return await store.vector_search(request, Chunk)
        case "both":
            return await store.hybrid_search(request, Chunk)
        case "pattern":
            return await store.regex_search(query, top, Chunk)


def _wire(result: SimilarityResult[Chunk]) -> dict[str, object]:
    chunk = result.match
    return {
        "score": round(result.score, 4),
        "id": chunk.id,
        "uri": chunk.uri,
        "path": list(chunk.path),
        "start": chunk.start,
        "end": chunk.end,
        "text": chunk.urtext,
    }


def list_documents(
    *,
    format: Format = "text",  # noqa: A002 - the option's name
    index: Index = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List the documents that were taken in."""

    async def found(store: DocumentIndex) -> list[Record]:
        records: list[Record] = []
        after = ""
        while page := await store.documents(after=after):
            records += [
                {
                    "document": each.root.uri,
                    "title": each.root.title,
                    "chunks": each.chunks,
                    "stored_at": each.stored_at.isoformat(timespec="seconds"),
                }
                for each in page
            ]
            after = page[-1].root.uri
        return records

    show(_with_store(open_with_warnings(workspace), index, found, reads=True), format, none="No document is stored.")


def remove(
    *documents: str,
    index: Index = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Remove documents, with all that is stored of them.

    Parameters
    ----------
    documents
        Their URIs, or paths of files. Of a folder, or a URI that ends with a slash, all within it.

    Examples:
        goalport rag remove docs/old.md
        goalport rag remove drafts https://example.com/old/
    """
    if not documents:
        raise BadInput("Say what to remove; `goalport rag list` lists the documents.")

    async def removed(store: DocumentIndex) -> None:
        for each in documents:
            uri = each if "://" in each else absolute(each).as_uri()
            if await store.remove(uri):
                say(f"Removed {uri}.")
                continue
            folder = f"{uri.rstrip('/')}/"
            within = await stored_within(store, folder) if "://" not in each or each.endswith("/") else ()
            for one in within:
                await store.remove(one)
            if within:
                say(f"Removed {counted(len(within), 'document')} within {uri}.")
            else:
                known = [each.root.uri for each in await store.documents()]
                raise UnknownName("document", each, known)

    _with_store(open_with_warnings(workspace), index, removed, reads=True)


def reembed(*, index: Index = None, workspace: WorkspaceFolder = Path()) -> None:
    """Make the vectors of all documents anew, as after a change of the embedding model."""

    async def made(store: DocumentIndex) -> str:
        with spending_outside() as spent:
            return f"Vectors that were made: {await store.reembed()}.{_cost(spent)}"

    say(_with_store(open_with_warnings(workspace), index, made, reads=True))


def _with_store(
    loaded: LoadedWorkspace,
    index: str | None,
    work: Callable[[DocumentIndex], Awaitable[T]],
    *,
    reads: bool = False,
) -> T:
    """What some work with the index of documents gives."""
    settings, file = _chosen(loaded.settings, index)
    path = file or index_file(settings)
    if reads and path is not None and not path.exists():  # looking makes no file
        raise BadInput(f"There are no documents in {path}. Take some in: goalport ingest docs")

    async def worked() -> T:
        with calling_from(DirectCalls(ANONYMOUS, loaded.platform.processes.listeners)):
            if index is None:
                return await work(loaded.platform.documents)
            store = document_index(loaded.platform.models, settings, file)
            try:
                return await work(store)
            finally:
                await store.close()

    with loop_of(loaded) as runner:
        return runner.run(worked())


def _chosen(settings: Settings, index: str | None) -> tuple[Settings, Path | None]:
    """The settings with the database that `--index` names, and the file that it names. Raises `BadInput`."""
    if index is None or "://" not in index:
        return settings, None if index is None else Path(index)
    try:
        PostgresAddress(index)
    except ValueError as error:
        raise BadInput(f"--index {error}, or the path of a file.") from None
    documents = settings.documents.model_copy(update={"store": index})
    return settings.model_copy(update={"documents": documents}), None
