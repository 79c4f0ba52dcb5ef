"""The query language: words, +required, -prohibited, "phrases", prefix*, AND, OR, NOT and parentheses, as in Lucene.

`parse` turns any text into a tree, and `Group.expression` turns a tree into the query of a database. Parsing never
fails: what cannot be an operator is a word, and only letters and digits get into an expression.
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

_LONGEST, _LONGEST_WORD = 4_000, 100
"""The number of characters of a query, and of each word in it, that are read."""
_MOST_TERMS: Final = 48
"""The number of words and phrases of a query that count."""
_SHORTEST_STEM: Final = 4
_FUZZY: Final = range(3, 21)
"""The lengths of words for which `~` allows one wrong letter."""
_MOST_FUZZY: Final = 4
"""How many such words there may be: each is looked for in hundreds of spellings."""
_DEEPEST: Final = 8
"""How deep parentheses may be nested; deeper ones do not group."""
_COMMON: Final = (
    "a about an and any are as at be been but by can could did do does for from had has have he her his how i if in "
    "into is it its many me much my no not of on or our s shall she should so some such t than that the their them "
    "then there these they this those to us was we were what when where which who whose why will with would you your"
)
STOP_WORDS: Final = frozenset(_COMMON.split())
"""English words that mostly say nothing of what is searched for."""
_TOKEN: Final = re.compile(
    r"""
    "(?P<phrase>[^"]*)(?:"(?P<near>~\d+)?|$)
  | (?P<open>\() | (?P<close>\))
  | (?P<logic>AND|OR|NOT|&&|\|\|)(?=[\s()"]|$)
  | (?P<sign>[-+!])(?=[^\s)])
  | (?P<word>[^\s"()]+?) (?:(?P<prefix>\*) | (?P<fuzzy>~[\d.]*) | \^[\d.]+)? (?=[\s"()]|$)
    """,
    re.VERBOSE,
)
_EMOJI: Final = "\u231a\u231b\u23e9-\u23fa\u2600-\u27bf\u2b05-\u2b55\U0001f000-\U0001faff"
_EMOJIS: Final = re.compile(f"[{_EMOJI}]")
"""Each is a word here. Databases ignore emojis, so the indexes contain their code points instead."""
_WORD: Final = re.compile(rf"[^\W_]+|[{_EMOJI}]")
_IDEOGRAPH: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"
_IDEOGRAPHS: Final = re.compile(f"[{_IDEOGRAPH}]")
"""Characters of scripts that put no spaces between words; each is a word here."""
_RUNS: Final = re.compile(f"[{_IDEOGRAPH}]+|[^{_IDEOGRAPH}]+")
_MARKS: Final = re.compile("[\u0300-\u036f]")
"""Accents that NFKC does not combine with the letter before them; databases ignore the others."""
_SAME: Final = str.maketrans({"ß": "ss", "ẞ": "SS", "ς": "\u03c3"})
"""Letters whose upper case is that of other letters: GRÖSSE is Größe. Databases fold the case of all others."""
_QUOTES: Final = str.maketrans("“”„«»", '"""""')


def normalized(text: str) -> str:
    """The Unicode form (NFKC) in which texts and queries are compared."""
    return text if text.isascii() else _MARKS.sub("", unicodedata.normalize("NFKC", text).translate(_SAME))


def indexed(text: str) -> str:
    """A text as it is put into the indexes: with spaces around ideographs, and with a word for each emoji."""
    if text.isascii():
        return text
    return _EMOJIS.sub(lambda emoji: f" u{ord(emoji[0]):x} ", _IDEOGRAPHS.sub(r" \g<0> ", normalized(text)))


def words_of(text: str) -> list[str]:
    """The words of a text: emojis, and runs of letters and digits, cut to a hundred characters."""
    return [each[:_LONGEST_WORD] for each in _WORD.findall(text)]


@dataclass(frozen=True, slots=True)
class Term:
    """A word, or words that follow each other, each in any grammatical form."""

    words: tuple[str, ...]
    prefix: bool = False
    """Whether the last word is only the beginning of one."""
    spellings: tuple[str, ...] = ()
    """Other words that match too, if there is only one word."""


@dataclass(frozen=True, slots=True)
class Syntax:
    """The operators and terms in the query language of a database."""

    every: str
    either: str
    but_not: str
    term: Callable[[Term], str]


@dataclass(frozen=True, slots=True)
class Group:
    """Parts of a query. If nothing is required, at least one optional part has to occur in a result."""

    required: "tuple[Node, ...]" = ()
    optional: "tuple[Node, ...]" = ()
    prohibited: "tuple[Node, ...]" = ()

    @property
    def is_strict(self) -> bool:
        """Whether some part, at any depth, is required or prohibited."""
        nested = any(each.is_strict for each in self.optional if isinstance(each, Group))
        return bool(self.required or self.prohibited) or nested

    def terms(self, *, needed: bool = False) -> Iterator[Term]:
        """The required and the optional terms. `needed`: only the required ones."""
        for each in self.required if needed else (*self.required, *self.optional):
            yield from each.terms(needed=needed) if isinstance(each, Group) else [each]

    def expression(self, syntax: Syntax) -> str:
        """The group in the query language of a database. Some part has to be required or optional."""

        def of(node: Node) -> str:
            return syntax.term(node) if isinstance(node, Term) else f"({node.expression(syntax)})"

        wanted = (
            syntax.every.join(map(of, self.required)) if self.required else syntax.either.join(map(of, self.optional))
        )
        without = "".join(f"{syntax.but_not}{of(each)}" for each in self.prohibited)
        return f"({wanted}){without}" if without else wanted


Node: TypeAlias = Term | Group


def significant_terms(tree: Group) -> list[Term]:
    """The terms of a query without stop words, unless these are required or there are no other terms."""
    every, needed = list(dict.fromkeys(tree.terms())), set(tree.terms(needed=True))
    common = {each for each in every if not each.words[1:] and not each.prefix and each.words[0].lower() in STOP_WORDS}
    return [each for each in every if each in needed or each not in common] or every


def parse(query: str) -> Group:
    """The tree of a query. Raises nothing."""
    text = re.sub(r"(?<=\w)['’]s\b", "", normalized(query[:_LONGEST]).translate(_QUOTES))
    return _group(list(_TOKEN.finditer(text)), [_MOST_TERMS], 1)


def _group(tokens: list[re.Match[str]], room: list[int], depth: int) -> Group:
    """Parse the tokens up to the closing parenthesis of a group, and remove them from the list."""
    parts: dict[str, list[Node]] = {"required": [], "optional": [], "prohibited": []}
    pending, last, after_and = "", "", False
    while tokens:
        token = tokens.pop(0)
        nodes: Sequence[Node] = ()
        match token.lastgroup:
            case "close" if depth > 1:
                break
            case "sign":
                pending = "required" if token["sign"] == "+" else "prohibited"
            case "logic" if token["logic"] == "NOT":
                pending = "prohibited"
            case "logic":
                after_and = token["logic"] in {"AND", "&&"}
                if after_and and last == "optional":
                    parts["required"].append(parts["optional"].pop())
            case "open" if depth < _DEEPEST:
                inner = _group(tokens, room, depth + 1)
                if inner.required or inner.optional:
                    nodes = [inner]
                else:
                    parts["prohibited"] += inner.prohibited
            case "word" | "phrase" | "near" | "prefix" | "fuzzy":
                nodes = _terms(token, loose=not pending)
            case _:
                pass
        for each in nodes[: max(room[0], 0)]:
            last = pending or ("required" if after_and else "optional")
            parts[last] += [] if each in parts[last] else [each]
            room[0] -= _MOST_TERMS // _MOST_FUZZY if isinstance(each, Term) and each.spellings else 1
        if nodes:
            pending, after_and = "", False
    return Group(*(tuple(parts[each]) for each in ("required", "optional", "prohibited")))


def _terms(token: re.Match[str], *, loose: bool) -> list[Node]:
    """The terms of one token. `loose`: it is neither required nor prohibited. Then each two neighbouring characters of
    a script without spaces are a term, since a run of them may be a whole question.
    """
    words = words_of(token["phrase"] or token["word"] or "")
    if not words:
        return []
    if token["phrase"] is not None and not token["near"]:
        return [Term(tuple(words))]
    made: list[Node] = [Term((each,)) for each in words]
    if token["near"]:
        return [Group(required=tuple(made))]
    if token["prefix"]:
        # The stem of a longer word may be shorter than the prefix: the stem of `configuration` is `configur`.
        stems = [words[-1][:-cut] for cut in (1, 2, 3) if len(words[-1]) - cut >= _SHORTEST_STEM]
        made[-1] = Group(optional=(Term((words[-1],), prefix=True), *(Term((each,)) for each in stems)))
    elif token["fuzzy"] and len(words[-1]) in _FUZZY:
        # All words with one letter more, less, replaced, or swapped with the next one.
        word = words[-1].lower()
        cuts = [(word[:at], word[at:]) for at in range(len(word) + 1)]
        swapped = [start + end[1] + end[0] + end[2:] for start, end in cuts if len(end) > 1]
        less = [start + end[1:] for start, end in cuts if end]
        letters = sorted({*"abcdefghijklmnopqrstuvwxyz", *word})
        other = [start + each + end[skip:] for start, end in cuts for skip in (0, 1) for each in letters]
        made[-1] = Term((words[-1],), spellings=tuple(dict.fromkeys([*swapped, *less, *other])))
    elif not loose and len(words) > 1:
        return [Term(tuple(words))]  # so that `-semi-detached` does not prohibit "semi"
    if not loose:
        return made
    parts: list[Node] = []
    for node in made:
        if isinstance(node, Group) or node.spellings or not _IDEOGRAPHS.search(node.words[0]):
            parts.append(node)
            continue
        for run in _RUNS.findall(node.words[0]):
            size = 2 if _IDEOGRAPHS.match(run) else len(run)
            parts += [Term((run[at : at + size],)) for at in range(max(len(run) - size, 0) + 1)]
    return parts
