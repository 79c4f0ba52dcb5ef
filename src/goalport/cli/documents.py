"""`goalport ingest` and `goalport rag` take in, search, list and remove documents; `goalport skills` is here too.

Documents are stored where the settings of the workspace say, unless `--index` names a file or a PostgreSQL database.
"""

import time
from collections import Counter
from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Final, Literal, TypeVar, get_args

import anyio
from cyclopts import Parameter

from goalport.base.caller import ANONYMOUS
from goalport.base.errors import BadInput, DocumentError, UnknownName
from goalport.base.words import counted, excerpt, one_line
from goalport.cli.options import DONE, FAILED, Unasked, WorkspaceFolder, workspace_root
from goalport.cli.terminal import Format, Record, confirmed, say, show, show_json, show_lines
from goalport.cli.workspace import LoadedWorkspace, loop_of, open_with_warnings
from goalport.knowledge.documents import Chunk, Chunker, ChunkerConfig, Folder, RefreshPolicy, WebFetcher
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
from goalport.knowledge.skills import Skill, Skills, SkillTrust, check_skills as skill_problems
from goalport.knowledge.skills.skill import SKILL_FILE, TRUST_FILE, fingerprint, scanned
from goalport.knowledge.skills.skills import PROJECT_FOLDERS, skills_in
from goalport.models.llm import TokenUsage
from goalport.runtime.platform.workspace_parts import document_index, index_file
from goalport.runtime.process import DirectCalls, Spending, spending_outside
from goalport.runtime.process.ledger import in_dollars
from goalport.store.postgres import PostgresAddress
from goalport.tools import calling_from
from goalport.workspace.settings import load_settings

_PAUSE: Final = 1.0
"""Seconds between two checks of the files with `--watch`."""
_SHOWN: Final = 400
"""The most characters of a result that are shown."""
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

    Args:
        places: Files, folders and URLs; file: URIs too.
        refresh: When what is stored is read again: always, never, or after a time such as 30m or 1d. Default: always.
        include: Of a folder, only what matches: '*.md'.
        max_chunk_size: The most characters of a chunk.
        overlap_size: How many of them at most repeat what is before.
        allow: A host of this network that may be fetched from: HOST[:PORT].
        watch: Go on, and take in what changes, until Ctrl-C.
        structured: Print a line of JSON for each document.

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
    try:
        chunker = Chunker(ChunkerConfig(max_chunk_size=most, overlap_size=overlap))
    except ValueError as error:
        raise BadInput(f"{error}.") from None
    shown = ShownDocuments(structured=structured)
    follows = [each for each in places if not is_page(each) or policy.seconds] if watch else None

    async def ingested(store: DocumentIndex) -> None:
        fetcher, patterns = WebFetcher(allow=allow), include or chosen.include
        ingesting = DocumentIngestion(store, chunker=chunker, refresh=policy, fetcher=fetcher, include=patterns)
        async with ingesting as ingestion:
            with shown.summary():
                await ingestion.ingest(*places, listener=shown)
            while follows is not None:
                await anyio.sleep(_PAUSE)
                await ingestion.ingest(*follows, listener=shown)

    _with_store(loaded, index, ingested)
    return FAILED if any(each.outcome == "failed" for each in shown.documents) else DONE


