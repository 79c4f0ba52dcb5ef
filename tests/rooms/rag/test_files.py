"""The file of a store: what a killed program leaves behind, and files that are none."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from goalport.base.errors import StoreError
from goalport.knowledge.documents import Chunk
from goalport.knowledge.rag import SqliteDocumentStore, TextSimilaritySearchRequest
from tests.rooms.rag.toy_documents import Hashing, document

ROSES = TextSimilaritySearchRequest(query="roses")
FIRST_VERSION = """
create table new_vectors (chunk integer primary key, document integer not null, vector blob not null);
create virtual table chunk_words using fts5 (
    title, body, content = 'chunks', content_rowid = 'id', tokenize = "unicode61 remove_diacritics 2");
insert into chunk_words (rowid, title, body) select id, title, body from chunks;
create virtual table chunk_vocabulary using fts5vocab (chunk_words, 'row');
insert into facts values ('chunks', 1), ('embeddings', 17);
pragma user_version = 1
"""
"""What makes a file of the first version of one of the second."""
WRITER = """
import asyncio, sys
from pathlib import Path
from goalport.knowledge.rag import SqliteDocumentStore
from tests.rooms.rag.toy_documents import Hashing, document

async def write():
    store = SqliteDocumentStore(Path(sys.argv[1]), embeddings=Hashing())
    version = 0
    while True:
        version += 1
        for number in range(3):
            parts = {f"part {part}": f"version{version} " * 20 for part in range(10)}
            made = document(f"{number}.md", parts, size=1_000)
            await store.put(*made, content_hash=str(version))
        print(version, flush=True)

