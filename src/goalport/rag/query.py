"""The query language: words, +required, -prohibited, "phrases", prefix*, fuzzy~, AND, OR, NOT and parentheses.

`parse` makes a tree of whatever a person or a model wrote. It never fails: what cannot be an operator is a word, and
what is no word is left out. Each store compiles the tree for its database; no part of a query becomes syntax there.
"""

import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

__all__ = [
    "Fuzzy",
    "Group",
    "Leaf",
    "Node",
    "Phrase",
    "Prefix",
    "Word",
    "indexed",
    "leaves",
    "normal",
    "parse",
    "segmented",
    "words_of",
]

_LONGEST: Final = 4_000
"""The number of characters of a query that are read."""
_MOST_LEAVES: Final = 48
"""The number of words and phrases of a query that count."""
_LONGEST_WORD: Final = 100
_SHORTEST_FUZZY, _SHORTEST_WITH_TWO_EDITS = 3, 6
"""How long a word has to be so that one character of it may be wrong, or two."""
_DEEPEST: Final = 8
"""How deep parentheses may be nested; deeper ones do not group."""

_COMMON: Final = (
    "a about an and any are as at be been but by can could did do does for from had has have he her his how i "
    "if in into is it its many me much my no not of on or our s shall she should so some such t than that the "
    "their them then there these they this those to us was we were what when where which who whose why will "
    "with would you your"
)
STOP_WORDS: Final = frozenset(_COMMON.split())
"""English words that mostly say nothing of what is searched for."""


@dataclass(frozen=True, slots=True)
class Word:
    """A word in any of its forms."""

    text: str

    @property
    def is_common(self) -> bool:
        """Whether the word mostly says nothing of what is searched for."""
        return self.text.lower() in STOP_WORDS