class ShownDocuments:
    """Shows the outcome for each document; when a document is checked again, only if something has changed."""

    def __init__(self, *, structured: bool) -> None:
        self.documents: list[IngestedDocument] = []
        self._structured = structured
        self._shown: dict[str, IngestedDocument] = {}

    def __call__(self, document: IngestedDocument) -> None:
        self.documents.append(document)
        before = self._shown.get(document.uri)
        if document.outcome == "unchanged":
            nothing_happened = before is not None and before.outcome != "failed"
        else:
            nothing_happened = document.outcome == "failed" and document == before
        if nothing_happened:
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

    @contextmanager
    def summary(self) -> Generator[None]:
        """Print a summary at the end of the block, also if an error or Ctrl-C ends it early."""
        began, whole = time.monotonic(), False
        with spending_outside() as spent:
            try:
                yield
                whole = True
            finally:
                if self.documents or whole:
                    numbers = Counter(each.outcome for each in self.documents)
                    counts = ", ".join(f"{numbers[each]} {each}" for each in get_args(Outcome) if numbers[each])
                    chunks = counted(sum(each.chunks for each in self.documents), "chunk")
                    stored = f"{chunks} stored in {time.monotonic() - began:.1f} s."
                    say(f"Documents: {counts or 'none'}; {stored}{_cost(spent)}")


def _cost(spent: Sequence[Spending]) -> str:
    """The cost of the embeddings, as a sentence that follows another one; empty if it is unknown."""
    usage = sum((each.usage for each in spent), start=TokenUsage())
    dollars = f", {in_dollars(usage.cost)}" if usage.cost else ""
    return f" Embeddings: {usage.tokens:,} tokens{dollars}." if usage.tokens or usage.cost else ""


def search(
    query: str,
    /,
    *,
    by: By | None = None,
    top: int = 5,
    format: Format = "text",
    index: Index = None,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Search the documents that were taken in. The exit code is 1 if nothing was found.

    Args:
        query: What is searched for.
        by: How. Default: both if there are vectors, else words.
        top: The most results. Default: 5.

    Examples:
        goalport rag search "how are tokens renewed"
        goalport rag search '+token "refresh policy" -draft' --by words --format json
        goalport rag search -- '-draft +token'
    """
    if not query.strip():
        raise BadInput("Say what to search for: the query is empty.")

    async def found(store: DocumentIndex) -> Sequence[SimilarityResult[Chunk]]:
        try:
            request = TextSimilaritySearchRequest(query=query, top_k=top)
        except ValueError as error:
            raise BadInput(str(error)) from None
        if by == "pattern":
            return await store.regex_search(query, top, Chunk)
        if by is None:
            return await find_chunks(store, request)
        kinds = {"words": store.text_search, "meaning": store.vector_search, "both": store.hybrid_search}
        return await kinds[by](request, Chunk)

    results = _with_store(open_with_warnings(workspace), index, found, reads=True)
    records: list[Record] = []
    for each in results:
        chunk, score = each.match, each.score
        place = {"uri": chunk.uri, "path": list(chunk.path), "start": chunk.start, "end": chunk.end}
        records.append({"score": round(score, 4), "id": chunk.id, **place, "text": chunk.urtext})
        if format == "text":
            show_lines([f"{score:.2f}  {' / '.join(chunk.path)}", f"      {chunk.uri} ({chunk.start}-{chunk.end})"])
            show_lines([f"      {one_line(excerpt(chunk.urtext, _SHOWN), _SHOWN)}", ""])
    if format == "json":
        show_json(records)
    elif not results:
        say("Nothing was found.")
    return DONE if results else FAILED


def list_documents(*, format: Format = "text", index: Index = None, workspace: WorkspaceFolder = Path()) -> None:
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


def remove(*documents: str, index: Index = None, workspace: WorkspaceFolder = Path()) -> None:
    """Remove documents, with all that is stored of them.

    Args:
        documents: Their URIs, or paths of files. Of a folder, or a URI that ends with a slash, all within it.

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
    loaded: LoadedWorkspace, index: str | None, work: Callable[[DocumentIndex], Awaitable[T]], *, reads: bool = False
) -> T:
    """The result of `work` with the index of the settings or of `--index`. With `reads`, the index has to exist."""
    settings, file = loaded.settings, None
    if index is not None and "://" not in index:
        file = Path(index)
    elif index is not None:
        try:
            PostgresAddress(index)
        except ValueError as error:
            raise BadInput(f"--index {error}, or the path of a file.") from None
        documents = settings.documents.model_copy(update={"store": index})
        settings = settings.model_copy(update={"documents": documents})
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