asyncio.run(write())
"""


def test_a_killed_program_leaves_whole_documents(tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    root = Path(__file__).parents[3]
    for versions in (2, 5):
        with subprocess.Popen(
            [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, cwd=root, env=os.environ
        ) as child:
            assert child.stdout is not None
            for _ in range(versions):
                assert child.stdout.readline()
            child.kill()
        asyncio.run(check(path))


async def check(path: Path) -> None:
    async with SqliteDocumentStore(path) as store:
        known = await store.documents()
        assert [each.root.uri for each in known] == ["0.md", "1.md", "2.md"]
        for each in known:
            request = TextSimilaritySearchRequest(query=f"version{each.content_hash}", top_k=100)
            found = [one.match for one in await store.text_search(request, Chunk) if one.match.uri == each.root.uri]
            assert len(found) == each.chunks == 10
            assert {word for one in found for word in one.urtext.split()} == {f"version{each.content_hash}"}
        info = await store.info()
        assert info.chunks == info.vectors == 30
    with sqlite3.connect(path) as connection:
        connection.execute("insert into chunk_stems (chunk_stems, rank) values ('integrity-check', 1)")
    connection.close()


async def test_a_file_is_made_with_its_folder_for_its_user_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "documents.sqlite"
    async with SqliteDocumentStore(path) as store:
        await store.put(*document("a", {"": "roses"}))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
    async with SqliteDocumentStore(path) as store:
        assert (await store.info()).documents == 1


async def test_files_that_are_no_index_are_left_alone(tmp_path: Path) -> None:
    text, foreign, newer = (tmp_path / each for each in ("text", "foreign", "newer"))
    text.write_text("This is a text and no database. " * 50)
    with sqlite3.connect(foreign) as connection:
        connection.execute("create table theirs (a)")
    connection.close()
    async with SqliteDocumentStore(newer) as store:
        await store.info()
    with sqlite3.connect(newer) as connection:
        connection.execute("pragma user_version = 99")
    connection.close()
    for path, message in (
        (text, "no SQLite database"),
        (foreign, "another program"),
        (newer, "newer goalport"),
    ):
        async with SqliteDocumentStore(path) as store:
            with pytest.raises(StoreError, match=message):
                await store.info()


async def test_a_file_of_the_first_version_is_searched_and_written_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    async with SqliteDocumentStore(path, embeddings=Hashing()) as store:
        await store.put(*document("a", {"": "roses"}))
    with closing(sqlite3.connect(path)) as connection:
        connection.executescript(FIRST_VERSION)
    async with SqliteDocumentStore(path, embeddings=Hashing()) as store:
        assert [each.match.uri for each in await store.text_search(ROSES, Chunk)] == ["a"]
        await store.put(*document("b", {"": "wild roses"}))
        assert await store.remove("a")
        assert [each.match.uri for each in await store.hybrid_search(ROSES, Chunk)] == ["b"]
    with closing(sqlite3.connect(path)) as connection:
        tables = {name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")}
        assert connection.execute("pragma user_version").fetchone() == (2,)
    assert not {each for each in tables if each.startswith(("chunk_words", "chunk_vocabulary", "new_vectors"))}


async def test_a_file_that_may_only_be_read_is_searched_and_stays_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "data" / "documents.sqlite"
    async with SqliteDocumentStore(path) as store:
        await store.put(*document("a", {"": "roses"}))
    for kept, closed in ((path, 0o400), (path.parent, 0o500)):
        mode = stat.S_IMODE(kept.stat().st_mode)
        kept.chmod(closed)
        try:
            if os.access(kept, os.W_OK):
                pytest.skip("this user may write everything")
            async with SqliteDocumentStore(path) as store:
                assert [each.match.uri for each in await store.text_search(ROSES, Chunk)] == ["a"]
                with pytest.raises(StoreError, match=r"(?i)let this program write"):
                    await store.put(*document("b", {"": "violets"}))
                assert (await store.info()).documents == 1
            assert [each.name for each in path.parent.iterdir()] == [path.name]
        finally:
            kept.chmod(mode)


async def test_a_file_that_may_only_be_read_shows_what_another_program_writes(tmp_path: Path) -> None:
    path = tmp_path / "data" / "documents.sqlite"
    async with SqliteDocumentStore(path) as writer, SqliteDocumentStore(path) as reader:
        await writer.put(*document("a", {"": "roses"}))
        path.parent.chmod(0o500)
        try:
            if os.access(path.parent, os.W_OK):
                pytest.skip("this user may write everything")
            assert (await reader.info()).documents == 1
            await writer.put(*document("b", {"": "violets"}))
            assert (await reader.info()).documents == 2
        finally:
            path.parent.chmod(0o700)


@pytest.mark.skipif(os.name == "nt", reason="there are no such files")
@pytest.mark.skipif(sys.platform == "win32", reason="Windows removes no file that is open")
@pytest.mark.parametrize("embeddings", [None, Hashing()])
async def test_a_file_that_is_removed_and_made_anew_is_the_one_that_is_searched(
    tmp_path: Path, embeddings: Hashing | None
) -> None:
    path = tmp_path / "documents.sqlite"

    async def found(store: SqliteDocumentStore) -> list[str]:
        search = store.vector_search if embeddings else store.text_search
        request = TextSimilaritySearchRequest(query="roses", similarity_threshold=0.1)
        return [each.match.text for each in await search(request, Chunk)]

    async with SqliteDocumentStore(path, embeddings=embeddings) as reader:
        await reader.put(*document("a.md", {"": "Red roses."}))
        assert await found(reader) == ["Red roses."]
        path.unlink()
        assert await found(reader) == []
        for ending in ("", "-wal", "-shm"):
            path.with_name(f"{path.name}{ending}").unlink()
        async with SqliteDocumentStore(path, embeddings=embeddings) as writer:
            await writer.put(*document("b.md", {"": "White roses."}))
            assert await found(reader) == ["White roses."]
            await reader.put(*document("c.md", {"": "Wild roses."}))
            assert sorted(await found(writer)) == ["White roses.", "Wild roses."]


async def test_what_is_no_file_is_left_alone(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/null")):
        async with SqliteDocumentStore(path) as store:
            with pytest.raises(StoreError, match=r"It is no file\. Name a file; if it is not there yet, it is made\."):
                await store.info()


async def test_what_another_program_locks_is_waited_for_and_then_said(tmp_path: Path) -> None:
    path = tmp_path / "documents.sqlite"
    async with SqliteDocumentStore(path, busy_seconds=0.05) as store:
        await store.put(*document("a", {"": "roses"}))
        other = sqlite3.connect(path, isolation_level=None)
        other.execute("begin immediate")
        with pytest.raises(StoreError, match="locked for more than"):
            await store.put(*document("b", {"": "violets"}))
        assert (await store.info()).documents == 1
        other.close()
        await store.put(*document("b", {"": "violets"}))
        assert (await store.info()).documents == 2


async def test_a_closed_store_says_so() -> None:
    store = SqliteDocumentStore()
    await store.close()
    with pytest.raises(StoreError, match="closed"):
        await store.info()


async def test_text_that_utf8_cannot_say_is_stored_without_it() -> None:
    async with SqliteDocumentStore() as store:
        await store.put(*document("a", {"b\ud800": "roses \ud800 \x00 red"}))
        (hit,) = await store.text_search(TextSimilaritySearchRequest(query="red"), Chunk)
        assert hit.match.text == "roses ? \ufffd red"