@dataclass(frozen=True, slots=True)
class Phrase:
    """Words exactly as they are, one after the other."""

    words: tuple[str, ...]
    slop: int = 0
    """How many other words may stand between them."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """Any word that begins so."""

    text: str


@dataclass(frozen=True, slots=True)
class Fuzzy:
    """Any word that is spelled nearly so."""

    text: str
    edits: int
    """How many characters may be added, left out, replaced or swapped with the next one: 1 or 2."""


Leaf: TypeAlias = Word | Phrase | Prefix | Fuzzy


@dataclass(frozen=True, slots=True)
class Group:
    """Parts of a query. Where nothing is required, at least one of the optional parts has to be there."""

    required: "tuple[Node, ...]" = ()
    optional: "tuple[Node, ...]" = ()
    prohibited: "tuple[Node, ...]" = ()

    @property
    def is_strict(self) -> bool:
        """Whether some part, at any depth, is required or prohibited."""
        nested = any(each.is_strict for each in self.optional if isinstance(each, Group))
        return bool(self.required or self.prohibited) or nested


Node: TypeAlias = Leaf | Group

_Occurrence: TypeAlias = Literal["required", "optional", "prohibited"]
_TOKEN: Final = re.compile(
    r"""
    (?P<phrase>"(?P<inside>[^"]*)(?:"(?:~(?P<slop>\d{1,3})(?!\w))?|$))
  | (?P<open>\() | (?P<close>\))
  | (?P<logic>(?:AND|OR|NOT|&&|\|\|)(?=[\s()"]|$))
  | (?P<sign>[-+!](?=[^\s)]))
  | (?P<term>[^\s"()]+)
    """,
    re.VERBOSE,
)
_SUFFIX: Final = re.compile(r"(?P<star>\*)$|~(?P<edits>\d(?:\.\d+)?)?$|\^\d+(?:\.\d+)?$")
_EMOJI: Final = "\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff"
_EMOJIS: Final = re.compile(f"[{_EMOJI}]")
"""Each is a word here. Databases leave them out, so their indexes have the number of the character instead."""
_WORD: Final = re.compile(rf"[^\W_]+|[{_EMOJI}]")
_MARKS: Final = re.compile("[\u0300-\u036f]")
"""Accents that make no character with the letter before them; those that do, databases leave out."""
_POSSESSIVE: Final = re.compile(r"(?<=\w)['’]s\b")
_IDEOGRAPH: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_IDEOGRAPHS: Final = re.compile(f"[{_IDEOGRAPH}]")
"""Characters of scripts that put no spaces between words; each is a word here."""
_PAIR: Final = 2
_RUNS: Final = re.compile(f"[{_IDEOGRAPH}]+|[^{_IDEOGRAPH}]+")
_SAME: Final = str.maketrans({"ß": "ss", "ẞ": "SS", "ς": "\u03c3"})
"""Letters that capitals do not tell apart: GRÖSSE is Größe. Databases fold the case of all others."""
_QUOTES: Final = str.maketrans("“”„«»", '"""""')


def normal(text: str) -> str:
    """The text in the one form in which texts and queries are compared, however its characters are composed."""
    return text if text.isascii() else _MARKS.sub("", unicodedata.normalize("NFKC", text).translate(_SAME))


def segmented(text: str) -> str:
    """The text with spaces around each Chinese or Japanese character, and with a word for each emoji."""
    if text.isascii():
        return text
    return _EMOJIS.sub(lambda emoji: f" u{ord(emoji[0]):x} ", _IDEOGRAPHS.sub(r" \g<0> ", text))


def indexed(text: str) -> str:
    """A text as it is put into the indexes."""
    return segmented(normal(text))


def parse(query: str) -> Group:
    """The tree of a query. Raises nothing."""
    text = _POSSESSIVE.sub("", normal(query[:_LONGEST]).translate(_QUOTES))
    reader = _Reader()
    for token in _TOKEN.finditer(text):
        reader.read(token)
    return reader.tree()


def leaves(node: Node) -> Iterator[Leaf]:
    """The leaves that a result may have: those that are not prohibited, each once for each time that it is there."""
    if isinstance(node, Group):
        for each in (*node.required, *node.optional):
            yield from leaves(each)
    else:
        yield node


@dataclass(slots=True)
class _Open:
    """A group that is being read."""

    occurrence: _Occurrence = "optional"
    """What the group is in the one around it."""
    parts: list[tuple[_Occurrence, Node]] = field(default_factory=list[tuple[_Occurrence, Node]])
    pending: _Occurrence | None = None
    """What a sign or NOT makes of the next part; None: nothing was said."""
    joined: bool = False
    """Whether the next part follows AND."""

    def add(self, *nodes: Node) -> None:
        """Add parts that were written as one."""
        occurrence: _Occurrence = self.pending or ("required" if self.joined else "optional")
        self.parts.extend((occurrence, node) for node in nodes)
        self.pending, self.joined = None, False

    def join(self) -> None:
        """Require the part before an AND, unless it is prohibited, and the one after it."""
        if self.parts and self.parts[-1][0] == "optional":
            self.parts[-1] = ("required", self.parts[-1][1])
        self.joined = bool(self.parts)

    def group(self) -> Group:
        by: dict[_Occurrence, list[Node]] = {"required": [], "optional": [], "prohibited": []}
        for occurrence, node in self.parts:
            if node not in by[occurrence]:
                by[occurrence].append(node)
        return Group(tuple(by["required"]), tuple(by["optional"]), tuple(by["prohibited"]))


class _Reader:
    """Reads the tokens of a query."""

    def __init__(self) -> None:
        self._stack = [_Open()]
        self._leaves = 0

    def read(self, token: re.Match[str]) -> None:
        here = self._stack[-1]
        match token.lastgroup:
            case "sign":
                here.pending = "required" if token["sign"] == "+" else "prohibited"
            case "logic":
                if token["logic"] == "NOT":
                    here.pending = "prohibited"
                elif token["logic"] in {"AND", "&&"}:
                    here.join()
            case "open":
                if len(self._stack) < _DEEPEST:
                    self._stack.append(_Open(here.pending or ("required" if here.joined else "optional")))
                    here.pending, here.joined = None, False
            case "close":
                self._close()
            case "term":
                parts = _of_term(token["term"], whole=here.pending == "prohibited")
                self._add(*(parts if here.pending else map(_loosened, parts)))
            case _:
                words = tuple(words_of(token["inside"]))
                self._add(*([Phrase(words, min(int(token["slop"] or 0), 50))] if words else []))

    def tree(self) -> Group:
        while len(self._stack) > 1:
            self._close()
        return self._stack[0].group()

    def _close(self) -> None:
        if len(self._stack) > 1:
            closed = self._stack.pop()
            group = closed.group()
            if group != Group():
                around = self._stack[-1]
                around.pending = closed.occurrence
                around.add(group)

    def _add(self, *nodes: Leaf | Group) -> None:
        kept: list[Node] = []
        for node in nodes:
            room = _MOST_LEAVES - self._leaves
            if room > 0:
                kept.append(Group(optional=node.optional[:room]) if isinstance(node, Group) else node)
                self._leaves += len(list(leaves(kept[-1])))
        if kept:
            self._stack[-1].add(*kept)


def words_of(text: str) -> list[str]:
    """The runs of letters and digits in a text, of a longer one the first hundred; and its emojis."""
    return [each[:_LONGEST_WORD] for each in _WORD.findall(text)]


def _of_term(written: str, *, whole: bool) -> list[Leaf]:
    """What was written without a space: its words, of which the last one may be a prefix or fuzzy.

    `whole`: several words are one phrase, so that `-semi-detached` does not prohibit "semi".
    """
    suffix = _SUFFIX.search(written)
    words = words_of(written[: suffix.start()] if suffix else written)
    if not words:
        return []
    last: Leaf = Word(words[-1])
    if suffix and suffix["star"]:
        last = Prefix(words[-1])
    elif suffix and suffix[0].startswith("~") and len(words[-1]) >= _SHORTEST_FUZZY:
        edits = 1 if suffix["edits"] == "1" or len(words[-1]) < _SHORTEST_WITH_TWO_EDITS else 2
        last = Fuzzy(words[-1], edits)
    elif whole and len(words) > 1:
        return [Phrase(tuple(words))]
    return [*map(Word, words[:-1]), last]


def _loosened(part: Leaf) -> Leaf | Group:
    """A part; of a script without spaces, whose words may be whole questions, any two characters in a row count too."""
    if not isinstance(part, Word) or part.text.isascii():
        return part
    pairs: list[str] = []
    for run in _RUNS.findall(part.text):
        is_long = len(run) > _PAIR and _IDEOGRAPHS.match(run)
        pairs.extend([run[at : at + _PAIR] for at in range(len(run) - 1)] if is_long else [run])
    words = dict.fromkeys([part.text, *pairs])
    return Group(optional=tuple(map(Word, words))) if len(words) > 1 else part
