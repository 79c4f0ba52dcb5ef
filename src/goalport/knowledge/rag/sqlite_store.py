"""The store of documents in a SQLite file or in memory: FTS5 searches words, and numpy compares vectors exactly.

An index can be rebuilt from the documents, so a commit does not wait for the disk. Committed documents survive a crash
of the program. After a crash of the machine the last ones may be missing, but none is incomplete. All that blocks runs
in one thread with one connection; other programs may read and write the file at the same time.
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, cast
from weakref import finalize

from goalport.base.errors import StoreError
from goalport.knowledge.rag.database import (
    JOINED,
    MOST_COUNTED,
    OPERATORS,
    SAME_ID,
    TABLES,
    Comparison,
    Condition,
    Operation,
    Scored,
    Statement,
    all_of,
    plain,
    selected,
)
from goalport.knowledge.rag.index import DocumentIndex
from goalport.knowledge.rag.query import Group, Syntax, Term, indexed
from goalport.knowledge.rag.search import Containing
from goalport.models.llm import EmbeddingService
from goalport.store.sqlite_file import connected, identity, in_words, unchanging, writable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

_VERSION: Final = 2
_APPLICATION: Final = 0x67707278
"""The `application_id` in the header of the file: it is an index of goalport."""
_TABLES: Final = (
    TABLES.format(id="integer primary key autoincrement", exact="", json="text")
    + """;
create table vectors (chunk integer primary key, document integer not null, vector blob not null);
create virtual table chunk_stems using fts5 (
    title, body, content = 'chunks', content_rowid = 'id', tokenize = "porter unicode61 remove_diacritics 2");
