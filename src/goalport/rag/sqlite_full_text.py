"""A query as SQLite's full-text search FTS5 reads it: expressions, their weights, and conditions on what is found.

There are two indexes. `chunk_stems` has the stems of words, and is searched for words in any of their forms;
`chunk_words` has them as they are, for phrases, prefixes and words that are spelled nearly so. Only letters and digits
within quotation marks get into an expression.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

from goalport.rag.conditions import Condition, all_of, of_tree
from goalport.rag.operations import Statement
from goalport.rag.query import Fuzzy, Group, Leaf, Phrase, Prefix, Word, segmented
from goalport.rag.spelling import MOST_LOOKED_AT, beginnings, nearest
from goalport.rag.terms import TITLE_WEIGHT, Term, enough, rarest_of, telling

__all__ = ["FullTextQuery"]

_Index = Literal["chunk_stems", "chunk_words"]


@dataclass(frozen=True, slots=True)
class _Term(Term):
    """A leaf of a query in one of the indexes."""

    index: _Index
    expression: str


@dataclass(frozen=True, slots=True)
class FullTextQuery:
    """The parts of a query that are looked for, and the tree that says which of them have to be there."""

    terms: tuple[_Term, ...]
    strict: Condition | None
    """What has to hold of the id of a chunk besides that it has one of the terms; None: nothing."""
    chunks: int
    """The number of chunks in the database."""
    most: float
    """The most that a chunk can weigh, if it had all terms many times."""

    @classmethod
    def of(cls, tree: Group, connection: sqlite3.Connection, chunks: int) -> "FullTextQuery | None":
        """The query for the state of a database that has so many chunks; None if it can find nothing."""
        wanted = telling(tree)
        if not wanted or not chunks:
            return None
        compiled = _Compiler(connection)
        terms = [compiled.term(each) for each in wanted]
        found = tuple(each for each in terms if each.found)
        strict = compiled.condition(tree) if tree.is_strict else None
        most = sum(each.most(chunks) for each in terms)
        return cls(found, strict, chunks, max(most, 1e-6)) if found else None

    @property
    def rare(self) -> "tuple[_Term, ...]":
        return rarest_of(self.terms)

    @property
    def enough(self) -> float:
        return enough(self.terms, self.rare, self.chunks)

    def weighed(self, *, only: "Sequence[_Term]" = ()) -> Statement:
        """The statement that gives the ids of chunks and their weights; `only`: of those that have one of these."""
        narrow = all_of([_having(each) for each in only], "or") if only else all_of([])
        parts: list[Statement] = []
        for index in ("chunk_stems", "chunk_words"):
            expression = " OR ".join(each.expression for each in self.terms if each.index == index)
            if expression:
                parts.append(_weights(index, 1.0, expression, narrow))
                parts.append(_weights(index, TITLE_WEIGHT, f"{{title}} : ({expression})", narrow))
        every = " union all ".join(each.sql for each in parts)
        values = tuple(value for each in parts for value in each.values)
        return Statement(f"select id, sum(weight) as weight from ({every}) group by id", values)  # noqa: S608 - ours


def _weights(index: str, factor: float, expression: str, narrow: Condition) -> Statement:
    return Statement(
        f"select rowid as id, -bm25({index}) * ? as weight from {index} "  # noqa: S608 - one of two names
        f"where {index} match ? and ({narrow.sql})",
        (factor, expression, *narrow.values),
    )


def _having(term: _Term) -> Condition:
    """Whether a row has a term. The plus keeps SQLite from starting there, where it could not weigh rows any more."""
    sql = f"+rowid in (select rowid from {term.index} where {term.index} match ?)"  # noqa: S608 - one of two names
    return Condition(sql, (term.expression,))


class _Compiler:
    """Makes terms of leaves; for nearly spelled words it looks up which ones there are."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._spellings: dict[Fuzzy, tuple[str, ...]] = {}

    def term(self, leaf: Leaf) -> _Term:
        index, expression = self._written(leaf)
        found = self._count(index, expression)
        spelled = self._spellings.get(leaf, ()) if isinstance(leaf, Fuzzy) else ()
        rarest = min((self._count(index, _quoted(each)) for each in spelled), default=found)
        return _Term(found, rarest, index, f"({expression})")

    def _count(self, index: _Index, expression: str) -> int:
        statement = f"select count(*) from {index} where {index} match ?"  # noqa: S608 - one of two names
        (found,) = self._connection.execute(statement, (expression,)).fetchone()
        return found

    def condition(self, tree: Group) -> Condition:
        """Whether `chunks.id` is that of a chunk which the query wants."""

        def having(leaf: Leaf) -> Condition:
            index, expression = self._written(leaf)
            sql = f"chunks.id in (select rowid from {index} where {index} match ?)"  # noqa: S608 - one of two names
            return Condition(sql, (expression,))

        return of_tree(tree, having)

    def _written(self, leaf: Leaf) -> tuple[_Index, str]:
        match leaf:
            case Word(text):
                return "chunk_stems", _quoted(text)
            case Phrase(words, 0):
                return "chunk_words", _quoted(" ".join(words))
            case Phrase(words, slop):
                return "chunk_words", f"NEAR({' '.join(map(_quoted, words))}, {slop})"
            case Prefix(text):
                return "chunk_words", f"{_quoted(text)} *"
            case Fuzzy():
                return "chunk_words", " OR ".join(map(_quoted, self._near(leaf)))

    def _near(self, leaf: Fuzzy) -> tuple[str, ...]:
        """The words of the index that are spelled nearly so, the nearest first; the word itself if there are none."""
        found = self._spellings.get(leaf)
        if found is None:
            # SQLite folds case and accents itself; here, only what it would hold under the same first letters.
            wanted = leaf.text.lower()
            found = nearest(leaf, wanted, self._words_like(wanted, leaf.edits))
            self._spellings[leaf] = found
        return found

    def _words_like(self, wanted: str, edits: int) -> Iterator[str]:
        """Words of about the same length that begin with the first letter or, if that is wrong, with the second."""
        for first in beginnings(wanted):
            rows = self._connection.execute(
                "select term from chunk_vocabulary where term >= ? and term < ? "
                "and length(term) between ? and ? limit ?",
                (first, f"{first}\U0010ffff", len(wanted) - edits, len(wanted) + edits, MOST_LOOKED_AT),
            )
            yield from (word for (word,) in rows)


def _quoted(text: str) -> str:
    """A text of letters, digits and spaces as a string of FTS5."""
    return f'"{segmented(text)}"'
