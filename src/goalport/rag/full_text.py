"""A query as SQLite's full-text search FTS5 reads it: expressions, their weights, and conditions on what is found.

There are two indexes. `chunk_stems` has the stems of words, and is searched for words in any of their forms;
`chunk_words` has them as they are, for phrases, prefixes and words that are spelled nearly so. Only letters and digits
within quotation marks get into an expression.
"""

import math
import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from goalport.rag.conditions import Condition, all_of
from goalport.rag.query import Fuzzy, Group, Leaf, Node, Phrase, Prefix, Word, leaves, normal, segmented

__all__ = ["FullTextQuery", "indexed"]

_TITLE_WEIGHT: Final = 0.5
"""How much words in the titles above a text add to their weight in the text. It is weighed apart, by how rare a word is
in titles: added to the words of the text, titles would hardly count in a text that has the words anyway."""
_SATURATION: Final = 1.2
"""The parameter k1 of BM25 in FTS5: how soon more of the same word counts no more."""
_CANDIDATES: Final = 2_000
"""How many chunks with the rarest words of a query are weighed, before those are looked at that have none of them."""
_LIKELY: Final = 0.6
"""The share of the most that it could add which a word hardly exceeds, unless it is there again and again."""
_MOST_SPELLINGS: Final = 20
_MOST_LOOKED_AT: Final = 200_000
"""How many words of an index are compared with one that may be spelled wrongly."""

_Index = Literal["chunk_stems", "chunk_words"]


def indexed(text: str) -> str:
    """A text as it is put into the indexes."""
    return segmented(normal(text))


@dataclass(frozen=True, slots=True)
class _Term:
    """A leaf of a query in one of the indexes."""

    index: _Index
    expression: str
    found: int
    """The number of chunks that have it."""
    rarest: int
    """The number of chunks that have the rarest of its spellings."""

    def most(self, chunks: int) -> float:
        """The most that it can add to the weight of a chunk, but for titles."""
        rarity = math.log((chunks - self.rarest + 0.5) / (self.rarest + 0.5)) if 2 * self.rarest < chunks else 1e-6
        return rarity * (1 + _SATURATION)


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
        wanted = _telling(tree)
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
        """The rarest term, and the next ones as long as few enough chunks have one of them; none if those are all."""
        kept: list[_Term] = []
        for each in sorted(self.terms, key=lambda each: each.found):
            if kept and sum(one.found for one in kept) + each.found > _CANDIDATES:
                return tuple(kept)
            kept.append(each)
        return ()

    @property
    def enough(self) -> float:
        """The weight that no chunk is likely to have which has none of the rare terms."""
        return _LIKELY * sum(each.most(self.chunks) for each in self.terms if each not in self.rare)

    def weighed(self, *, only: "Sequence[_Term]" = ()) -> Condition:
        """The statement that gives the ids of chunks and their weights; `only`: of those that have one of these."""
        narrow = all_of([_having(each) for each in only], "or") if only else Condition("1")
        parts: list[Condition] = []
        for index in ("chunk_stems", "chunk_words"):
            expression = " OR ".join(each.expression for each in self.terms if each.index == index)
            if expression:
                parts.append(_weights(index, 1.0, expression, narrow))
                parts.append(_weights(index, _TITLE_WEIGHT, f"{{title}} : ({expression})", narrow))
        every = " union all ".join(each.sql for each in parts)
        values = tuple(value for each in parts for value in each.values)
        return Condition(f"select id, sum(weight) as weight from ({every}) group by id", values)  # noqa: S608 - ours


def _weights(index: str, factor: float, expression: str, narrow: Condition) -> Condition:
    return Condition(
        f"select rowid as id, -bm25({index}) * ? as weight from {index} "  # noqa: S608 - one of two names
        f"where {index} match ? and ({narrow.sql})",
        (factor, expression, *narrow.values),
    )


def _telling(tree: Group) -> list[Leaf]:
    """What is looked for: without words that say nothing, unless they are required or there are no others."""
    every = list(dict.fromkeys(leaves(tree)))
    needed = set(_required(tree))
    telling = [each for each in every if not (isinstance(each, Word) and each.is_common) or each in needed]
    return telling or every


def _required(group: Group) -> Iterator[Leaf]:
    for each in (*group.required, *group.optional):
        if isinstance(each, Group):
            yield from _required(each)
        elif each in group.required:
            yield each


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
        return _Term(index, f"({expression})", found, rarest)

    def _count(self, index: _Index, expression: str) -> int:
        statement = f"select count(*) from {index} where {index} match ?"  # noqa: S608 - one of two names
        (found,) = self._connection.execute(statement, (expression,)).fetchone()
        return found

    def condition(self, node: Node) -> Condition:
        """Whether `chunks.id` is that of a chunk which a part of the query wants."""
        if not isinstance(node, Group):
            index, expression = self._written(node)
            sql = f"chunks.id in (select rowid from {index} where {index} match ?)"  # noqa: S608 - one of two names
            return Condition(sql, (expression,))
        conditions = [self.condition(each) for each in node.required]
        if node.optional and not node.required:
            conditions.append(all_of([self.condition(each) for each in node.optional], "or"))
        for each in node.prohibited:
            unwanted = self.condition(each)
            conditions.append(Condition(f"not ({unwanted.sql})", unwanted.values))
        return all_of(conditions)

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
            letters = set(wanted)
            near = sorted(
                (distance, word)
                for word in self._words_like(wanted, leaf.edits)
                if len(letters ^ set(word)) <= 2 * leaf.edits
                and (distance := _edits(wanted, word, leaf.edits)) <= leaf.edits
            )
            found = tuple(word for _, word in near[:_MOST_SPELLINGS]) or (leaf.text,)
            self._spellings[leaf] = found
        return found

    def _words_like(self, wanted: str, edits: int) -> Iterator[str]:
        """Words of about the same length that begin with the first letter or, if that is wrong, with the second."""
        for first in dict.fromkeys(wanted[:2]):
            rows = self._connection.execute(
                "select term from chunk_vocabulary where term >= ? and term < ? "
                "and length(term) between ? and ? limit ?",
                (first, f"{first}\U0010ffff", len(wanted) - edits, len(wanted) + edits, _MOST_LOOKED_AT),
            )
            yield from (word for (word,) in rows)


def _quoted(text: str) -> str:
    """A text of letters, digits and spaces as a string of FTS5."""
    return f'"{segmented(text)}"'


def _edits(one: str, other: str, most: int) -> int:
    """How many characters differ, by optimal string alignment; a number above `most` means more than that."""
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, here in enumerate(one, start=1):
        line = [row]
        for column, there in enumerate(other, start=1):
            cost = min(last[column] + 1, line[-1] + 1, last[column - 1] + (here != there))
            if row > 1 and column > 1 and here == other[column - 2] and one[row - 2] == there:
                cost = min(cost, before[column - 2] + 1)
            line.append(cost)
        if min(line) > most:
            return most + 1
        before, last = last, line
    return last[-1]
