"""The vectors of an index in memory: one matrix, searched exactly. They are kept in step with the database.

Below: numpy. Above: `sqlite_store`, which loads them when they are first searched.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any, Final, Literal

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Allowed", "VectorTable"]

_AT_ONCE: Final = 10_000
"""How many vectors are read from the database in one piece."""
_ROOM: Final = 1.1
"""How much larger the matrix is made than it has to be, so that not each new document copies it."""
_MOST_GONE: Final = 0.2
"""The share of rows of removed documents with which the matrix is made anew."""


@dataclass(frozen=True, slots=True)
class Allowed:
    """Which chunks may be found: those with these ids, or those of the documents with these ids."""

    by: Literal["chunk", "document"]
    ids: Sequence[int]


class VectorTable:
    """The vectors that a database has. A chunk's vector stays as it is; a document that changes has new chunks.

    Its methods are called in threads, one at a time.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._seen: tuple[int, int] = (-1, -1)
        """How often the database had been written when it was last read, and how often vectors had been replaced."""
        self._rows = 0
        self._chunks: NDArray[np.int64] | None = None
        """The id of the chunk of each row; 0 for a row whose document was removed."""
        self._documents: NDArray[np.int64] | None = None
        self._matrix: NDArray[np.float32] | None = None

    def nearest(
        self, connection: sqlite3.Connection, vector: "NDArray[np.float32]", most: int, allowed: Allowed | None
    ) -> list[tuple[int, float]]:
        """The ids of the nearest chunks, of those that are allowed (None: of all), with their cosines, best first."""
        import numpy as np

        with self._lock:
            self._refresh(connection, len(vector))
            rows = slice(self._rows)
            chunks, scores = self._of(self._chunks)[rows], self._of(self._matrix)[rows] @ vector
            kept = chunks > 0
            if allowed is not None:
                ids = chunks if allowed.by == "chunk" else self._of(self._documents)[rows]
                kept &= np.isin(ids, np.asarray(allowed.ids, np.int64))
            scores, chunks = scores[kept], chunks[kept]
        if most < len(scores):
            best = np.argpartition(-scores, most - 1)[:most]
            scores, chunks = scores[best], chunks[best]
        order = np.lexsort((chunks, -scores))
        return [(int(chunks[each]), float(scores[each])) for each in order]

    def _refresh(self, connection: sqlite3.Connection, dimensions: int) -> None:
        """Mark the rows of documents that are gone, and load the vectors that are new."""
        import numpy as np

        facts = dict(connection.execute("select name, value from facts where name in ('changes', 'embeddings')"))
        changes, replaced = facts["changes"], facts["embeddings"]
        if self._seen == (changes, replaced):
            return
        if self._seen[1] != replaced or self._matrix is None:
            self._rows = 0
            self._chunks, self._documents = np.empty(0, np.int64), np.empty(0, np.int64)
            self._matrix = np.empty((0, dimensions), np.float32)
        present = np.fromiter((each for (each,) in connection.execute("select id from documents")), np.int64)
        gone = ~np.isin(self._of(self._documents)[: self._rows], present)
        last = int(self._of(self._chunks)[: self._rows].max(initial=0))
        self._of(self._chunks)[: self._rows][gone] = 0
        if gone.sum() > _MOST_GONE * self._rows:
            self._resize(np.flatnonzero(~gone), 0)
        self._load(connection, last)
        self._seen = changes, replaced

    def _load(self, connection: sqlite3.Connection, after: int) -> None:
        """Add the vectors of the chunks with larger ids."""
        import numpy as np

        (count,) = connection.execute("select count(*) from vectors where chunk > ?", (after,)).fetchone()
        if self._rows + count > len(self._of(self._chunks)):
            self._resize(np.arange(self._rows), count)
        rows = connection.execute(
            "select chunk, document, vector from vectors where chunk > ? order by chunk", (after,)
        )
        while part := rows.fetchmany(_AT_ONCE):
            place = slice(self._rows, self._rows + len(part))
            self._of(self._chunks)[place] = [chunk for chunk, _, _ in part]
            self._of(self._documents)[place] = [document for _, document, _ in part]
            matrix = self._of(self._matrix)
            read = np.frombuffer(b"".join(vector for _, _, vector in part), np.float32)
            matrix[place] = read.reshape(len(part), matrix.shape[1])
            self._rows = place.stop

    def _resize(self, kept: "NDArray[np.intp]", added: int) -> None:
        """Make the arrays anew, of the rows that are kept and with room for those that are added."""
        import numpy as np

        room = int((len(kept) + added) * (_ROOM if len(kept) else 1))
        for name in ("_chunks", "_documents", "_matrix"):
            old = self._of(getattr(self, name))
            new = np.empty((room, *old.shape[1:]), old.dtype)
            new[: len(kept)] = old[kept] if len(kept) != self._rows else old[: self._rows]
            setattr(self, name, new)
        self._rows = len(kept)

    @staticmethod
    def _of(array: "NDArray[Any] | None") -> "NDArray[Any]":
        assert array is not None
        return array
