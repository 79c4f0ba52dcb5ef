"""Texts and queries as PostgreSQL's full-text search reads them: vectors of words, queries, and weights of texts.

Words are found here and not by a parser of PostgreSQL, which reads addresses, paths and hyphens each in its own way,
and depends on the locale of the database. A word is there twice: as it is, for phrases, prefixes and words that are
spelled nearly so; and as its stem, which begins with `=`, for words in any of their forms. Only letters and digits get
into a query. Above: `postgres_search`.
"""

import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from goalport.rag.conditions import Condition, all_of, of_tree
from goalport.rag.operations import Statement
from goalport.rag.query import Fuzzy, Group, Leaf, Phrase, Prefix, Word, indexed, words_of
from goalport.rag.terms import SATURATION, TITLE_WEIGHT, Term, enough, rarest_of, rarity, telling

__all__ = ["ChunkWords", "FullTextQuery", "Vocabulary", "folded"]

_GAP: Final = 60
"""The distance of the words of a text from those of the titles above it: more than the words of a phrase can have."""
_LAST: Final = 16_383
"""The last place that PostgreSQL knows; what comes later is found, but not as part of a phrase."""
_MOST_BYTES: Final = 900_000
"""Of what has more different words than this, the first ones are found: a vector of words has a megabyte at most."""
_ONE: Final = 1.644934
"""What makes 1 of the rank of a word that is there once, by `ts_rank`: it is 1 / 1.64 then, and at most 1."""
_LENGTH: Final = 0.75
"""The parameter b of BM25: how much a long text has to have of a word to weigh as much as a short one."""


def folded(text: str) -> list[str]:
    """The words of a text in the form in which they are compared: small letters without accents."""
    lower = text.lower()
    if not lower.isascii():
        parts = unicodedata.normalize("NFD", lower)
        lower = unicodedata.normalize("NFC", "".join(each for each in parts if not "\u0300" <= each <= "\u036f"))
    return words_of(indexed(lower))


