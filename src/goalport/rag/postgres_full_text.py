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
_MOST: Final = 1 + SATURATION
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
class _Part:
    """What makes a chunk heavier: a word in it, a word in its titles, or a phrase."""

    weight: float
    often: Condition
    """How often it is there, as a number from 0 to 2.2: the weight by BM25 in a text of average length."""


@dataclass(frozen=True, slots=True)
class _Term(Term):
    """A leaf of a query."""

    query: str
    """What finds the chunks that have it, or more of them where `within` says which."""
    within: Condition | None
    parts: tuple[_Part, ...]

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
        parts = [each for term in self.terms for each in term.parts]
        columns = ", ".join(f"{each.often.sql} as often{number}" for number, each in enumerate(parts))
        # As in BM25, for texts that are longer or shorter than others.
        weight = " + ".join(
            f"?::float8 * {_MOST} * often{number} / (often{number} + length * ({_MOST} - often{number}))"
            for number in range(len(parts))
        )
        tables = "chunk_words"
        if conditions:
            tables += " join chunks on chunks.id = chunk_words.chunk join documents on documents.id = chunks.document"
        wanted = _any_of(only or self.terms)
        if self.strict is not None:
            conditions = [*conditions, self.strict]
        kept = all_of([wanted, *conditions])
        # Without `offset 0`, PostgreSQL would find each number anew wherever it is used.
        ranked = (
            f"select chunk_words.chunk, {1 - _LENGTH} + {_LENGTH} * chunk_words.size / ?::float8 as length, {columns} "  # noqa: S608 - ours
            f"from {tables} where {kept.sql} offset 0"
        )
        return Statement(
            f"select chunk, {weight} as weight from ({ranked}) as ranked order by weight desc, chunk limit ?",  # noqa: S608 - ours
            (
                *(each.weight for each in parts),
                self.vocabulary.average,
                *(value for each in parts for value in each.often.values),
                *kept.values,
                most,
            ),
        )


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
            return _Term(found, found, query, None, _counted(query, found, titles, known))
        case Fuzzy():
            return _of_words(known.spelled.get(leaf, folded(leaf.text)), known)


def _of_words(words: Sequence[str], known: Vocabulary) -> _Term:
    """A term that is found with any of these words."""
    counts = {each: known.found.get(each, (0, 0)) for each in words}
    parts = tuple(part for word in words if counts[word][0] for part in _counted(f"'{word}'", *counts[word], known))
    found = min(sum(chunks for chunks, _ in counts.values()), known.chunks)
    rarest = min((chunks for chunks, _ in counts.values() if chunks), default=0)
    return _Term(found, rarest, " | ".join(f"'{each}'" for each in words), None, parts)


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
    return _Term(found, found, query, None, _whole(query, found, known))


def _of_near(words: Sequence[str], slop: int, known: Vocabulary) -> _Term:
    """A term that is found with these words in any order, and so many others between them at most."""
    every = list(dict.fromkeys(words))
    found = min(known.found.get(each, (0, 0))[0] for each in every)
    query = " & ".join(f"'{each}'" for each in every)
    within = Condition(_NEAR, (every, every, len(every) - 1 + slop, len(every)))
    return _Term(found, found, query, within, _whole(query, found, known))


def _counted(query: str, found: int, titles: int, known: Vocabulary) -> tuple[_Part, ...]:
    """What weighs more the more often a word is there, in all and in titles."""
    anywhere = _Part(rarity(found, known.chunks), Condition(_OFTEN.format(counted="{1, 1, 1, 1}"), (query,)))
    if not titles:
        return (anywhere,)
    in_titles = Condition(_OFTEN.format(counted="{0, 0, 0, 1}"), (query,))
    return anywhere, _Part(TITLE_WEIGHT * rarity(titles, known.chunks), in_titles)


def _whole(query: str, found: int, known: Vocabulary) -> tuple[_Part, ...]:
    """What weighs as much as a word that is there once."""
    there = Condition("(chunk_words.words @@ ?::text::tsquery)::integer", (query,))
    return (_Part(rarity(found, known.chunks), there),)


def _nothing() -> _Term:
    return _Term(0, 0, "'='", None, ())


_OFTEN: Final = (
    "least(greatest(2.88 * ts_rank('{counted}', chunk_words.words, ?::text::tsquery) - 0.75, 0), 2.1)::float8"
)
"""`ts_rank` gives a word that is there once 0.61, twice 0.76, and 1 at most. This makes of it 1, 1.4 and 2.1: nearly
what BM25 gives, in a text of average length. Of a prefix it adds up the words, so it can be more."""
_NEAR: Final = """
exists (
    select from unnest(chunk_words.words) as one, unnest(one.positions) as start
    where one.lexeme = any(?::text[]) and (
        select count(distinct other.lexeme) from unnest(chunk_words.words) as other, unnest(other.positions) as place
        where other.lexeme = any(?::text[]) and place between start and start + ?::integer
    ) = ?::integer
)
"""
