"""Taking documents in: files, folders and pages, again and again."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from goalport.base.errors import BadInput, DocumentError
from goalport.knowledge.documents import Chunk, Chunker, ChunkerConfig, RefreshPolicy, WebFetcher
from goalport.knowledge.rag import (
    DocumentFolder,
    DocumentIngestion,
    IngestedDocument,
    RefreshPolicies,
    SqliteDocumentStore,
    TextSimilaritySearchRequest,
)
from tests.rooms.documents.loopback import Site, serving


def outcomes(documents: tuple[IngestedDocument, ...]) -> dict[str, str]:
    return {each.uri.rpartition("/")[2]: each.outcome for each in documents}


async def found(store: SqliteDocumentStore, query: str) -> set[str]:
    results = await store.text_search(TextSimilaritySearchRequest(query=query), Chunk)
    return {each.match.uri.rpartition("/")[2] for each in results}


@pytest.fixture
def site() -> Generator[Site]:
    with serving() as site:
        yield site


@pytest.fixture
def docs(tmp_path: Path) -> Path:
    folder = tmp_path / "docs"
    (folder / "deep").mkdir(parents=True)
    (folder / "a.md").write_text("# Apples\n\nThey grow on trees.\n")
    (folder / "deep" / "b.txt").write_text("Bananas grow in bunches.\n")
    return folder


async def test_places_of_a_folder_are_taken_in_and_what_has_changed_is_told(docs: Path) -> None:
    folder, told = DocumentFolder(docs, ["a.md", "deep"]), list[str]()
    async with SqliteDocumentStore() as store:
        await folder.take_in(store, told.append)
        (docs / "a.md").write_text("# Apples\n\nThey are red.\n")
        await folder.take_in(store, told.append)
        await folder.take_in(store, told.append)
    assert told == ["Docs: 2 added", "Docs: 1 changed"]


async def test_a_folder_is_taken_in_and_only_what_changed_is_read_again(docs: Path) -> None:
    async with SqliteDocumentStore() as store, DocumentIngestion(store) as ingestion:
        assert outcomes(await ingestion.ingest(docs)) == {"a.md": "added", "b.txt": "added"}
        assert await found(store, "grow") == {"a.md", "b.txt"}
        (docs / "a.md").write_text("# Apples\n\nThey are red.\n")
        (docs / "deep" / "b.txt").unlink()
        (docs / "c.md").write_text("Cherries.")
        again = outcomes(await ingestion.ingest(docs))
        assert again == {"a.md": "changed", "c.md": "added", "b.txt": "removed"}
        assert await found(store, "grow") == set()
        assert await found(store, "cherries") == {"c.md"}
    async with SqliteDocumentStore() as store, DocumentIngestion(store) as ingestion:
        await ingestion.ingest(docs)
        async with DocumentIngestion(store) as another:
            assert set(outcomes(await another.ingest(docs)).values()) == {"unchanged"}


async def test_what_cannot_be_read_is_a_sentence_and_the_others_are_read(docs: Path) -> None:
    (docs / "empty.md").write_bytes(b"")
    (docs / "photo.pdf").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    (docs / "photo.png").write_bytes(b"\x89PNG\r\n\x1a\n" + bytes(50))
    (docs / "loop").symlink_to(docs)
    (docs / ".secret.md").write_text("secret words")
    (docs / "index.db-wal").write_bytes(b"SQLite's own" + bytes(100))
    with (docs / "sparse.md").open("wb") as sparse:
        sparse.truncate(2**31)
    heard: list[IngestedDocument] = []
    async with SqliteDocumentStore() as store, DocumentIngestion(store) as ingestion:
        told = await ingestion.ingest(docs, docs / "nowhere.md", listener=heard.append)
        assert told == tuple(heard)
        assert outcomes(told) == {
            "a.md": "added",
            "b.txt": "added",
            "nowhere.md": "failed",
            "empty.md": "failed",
            "photo.pdf": "failed",
            "sparse.md": "failed",
        }
        reasons = {each.uri.rpartition("/")[2]: each.reason for each in told if each.reason}
        assert "is called a PDF file" in reasons["photo.pdf"]
        assert "at most" in reasons["sparse.md"]
        assert "no such file" in reasons["nowhere.md"]
        assert await found(store, "secret") == set()


async def test_a_file_is_one_document_however_its_folder_is_named(docs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (docs.parent / "link").symlink_to(docs / "deep")
    monkeypatch.chdir(docs / "deep")
    async with SqliteDocumentStore() as store, DocumentIngestion(store, refresh=RefreshPolicy.never()) as ingestion:
        await ingestion.ingest(docs)
        for each in ("..", "../a.md", "../../docs", docs.parent / "link" / ".." / "a.md"):
            assert set(outcomes(await ingestion.ingest(each)).values()) == {"unchanged"}, each
        assert [each.root.uri for each in await store.documents()] == [
            (docs / "a.md").as_uri(),
            (docs / "deep" / "b.txt").as_uri(),
        ]


async def test_names_that_no_file_can_have_are_a_sentence_each(docs: Path) -> None:
    async with SqliteDocumentStore() as store, DocumentIngestion(store) as ingestion:
        told = await ingestion.ingest("x" * 5_000, "~nobody-of-this-name/x.md", "a\0b", docs)
        assert [each.outcome for each in told] == ["failed", "failed", "failed", "added", "added"]
        with pytest.raises(BadInput, match="empty"):
            await ingestion.ingest("")


async def test_a_document_whose_name_is_no_unicode_stays_while_its_file_is_there(docs: Path) -> None:
    hidden = docs / os.fsdecode(b".hidden-\xff.md")
    hidden.write_text("Dates are sweet.\n")
    async with SqliteDocumentStore() as store, DocumentIngestion(store) as ingestion:
        await ingestion.ingest(hidden, docs)
        assert set(outcomes(await ingestion.ingest(docs)).values()) == {"unchanged"}
        hidden.unlink()
        assert "removed" in outcomes(await ingestion.ingest(docs)).values()


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="nothing is closed to this user")
async def test_a_folder_that_may_not_be_read_is_a_sentence_and_its_documents_stay(docs: Path) -> None:
    async with SqliteDocumentStore() as store, DocumentIngestion(store) as ingestion:
        await ingestion.ingest(docs)
        (docs / "deep").chmod(0)
        try:
            told = await ingestion.ingest(docs)
        finally:
            (docs / "deep").chmod(0o700)
        assert outcomes(told) == {"a.md": "unchanged", "deep": "failed"}
        assert told[1].reason == f"{docs / 'deep'} cannot be read: permission denied."
        assert await found(store, "bananas") == {"b.txt"}


async def test_a_document_that_cannot_be_read_any_more_stays_as_it_was(docs: Path) -> None:
    async with SqliteDocumentStore() as store, DocumentIngestion(store) as ingestion:
        await ingestion.ingest(docs)
        (docs / "a.md").write_bytes(b"\x7fELF" + bytes(100))
        assert outcomes(await ingestion.ingest(docs))["a.md"] == "failed"
        assert outcomes(await ingestion.ingest(docs))["a.md"] == "failed"
        assert await found(store, "trees") == {"a.md"}


async def test_another_way_of_cutting_stores_all_anew(docs: Path) -> None:
    async with SqliteDocumentStore() as store:
        async with DocumentIngestion(store) as ingestion:
            await ingestion.ingest(docs)
        chunker = Chunker(ChunkerConfig(max_chunk_size=800))
        async with DocumentIngestion(store, chunker=chunker) as ingestion:
            assert set(outcomes(await ingestion.ingest(docs)).values()) == {"changed"}


async def test_pages_are_fetched_as_their_policy_says(site: Site) -> None:
    page = site.text("/guide", "<title>Guide</title><p>Press the green button.</p>")
    fetcher = WebFetcher(allow=[site.host])
    async with SqliteDocumentStore() as store:
        async with DocumentIngestion(store, fetcher=fetcher) as ingestion:
            assert [each.outcome for each in await ingestion.ingest(page)] == ["added"]
            site.text("/guide", "<title>Guide</title><p>Press the red button.</p>")
        for refresh, outcome in (
            (RefreshPolicy.never(), "unchanged"),
            (RefreshPolicy.after(3_600), "unchanged"),
            (RefreshPolicies(((f"{site.address}/*", RefreshPolicy.always()),), RefreshPolicy.never()), "changed"),
        ):
            async with DocumentIngestion(store, fetcher=fetcher, refresh=refresh) as ingestion:
                assert [each.outcome for each in await ingestion.ingest(page)] == [outcome]
        assert await found(store, "red") == {"guide"}


async def test_addresses_of_this_network_are_refused(site: Site) -> None:
    async with SqliteDocumentStore() as store, DocumentIngestion(store) as ingestion:
        for each in (site.address, "ftp://example.com/"):
            (document,) = await ingestion.ingest(each)
            assert document.outcome == "failed", each
        assert await store.documents() == []


async def test_one_document_is_taken_in_if_it_is_needed(docs: Path) -> None:
    async with SqliteDocumentStore() as store, DocumentIngestion(store, refresh=RefreshPolicy.never()) as ingestion:
        stored = await ingestion.ingest_uri_if_needed(docs / "a.md")
        assert stored is not None
        (document,) = await store.documents()
        assert document.root.id == stored
        os.utime(docs / "a.md")
        assert await ingestion.ingest_uri_if_needed(docs / "a.md") is None
        with pytest.raises(DocumentError, match="no such file"):
            await ingestion.ingest_uri_if_needed(docs / "nowhere.md")