@dataclass(frozen=True, slots=True)
class ChunkWords:
    """The words of the titles above a chunk, and of its text."""

    titles: Sequence[str]
    body: Sequence[str]

    @property
    def size(self) -> int:
        return len(self.titles) + len(self.body)

    def vector(self, stems: Mapping[str, str]) -> str:
        """The vector of its words and their stems, as PostgreSQL reads one."""
        places: dict[str, list[str]] = {}
        for place, word in enumerate(self.titles, start=1):
            places.setdefault(word, []).append(f"{min(place, _LAST)}A")
        for place, word in enumerate(self.body, start=len(self.titles) + _GAP):
            places.setdefault(word, []).append(str(min(place, _LAST)))
        room, parts = _MOST_BYTES, list[str]()
        for word, at in places.items():
            part = f"'{word}':{','.join(at)} '={stems.get(word, word)}':{','.join(at)}"
            room -= len(part.encode())
            if room < 0:
                break
            parts.append(part)
        return " ".join(parts)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What is known of the words of a query."""

    chunks: int
    """The number of all chunks."""
    average: float
    """The number of words that a chunk has on average."""
    stems: Mapping[str, str]
    found: Mapping[str, tuple[int, int]]
    """How many chunks have a word or a stem (`=…`), and how many in the titles above them."""
    spelled: Mapping[Fuzzy, Sequence[str]]
    """The words that are spelled nearly as one that is looked for."""
    beginning: Mapping[str, tuple[int, int]]
    """As `found`, for all words that begin so."""


@dataclass(frozen=True, slots=True)
class _Weighed:
    """Something that makes a chunk heavier: a word, or a phrase."""

    query: str
    weight: float
    title_weight: float
    by_number: bool
    """Whether it weighs more the more often it is there."""


@dataclass(frozen=True, slots=True)
class _Term(Term):
    """A leaf of a query."""

    query: str
    """What finds the chunks that have it, or more of them where `within` says which."""
    within: Condition | None
    weighed: tuple[_Weighed, ...]

    @property
    def condition(self) -> Condition:
        """Whether a row of `chunk_words` has it."""
        has = Condition("chunk_words.words @@ ?::text::tsquery", (self.query,))
        return has if self.within is None else all_of([has, self.within])


@dataclass(frozen=True, slots=True)
class FullTextQuery:
    """The parts of a query that are looked for, and the tree that says which of them have to be there."""

    terms: tuple[_Term, ...]
    strict: Condition | None
    """What has to hold of a row of `chunk_words` besides that it has one of the terms; None: nothing."""
    vocabulary: Vocabulary
    most: float
    """The most that a chunk can weigh, if it had all terms many times."""

    @classmethod
    def of(cls, tree: Group, vocabulary: Vocabulary) -> "FullTextQuery | None":
        """The query for a database with these words; None if it can find nothing."""
        terms = [_term(each, vocabulary) for each in telling(tree)]
        found = tuple(each for each in terms if each.found)
        strict = of_tree(tree, lambda leaf: _term(leaf, vocabulary).condition) if tree.is_strict else None
        most = sum(each.most(vocabulary.chunks) for each in terms)
        return cls(found, strict, vocabulary, max(most, 1e-6)) if found else None

    @property
    def rare(self) -> tuple[_Term, ...]:
        return rarest_of(self.terms)

    @property
    def enough(self) -> float:
        return enough(self.terms, self.rare, self.vocabulary.chunks)

    def weighed(self, conditions: Sequence[Condition], most: int, *, only: Sequence[_Term] = ()) -> Statement:
        """The statement that gives the heaviest chunks and their weights, of those for which all conditions hold.

        `only`: of those that have one of these terms.
        """
        sums = [_weight(each) for term in self.terms for each in term.weighed]
        weight = " + ".join(each.sql for each in sums)
        length = f"(1 + {SATURATION} * (1 - {_LENGTH} + {_LENGTH} * chunk_words.size / ?::float8))"
        values = [value for each in sums for value in each.values]
        tables = "chunk_words"
        if conditions:
            tables += " join chunks on chunks.id = chunk_words.chunk join documents on documents.id = chunks.document"
        wanted = _any_of(only or self.terms)
        if self.strict is not None:
            conditions = [*conditions, self.strict]
        kept = all_of([wanted, *conditions])
        return Statement(
            f"select chunk_words.chunk, {1 + SATURATION} * ({weight}) / {length} as weight from {tables} "  # noqa: S608 - ours
            f"where {kept.sql} order by weight desc, chunk_words.chunk limit ?",
            (*values, self.vocabulary.average, *kept.values, most),
        )


def _weight(part: _Weighed) -> Condition:
    """How much a part of a query adds to the weight of a row of `chunk_words`."""
    if not part.by_number:
        return Condition("?::float8 * (chunk_words.words @@ ?::text::tsquery)::integer", (part.weight, part.query))
    sql = "?::float8 * ts_rank('{1, 1, 1, 1}', chunk_words.words, ?::text::tsquery)"
    values: tuple[object, ...] = (part.weight * _ONE, part.query)
    if part.title_weight:
        sql += " + ?::float8 * ts_rank('{0, 0, 0, 1}', chunk_words.words, ?::text::tsquery)"
        values += (part.title_weight * _ONE, part.query)
    return Condition(sql, values)


def _any_of(terms: Sequence[_Term]) -> Condition:
    """Whether a row has one of the terms: one query of the index, but for what a query cannot say."""
    whole = " | ".join(f"({each.query})" for each in terms if each.within is None)
    said = [Condition("chunk_words.words @@ ?::text::tsquery", (whole,))] if whole else []
    return all_of([*said, *(each.condition for each in terms if each.within is not None)], "or")


def _term(leaf: Leaf, known: Vocabulary) -> _Term:
    match leaf:
        case Word(text):
            words = folded(text)
            if len(words) == 1:
                return _of_words([f"={known.stems.get(words[0], words[0])}"], known)
            return _of_phrase(words, known)
        case Phrase(words, slop):
            every = folded(" ".join(words))
            return _of_near(every, slop, known) if slop and every[1:] else _of_phrase(every, known)
        case Prefix(text):
            *before, last = folded(text) or [""]
            if not last:
                return _nothing()
            found, titles = known.beginning.get(last, (0, 0))
            if before:
                return _of_phrase(before, known, last)
            query = f"'{last}':*"
            return _Term(found, found, query, None, (_part(query, found, titles, known),))
        case Fuzzy():
            return _of_words(known.spelled.get(leaf, folded(leaf.text)), known)


def _of_words(words: Sequence[str], known: Vocabulary) -> _Term:
    """A term that is found with any of these words."""
    counts = {each: known.found.get(each, (0, 0)) for each in words}
    weighed = tuple(_part(f"'{word}'", *counts[word], known) for word in words if counts[word][0])
    found = min(sum(chunks for chunks, _ in counts.values()), known.chunks)
    rarest = min((chunks for chunks, _ in counts.values() if chunks), default=0)
    return _Term(found, rarest, " | ".join(f"'{each}'" for each in words), None, weighed)


def _of_phrase(words: Sequence[str], known: Vocabulary, prefix: str = "") -> _Term:
    """A term that is found with these words one after the other, and then one that begins so."""
    counts = [known.found.get(each, (0, 0))[0] for each in words]
    counts += [known.beginning.get(prefix, (0, 0))[0]] if prefix else []
    if not counts:
        return _nothing()
    if len(counts) == 1:
        return _of_words(words, known)
    query = " <-> ".join([*(f"'{each}'" for each in words), *([f"'{prefix}':*"] if prefix else [])])
    # How many chunks have a phrase is not known without looking; they are as many as have its rarest word, at most.
    found = min(counts)
    return _Term(found, found, query, None, (_Weighed(query, rarity(found, known.chunks), 0.0, by_number=False),))


def _of_near(words: Sequence[str], slop: int, known: Vocabulary) -> _Term:
    """A term that is found with these words in any order, and so many others between them at most."""
    every = list(dict.fromkeys(words))
    found = min(known.found.get(each, (0, 0))[0] for each in every)
    query = " & ".join(f"'{each}'" for each in every)
    within = Condition(_NEAR, (every, every, len(every) - 1 + slop, len(every)))
    return _Term(found, found, query, within, (_Weighed(query, rarity(found, known.chunks), 0.0, by_number=False),))


def _part(query: str, found: int, titles: int, known: Vocabulary) -> _Weighed:
    title_weight = TITLE_WEIGHT * rarity(titles, known.chunks) if titles else 0.0
    return _Weighed(query, rarity(found, known.chunks), title_weight, by_number=True)


def _nothing() -> _Term:
    return _Term(0, 0, "'='", None, ())


_NEAR: Final = """
exists (
    select from unnest(chunk_words.words) as one, unnest(one.positions) as start
    where one.lexeme = any(?::text[]) and (
        select count(distinct other.lexeme) from unnest(chunk_words.words) as other, unnest(other.positions) as place
        where other.lexeme = any(?::text[]) and place between start and start + ?::integer
    ) = ?::integer
)
"""
