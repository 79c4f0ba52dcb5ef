"""The vectors of an index in memory, kept in step with the database, and searched exactly.

In memory each number of a vector is one byte, a fourth of what the database has, so that a search reads a fourth too.
That narrows the search to the few chunks that can be among the nearest; these are compared by the vectors in the
database. Below: numpy. Above: `sqlite_store`; the vectors are loaded when they are first searched.
"""

import json
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Allowed", "VectorTable"]

_AT_ONCE: Final = 1_000
"""How many vectors are read from the database in one piece."""
_BLOCK: Final = 384 * 1_024
"""How many numbers are multiplied at once. So many stay in a processor's cache, and BLAS multiplies them in the calling
thread; with more it starts threads, which wait for each other where the processors are busy."""
_ROUNDING: Final = 1e-5
"""How much sums of single-precision numbers can be off."""
_ROOM: Final = 1.1
"""How much larger the arrays are made than they have to be, so that not each new document copies them."""
_MOST_GONE: Final = 0.2
"""The share of rows of removed documents with which the arrays are made anew."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which chunks may be found: those with these ids, or those of the documents with these ids."""

    by: Literal["chunk", "document"]
    ids: Sequence[int]


@dataclass(slots=True)
class _Rows:
    """A row for each vector, and room for more."""

    chunks: "NDArray[np.int64]"
    """The id of the chunk; 0 for a row whose document was removed."""
    documents: "NDArray[np.int64]"
    codes: "NDArray[np.int8]"
    """The numbers of the vector as multiples of its scale."""
    scales: "NDArray[np.float32]"
    errors: "NDArray[np.float32]"
    """The length of what is lost: of the vector less its multiples."""
    count: int = 0
    """How many rows are in use."""

    @classmethod
    def empty(cls, room: int, dimensions: int) -> "_Rows":
        import numpy as np

        return cls(
            np.empty(room, np.int64),
            np.empty(room, np.int64),
            np.empty((room, dimensions), np.int8),
            np.empty(room, np.float32),
            np.empty(room, np.float32),
        )

    @property
    def arrays(self) -> "tuple[NDArray[Any], ...]":
        return self.chunks, self.documents, self.codes, self.scales, self.errors

    def with_room(self, kept: "NDArray[np.intp]", added: int) -> "_Rows":
        """New rows: those that are kept, and room for those that are added."""
        import numpy as np

        room = int((len(kept) + added) * (_ROOM if len(kept) else 1))
        new = _Rows.empty(room, self.codes.shape[1])
        for mine, theirs in zip(self.arrays, new.arrays, strict=True):
            np.take(mine, kept, axis=0, out=theirs[: len(kept)], mode="clip")  # other modes copy all of it first
        new.count = len(kept)
        return new

    def add(self, chunks: Sequence[int], documents: Sequence[int], vectors: "NDArray[np.float32]") -> None:
        import numpy as np

        largest = np.abs(vectors).max(axis=1)
        scales = np.where(largest > 0, largest / 127, 1).astype(np.float32)[:, np.newaxis]
        codes = np.rint(vectors / scales)
        place = slice(self.count, self.count + len(chunks))
        self.chunks[place], self.documents[place] = chunks, documents
        self.codes[place], self.scales[place] = codes, scales[:, 0]
        self.errors[place] = np.linalg.norm(vectors - codes * scales, axis=1)
        self.count = place.stop

    def products(self, vector: "NDArray[np.float32]") -> "NDArray[np.float32]":
        """The product of each row in use and a vector, but for what is lost."""
        import numpy as np

        size = max(_BLOCK // len(vector), 1)
        block, found = np.empty((size, len(vector)), np.float32), np.empty(self.count, np.float32)
        for start in range(0, self.count, size):
            part = found[start : start + size]
            numbers = block[: len(part)]
            np.copyto(numbers, self.codes[start : start + len(part)])
            np.matmul(numbers, vector, out=part)
        return found * self.scales[: self.count]


class VectorTable:
    """The vectors that a database has. A chunk's vector stays as it is; a document that changes has new chunks.

    Its methods are called in threads, one at a time.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: tuple[int, int] = (-1, -1)
        """How often the database had been written when it was last read, and how often vectors had been replaced."""
        self._rows: _Rows | None = None

    def nearest(
        self, connection: sqlite3.Connection, vector: "NDArray[np.float32]", most: int, allowed: Allowed | None
    ) -> list[tuple[int, float]]:
        """The ids of the nearest chunks, of those that are allowed (None: of all), with their cosines, best first."""
        import numpy as np

        with self._lock:
            chunks = _candidates(self._refreshed(connection, len(vector)), vector, most, allowed)
        scores = np.empty(len(chunks), np.float32)
        for place, vectors in _read(connection, chunks):
            scores[place] = vectors @ vector
        order = np.lexsort((chunks, -scores))[:most]
        return [(int(chunks[each]), float(scores[each])) for each in order]

    def _refreshed(self, connection: sqlite3.Connection, dimensions: int) -> _Rows:
        """The rows without those of documents that are gone, and with the vectors that are new."""
        facts = dict(connection.execute("select name, value from facts where name in ('changes', 'embeddings')"))
        now, rows = (facts["changes"], facts["embeddings"]), self._rows
        if rows is None or self._seen[1] != now[1]:
            rows = _with_new(connection, _Rows.empty(0, dimensions))
        elif self._seen != now:
            rows = _with_new(connection, _without_gone(connection, rows))
        self._rows, self._seen = rows, now
        return rows


def _without_gone(connection: sqlite3.Connection, rows: _Rows) -> _Rows:
    """The rows of documents that are there: the others are marked, or left out if they have become many."""
    import numpy as np

    present = np.fromiter((each for (each,) in connection.execute("select id from documents")), np.int64)
    gone = ~np.isin(rows.documents[: rows.count], present)
    rows.chunks[: rows.count][gone] = 0
    return rows.with_room(np.flatnonzero(~gone), 0) if gone.sum() > _MOST_GONE * rows.count else rows


def _with_new(connection: sqlite3.Connection, rows: _Rows) -> _Rows:
    """The rows, with those of the chunks that have larger ids."""
    import numpy as np

    last = int(rows.chunks[: rows.count].max(initial=0))
    (added,) = connection.execute("select count(*) from vectors where chunk > ?", (last,)).fetchone()
    if rows.count + added > len(rows.chunks):
        rows = rows.with_room(np.arange(rows.count), added)
    found = connection.execute("select chunk, document, vector from vectors where chunk > ? order by chunk", (last,))
    while part := found.fetchmany(_AT_ONCE):
        chunks, documents, vectors = zip(*part, strict=True)
        rows.add(chunks, documents, _matrix(vectors))
    return rows


def _candidates(rows: _Rows, vector: "NDArray[np.float32]", most: int, allowed: Allowed | None) -> "NDArray[np.int64]":
    """The ids of chunks among which the nearest surely are, in their order."""
    import numpy as np

    chunks = rows.chunks[: rows.count]
    kept = chunks > 0
    if allowed is not None:
        ids = chunks if allowed.by == "chunk" else rows.documents[: rows.count]
        kept &= np.isin(ids, np.asarray(allowed.ids, np.int64))
    chunks = chunks[kept]
    if most >= len(chunks):
        return chunks
    scores = rows.products(vector)[kept]
    lost = rows.errors[: rows.count][kept] * np.linalg.norm(vector) + _ROUNDING
    enough = np.partition(scores - lost, -most)[-most]
    return chunks[scores + lost >= enough]


def _read(connection: sqlite3.Connection, chunks: "NDArray[np.int64]") -> "Iterator[tuple[slice, NDArray[np.float32]]]":
    """The vectors of chunks, whose ids ascend, with their places among these."""
    for start in range(0, len(chunks), _AT_ONCE):
        part = chunks[start : start + _AT_ONCE].tolist()
        found = connection.execute(
            "select vector from vectors where chunk in (select value from json_each(?)) order by chunk",
            (json.dumps(part),),
        )
        yield slice(start, start + len(part)), _matrix([vector for (vector,) in found])


def _matrix(vectors: Sequence[bytes]) -> "NDArray[np.float32]":
    import numpy as np

    return np.frombuffer(b"".join(vectors), np.float32).reshape(len(vectors), -1)