def check_skills(
    *folders: Path, files: Annotated[bool, Parameter(negative="--no-files")] = True, format: Format = "text"
) -> int:
    """Say what in skills is not as the specification wants it.

    Args:
        folders: Folders of skills, or folders with skills in their folders.
        files: Look for the files that the instructions mention. That is the default.

    Examples:
        goalport skills check skills
    """
    if not folders:
        raise BadInput("Say which skills to check, such as `goalport skills check skills`.")
    problems = [each for folder in folders for each in skill_problems(folder, files=files)]
    if format == "json":
        show_json([{"path": str(each.path), "line": each.line, "message": each.message} for each in problems])
    else:
        show_lines(map(str, problems))
        say(f"{counted(len(problems), 'problem')}." if problems else "Nothing is wrong.")
    return FAILED if problems else DONE


def list_skills(*, format: Format = "text", workspace: WorkspaceFolder = Path()) -> None:
    """List the skills of the references of the workspace, and those that the project brings; GitHub's are fetched."""
    loaded = open_with_warnings(workspace)
    found: list[tuple[Skill, str, str]] = []
    with loop_of(loaded) as runner:
        for name, reference in loaded.platform.references.items():
            skills = runner.run(reference.all()) if isinstance(reference, Skills) else ()
            found += [(each, "ready", name) for each in skills if not each.fingerprint]
    trust = SkillTrust(loaded.settings.data_dir / TRUST_FILE)
    for place in (loaded.workspace.root / parent for parent in PROJECT_FOLDERS):
        for each in skills_in(place) if place.is_dir() else ():  # whether a reference names them or not
            found.append((each, "trusted" if trust.trusted(each.folder) else "not trusted", ""))
    records = [
        {
            "skill": each.name,
            "description": each.description,
            "state": state,
            "reference": name,
            "folder": str(each.folder),
        }
        for each, state, name in found
    ]
    show(records, format, none="There are no skills. Name some in references.yml, or put them in .agents/skills.")


def trust_skills(*folders: Path, yes: Unasked = False, workspace: WorkspaceFolder = Path()) -> int:
    """Trust skills that a project brings, as they are now.

    It shows what is trusted, and asks. A skill that changes later has to be trusted again.

    Args:
        folders: Folders of skills, or folders with skills in their folders.

    Examples:
        goalport skills trust .agents/skills/release
    """
    if not folders:
        raise BadInput("Say which skill to trust; `goalport skills list` lists those of the project.")
    settings = load_settings(workspace_root(workspace))
    found: list[Skill] = []
    for folder in folders:
        within = [scanned(folder)] if (folder / SKILL_FILE).is_file() else [*skills_in(folder)]
        if not within:
            raise DocumentError(f"Expected a {SKILL_FILE} in {folder} or in a folder in there, but there is none.")
        found += within
    seen = [fingerprint(each.folder) for each in found]
    for each in found:
        files = sorted(Folder(each.folder, hidden=True).files())
        scripts = ", ".join(name for name in files if name.startswith("scripts/")) or "none"
        show_lines([f"{each.name}: {each.description}", f"  folder: {each.folder.resolve()}"])
        show_lines([f"  files: {', '.join(files)}", f"  scripts: {scripts}", ""])
    whose = f"{counted(len(found), 'skill')} for agents of {settings.workspace}"
    unattended = f"Nobody is there to be asked; add --yes to trust {whose}."
    if not yes and not confirmed(f"Trust {whose}?", unattended):
        say("Nothing is trusted.")
        return FAILED
    record = SkillTrust(settings.data_dir / TRUST_FILE)
    for each, shown in zip(found, seen, strict=True):
        record.trust(each.folder, seen=shown)
        say(f"Trusted {each.name!r} as it is now.")
    return DONE