insert into facts values ('changes', 0)
"""
)
"""In `facts`, `changes` counts the transactions that write."""
_DROP_OLD_TABLES: Final = """
drop table if exists chunk_vocabulary;
drop table if exists chunk_words;
drop table if exists new_vectors
"""
"""Drops the tables that only the first version had: for phrases, for spellings, and for new vectors."""
_BLOCK_SIZE: Final = 384 * 1_024
"""How many numbers are multiplied at once: with more, BLAS starts threads that wait for each other."""
_WORDS: Final = {
    sqlite3.SQLITE_CONSTRAINT: SAME_ID,
    sqlite3.SQLITE_CORRUPT: ("It is damaged: {error}.", "Remove the file, and ingest the documents again."),
}


def _expression(term: Term) -> str:
    """A term in the syntax of FTS5. Only letters, digits and spaces can be inside the quotation marks."""
    words = '" OR "'.join(indexed(each) for each in (" ".join(term.words), *term.spellings))
    return f'("{words}"{" *" if term.prefix else ""})'


_SYNTAX: Final = Syntax(every=" AND ", either=" OR ", but_not=" NOT ", term=_expression)


class SqliteDocumentStore(DocumentIndex):
    """Documents in a SQLite file, which other programs of this machine may read and write too, or in memory.

    With `embeddings`, the chunks of each document get vectors when it is stored, and can be searched by meaning. The
    store records which model made its vectors. If `embeddings` is another one, `on_other_model` decides: `refuse`
    raises an error; `text` logs a warning, and only words are searched and stored. `reembed` makes all vectors again. A
    regular expression fails after `regex_seconds`, and an operation on a file that another program has locked after
    `busy_seconds`. The file is opened at first use; `close`, or `async with`, ends what is under way.
    """

    def __init__(
        self,
        path: Path | None = None,
        *,
        embeddings: EmbeddingService | None = None,
        on_other_model: Literal["refuse", "text"] = "refuse",
        regex_seconds: float = 5.0,
        busy_seconds: float = 5.0,
    ) -> None:
        super().__init__(SqliteIndex(path, busy_seconds), embeddings, on_other_model, regex_seconds)


class SqliteIndex:
    """An index in a file, which is created at first use, or in memory."""

    vector_place, vector_column = "?", "vectors.vector"

    def __init__(self, path: Path | None, busy_seconds: float) -> None:
        self._path = None if path is None else path.absolute()
        self._busy_seconds = busy_seconds
        self._thread = ThreadPoolExecutor(1, "goalport-index")
        self._closed = False
        self._connection: sqlite3.Connection | None = None
        self._shut: Callable[[], object] = lambda: None
        """Closes the connection, once."""
        self._file: tuple[int, int] | None = None
        """The identity of the open file; by now, the path may lead to another file."""
        self._vectors: tuple[object, NDArray[np.int64], NDArray[np.float32]] | None = None
        """A cache: the file and its number of changes, the ids of all chunks with a vector, and the vectors."""

    @property
    def is_there(self) -> bool:
        return self._path is None or self._path.exists()

    def error(self, problem: str, fix: str, /) -> StoreError:
        return StoreError("in memory" if self._path is None else str(self._path), problem, fix)

    # Words and vectors.

    def comparison(self, wanted: Comparison | Containing, /) -> Condition:
        path, value = f'$."{wanted.key}"', wanted.value
        if isinstance(wanted, Containing):
            return Condition(
                "case json_type(chunks.metadata, ?) when 'text' then instr(json_extract(chunks.metadata, ?), ?) > 0 "
                "when 'array' then exists (select 1 from json_each(chunks.metadata, ?) where value = ?) else 0 end",
                (path, path, value, path, value),
            )
        # SQLite orders any number before any text, so the kinds are compared too.
        kinds = "('text')" if isinstance(value, str) else "('integer', 'real', 'true', 'false')"
        compared = f"json_extract(chunks.metadata, ?) {OPERATORS[type(wanted)]} ?"
        return Condition(f"coalesce(json_type(chunks.metadata, ?), '') in {kinds} and {compared}", (path, path, value))

    def add(self, document: int, /) -> Operation[None]:
        added = "select id, title, body from chunks where document = ?"
        yield f"insert into chunk_stems (rowid, title, body) {added}", (document,)

    def remove(self, document: int, /) -> Operation[None]:
        removed = "select 'delete', id, title, body from chunks where document = ?"
        yield f"insert into chunk_stems (chunk_stems, rowid, title, body) {removed}", (document,)
        yield "delete from vectors where chunk in (select id from chunks where document = ?)", (document,)

    def count_statement(self, term: Term, /) -> Statement:
        within = f"select 1 from chunk_stems where chunk_stems match ? limit {MOST_COUNTED}"  # noqa: S608 - ours
        return f"select count(*) from ({within})", (_expression(term),)  # noqa: S608 - ours

    def score_statement(
        self, rarities: Mapping[Term, float], within: Group | None, conditions: Sequence[Condition], most: int, /
    ) -> Statement:
        tables, kept = (
            "chunk_stems",
            [Condition("chunk_stems match ?", (Group(optional=(*rarities,)).expression(_SYNTAX),))],
        )
        if within is not None:  # the plus keeps SQLite from looking rows up by this, where bm25() does not work
            sql = "+chunk_stems.rowid in (select rowid from chunk_stems where chunk_stems match ?)"
            kept.append(Condition(sql, (within.expression(_SYNTAX),)))
        if conditions:
            tables += " cross join chunks on chunks.id = chunk_stems.rowid"
            tables += " cross join documents on documents.id = chunks.document"
        columns, ending = "chunk_stems.rowid as id, -bm25(chunk_stems) as weight", "order by weight desc, id limit"
        return selected(columns, tables, all_of([*kept, *conditions]), f"{ending} {int(most)}")

    def nearest(
        self, vector: "NDArray[np.float32]", conditions: Sequence[Condition], most: int, /
    ) -> Operation[list[Scored]]:
        """Compare all vectors. They are cached until the file changes."""
        import numpy as np

        ((changes,),) = yield "select value from facts where name = 'changes'", ()
        if self._vectors is None or self._vectors[0] != (self._file, changes):
            read, parts = [0], [np.empty((0, len(vector)), np.float32)]
            page = "select chunk, vector from vectors where chunk > ? order by chunk limit 5000"
            while rows := (yield page, (read[-1],)):
                read += [row[0] for row in rows]
                parts.append(np.frombuffer(b"".join(row[1] for row in rows), np.float32).reshape(len(rows), -1))
            all_vectors = np.concatenate(parts, dtype=np.float32)
            self._vectors = (self._file, changes), np.array(read[1:], np.int64), all_vectors
        _, ids, matrix = self._vectors
        size = max(_BLOCK_SIZE // len(vector), 1)
        scores = np.empty(len(ids), np.float32)
        for start in range(0, len(ids), size):
            np.matmul(matrix[start : start + size], vector, out=scores[start : start + size])
        if conditions:
            rows = yield selected("chunks.id", JOINED, all_of(conditions))
            left = np.isin(ids, [row[0] for row in rows])
            ids, scores = ids[left], scores[left]
        best = np.argpartition(-scores, most)[:most] if most < len(scores) else np.arange(len(scores))
        order = best[np.lexsort((ids[best], -scores[best]))]
        return [(int(ids[each]), float(scores[each])) for each in order]

    # The file.

    async def read(self, begin: Callable[[], Operation[T]], /) -> T:
        return await self._in_thread(lambda connection: _performed(connection, begin()))

    async def write(self, begin: Callable[[], Operation[T]], /) -> T:
        return await self._in_thread(lambda connection: _performed(connection, begin(), writing=True))

    async def trim(self) -> None:
        if self._path is not None:
            await self._in_thread(lambda connection: connection.execute("pragma wal_checkpoint(truncate)").fetchall())

    async def why_no_vectors(self) -> None:
        """Nothing is lacking: numpy compares the vectors."""

    async def close(self) -> None:
        self._closed = True
        await asyncio.to_thread(self._thread.shutdown)
        self._shut()

    async def _in_thread(self, work: Callable[[sqlite3.Connection], T]) -> T:
        def run() -> T:
            with in_words(self.error, self._busy_seconds, _WORDS):
                return work(self._opened())

        if self._closed:
            raise self.error("It is closed.", "Open another one.")
        return await asyncio.get_running_loop().run_in_executor(self._thread, run)

    def _opened(self) -> sqlite3.Connection:
        """The connection to the file that is now at the path. A read-only file is opened again each time."""
        path = self._path
        if path is None:
            return self._connection or self._kept(self._prepared(":memory:"))
        if self._connection is not None and self._file is not None and self._file == identity(path, self.error):
            return self._connection
        self._shut()
        self._file = None
        is_there = identity(path, self.error) is not None
        if is_there and path.stat().st_size and not (writable(path) and writable(path.parent)):
            mode = "mode=ro&immutable=1" if unchanging(path) else "mode=ro"
            connection, self._file = self._kept(connected(f"{path.as_uri()}?{mode}", self._busy_seconds)), None
            self._version(connection)
        else:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
            connection, self._file = self._kept(self._prepared(path.as_uri())), identity(path, self.error)
        return connection

    def _kept(self, connection: sqlite3.Connection) -> sqlite3.Connection:
        # A store is often a variable of a module, or of a test, and nobody closes it. A weak reference tells of its end
        # also where it is in a cycle, whose parts Python finalizes in any order.
        self._connection, self._shut = connection, finalize(self, connection.close)
        return connection

    def _prepared(self, uri: str) -> sqlite3.Connection:
        """A connection to a database with the tables of this version. Raises what `_version` raises."""
        connection = connected(uri, self._busy_seconds)
        with ExitStack() as failed:
            failed.callback(connection.close)
            for each in ("journal_mode = wal", "synchronous = normal", "secure_delete = fast"):
                connection.execute(f"pragma {each}")
            connection.execute("begin immediate")
            if (version := self._version(connection)) < _VERSION:
                for statement in (_DROP_OLD_TABLES if version else _TABLES).strip().split(";\n"):
                    connection.execute(statement)
                connection.execute(f"pragma application_id = {_APPLICATION}")
                connection.execute(f"pragma user_version = {_VERSION}")
            connection.execute("commit")
            failed.pop_all()
        return connection

    def _version(self, connection: sqlite3.Connection) -> int:
        """The version of the tables; 0: there are none. Raises `StoreError` if another program or version made them."""
        (version,) = connection.execute("pragma user_version").fetchone()
        (application,) = connection.execute("pragma application_id").fetchone()
        (tables,) = connection.execute("select count(*) from sqlite_master").fetchone()
        if tables and application != _APPLICATION:
            raise self.error("It is a database of another program.", "Name another file.")
        if version > _VERSION:
            raise self.error(
                f"A newer goalport made it (version {version}, and this one knows {_VERSION} at most).",
                "Install that goalport again, or name another file and ingest the documents into it.",
            )
        return version if tables else 0


def _performed(connection: sqlite3.Connection, operation: Operation[T], *, writing: bool = False) -> T:
    """Run an operation in a transaction, and return its result."""
    connection.execute("begin immediate" if writing else "begin")
    rows = cast("Any", None)
    try:
        while True:
            try:
                sql, values = operation.send(rows)
            except StopIteration as end:
                if writing:
                    connection.execute("update facts set value = value + 1 where name = 'changes'")
                connection.execute("commit")
                return cast("T", end.value)
            if isinstance(values, list):
                connection.executemany(sql, values)
                rows = ()
            else:
                rows = connection.execute(sql, [*map(plain, values)]).fetchall()
    finally:
        if connection.in_transaction:
            connection.execute("rollback")
