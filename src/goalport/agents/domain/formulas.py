"""Formulas: conditions combined by `and`, `or` and `not`: `!busy`, `paid or (regular and known)`, also in `expr:`.

To the planner there are only single conditions: a formula is turned into alternatives, each a set of conditions that
must hold and of some that must not. So each of them is asked by itself, only when it matters, and one that has no
answer makes neither a formula nor its opposite true. Above: `expressions`, which says what an expression is, and the
operators. (User guide, section 3.6.3.)
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from itertools import product
from typing import Any, Self

from goalport.agents.domain.agents import Action, Agent, Condition
from goalport.agents.domain.decorators import ActionMark, ConditionMark, mark_of
from goalport.agents.domain.expressions import EXPRESSION, Expression, canonical, is_expression, tokens_of
from goalport.base.introspection import Origin

Term = Mapping[str, bool]
"""Names of conditions, each with the value that it must have; all of them must have it."""
_MOST = 64
"""The largest number of alternatives that a formula may have."""
_NONE: frozenset[str] = frozenset()
_PARTS = re.compile(r"(\(|\)|!|\b(?:and|or|not)\b)", re.IGNORECASE)
_OPENING, _CLOSING = frozenset("([{"), frozenset(")]}")


@dataclass(frozen=True, slots=True)
class _Leaf:
    text: str


@dataclass(frozen=True, slots=True)
class _Not:
    part: "_Formula"


@dataclass(frozen=True, slots=True)
class _All:
    parts: tuple["_Formula", ...]


@dataclass(frozen=True, slots=True)
class _Any:
    parts: tuple["_Formula", ...]


_Formula = _Leaf | _Not | _All | _Any


class When(str):
    """A condition that can be combined by `&`, `|` and `~`, for `pre=`: `pre=[When("paid") & ~When(busy)]`.

    It is the text of a formula: the name of a condition, the function that is one, or an expression (`expr: …`). A
    condition that has no answer makes neither a formula nor its opposite true.
    """

    __slots__ = ()

    def __new__(cls, condition: str | Callable[..., Any]) -> Self:
        if isinstance(condition, str):
            return super().__new__(cls, condition)
        mark = mark_of(condition, ConditionMark)
        return super().__new__(cls, (mark and mark.name) or condition.__name__)

    def __and__(self, other: str) -> "When":
        return self._joined("and", other)

    def __rand__(self, other: str) -> "When":
        return When(other) & self

    def __or__(self, other: str) -> "When":
        return self._joined("or", other)

    def __ror__(self, other: str) -> "When":
        return When(other) | self

    def __invert__(self) -> "When":
        return When(f"{self._prefix}not {self._inside}")

    def _joined(self, by: str, other: str) -> "When":
        also = When(other)
        return When(f"{self._prefix or also._prefix}{self._inside} {by} {also._inside}")

    @property
    def _prefix(self) -> str:
        return f"{EXPRESSION} " if is_expression(self) else ""

    @property
    def _inside(self) -> str:
        text = self.removeprefix(EXPRESSION).strip()
        return text if text.isidentifier() else f"({text})"


def checked(origin: Origin, settings: ActionMark) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The formulas of `pre` and `post`, checked and spelt as the planner knows them. Raises `DeclarationError`."""
    pre, post = canonical(origin, settings.pre), canonical(origin, settings.post)
    for what, read in (("pre", lambda: _refuse_contradiction(pre)), ("post", lambda: promises_of(post))):
        try:
            read()
        except ValueError as error:
            raise _unreadable(origin, what, error) from None
    return pre, post


def names_known(agent: Agent) -> frozenset[str]:
    """The names of an agent's conditions: those of its methods, and those that its actions set with `post`."""
    promised = (name for action in agent.actions for name in promises_of(action.settings.post))
    return frozenset((*(each.name for each in agent.conditions), *promised))


def needs_of(action: Action, known: frozenset[str]) -> tuple[Term, ...]:
    """The alternatives of an action's `pre`: one of them has to hold.

    `known` are the names of conditions. A formula that is such a name as a whole stands for that condition, and a name
    in an expression that is one stands for the condition and not for an object. Raises `DeclarationError`.
    """
    try:
        return _alternatives(action.settings.pre, known)
    except ValueError as error:
        raise _unreadable(action.origin, "pre", error) from None


def promises_of(texts: Iterable[str]) -> Term:
    """The values of conditions that `post` sets. Raises `ValueError` for a formula that leaves a value open."""
    found: dict[str, bool] = {}
    for text in texts:
        terms = _terms(_formula(text, _NONE), value=True)
        if len(terms) != 1:
            raise ValueError("it does not say what becomes of a single condition")
        found |= terms[0]
    return found


def conditions_of(agent: Agent) -> tuple[Condition, ...]:
    """The conditions that may have to be asked for an agent: its methods, and the expressions in its formulas."""
    known = names_known(agent)
    named = (name for action in agent.actions for term in needs_of(action, known) for name in term)
    promised = (name for action in agent.actions for name in promises_of(action.settings.post))
    expressions = dict.fromkeys(name for name in (*named, *promised) if is_expression(name))
    return (*agent.conditions, *(Expression.of(each).condition for each in expressions))


def _unreadable(origin: Origin, what: str, error: ValueError) -> Exception:
    return origin.error(
        expected=f"conditions in {what}=[…] that can be read",
        came=str(error),
        fix="Write names of conditions, put together by and, or, not (or !) and parentheses; in post no alternatives.",
    )


def _refuse_contradiction(texts: Iterable[str]) -> None:
    if not _alternatives(texts, _NONE):
        raise ValueError("they can never hold together, since some part of them asks for the opposite of another")


def _alternatives(texts: Iterable[str], known: frozenset[str]) -> tuple[Term, ...]:
    return _joined(_terms(_formula(text, known), value=True) for text in texts)


@lru_cache(maxsize=4096)
def _formula(text: str, known: frozenset[str]) -> _Formula:
    if text in known:
        return _Leaf(text)
    if not is_expression(text):
        return _Reader(_PARTS.split(text)).whole()
    whole = _Leaf(Expression.of(text).condition.name)
    tokens = tokens_of(text)
    if known.isdisjoint(tokens) or "if" in tokens:
        return whole
    found = _Reader(tokens).whole()
    return _in_expression(found, known) if known.intersection(_leaves(found)) else whole


def _in_expression(formula: _Formula, known: frozenset[str]) -> _Formula:
    match formula:
        case _Leaf(text):
            return formula if text in known else _Leaf(Expression.of(text).condition.name)
        case _Not(part):
            return _Not(_in_expression(part, known))
        case _All(parts):
            return _All(tuple(_in_expression(each, known) for each in parts))
        case _Any(parts):
            return _Any(tuple(_in_expression(each, known) for each in parts))


def _leaves(formula: _Formula) -> Iterator[str]:
    match formula:
        case _Leaf(text):
            yield text
        case _Not(part):
            yield from _leaves(part)
        case _All(parts) | _Any(parts):
            for each in parts:
                yield from _leaves(each)


def _terms(formula: _Formula, *, value: bool) -> tuple[Term, ...]:
    """The alternatives in which a formula has the value; those that contradict themselves are left out."""
    match formula:
        case _Leaf(text):
            return ({text: value},)
        case _Not(part):
            return _terms(part, value=not value)
        case _All(parts) if value:
            return _joined(_terms(each, value=True) for each in parts)
        case _Any(parts) if not value:
            return _joined(_terms(each, value=False) for each in parts)
        case _All(parts) | _Any(parts):
            return _bounded(tuple(term for each in parts for term in _terms(each, value=value)))


def _joined(several: Iterable[tuple[Term, ...]]) -> tuple[Term, ...]:
    return reduce(_crossed, several, ({},))


def _crossed(ours: tuple[Term, ...], theirs: tuple[Term, ...]) -> tuple[Term, ...]:
    pairs = product(ours, theirs)
    return _bounded(
        tuple({**one, **other} for one, other in pairs if all(one.get(n, v) is v for n, v in other.items()))
    )


def _bounded(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    distinct = tuple({frozenset(each.items()): each for each in terms}.values())
    if len(distinct) > _MOST:
        raise ValueError(f"it comes to more than {_MOST} alternatives; write a @condition method for a part of it")
    return distinct


class _Reader:
    """Reads a formula out of tokens: `or` binds least, then `and`, then `not` and `!`."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [each for each in tokens if each]
        self._at = 0

    def whole(self) -> _Formula:
        found = self._any()
        if self._at < len(self._tokens):
            raise ValueError(f"nothing can follow before {self._tokens[self._at].strip()!r}")
        return found

    def _any(self) -> _Formula:
        parts = [self._all()]
        while self._take("or"):
            parts.append(self._all())
        return parts[0] if len(parts) == 1 else _Any(tuple(parts))

    def _all(self) -> _Formula:
        parts = [self._not()]
        while self._take("and"):
            parts.append(self._not())
        return parts[0] if len(parts) == 1 else _All(tuple(parts))

    def _not(self) -> _Formula:
        if self._take("not", "!"):
            return _Not(self._not())
        return self._group() or self._leaf()

    def _group(self) -> _Formula | None:
        """A part in parentheses; None where the parentheses end before the part does."""
        began = self._at
        if self._take("("):
            try:
                found = self._any()
            except ValueError:
                found = None
            if found is not None and self._take(")") and self._next() in ("", "and", "or", ")"):
                return found
        self._at = began
        return None

    def _leaf(self) -> _Formula:
        began, depth = self._at, 0
        while self._at < len(self._tokens):
            token = self._tokens[self._at].strip().lower()
            if not depth and token in ("and", "or", ")"):
                break
            depth += (token in _OPENING) - (token in _CLOSING)
            self._at += 1
        text = "".join(self._tokens[began : self._at]).strip()
        if not text or depth:
            raise ValueError("a parenthesis is not closed" if depth else "a part is missing")
        return _Leaf(text)

    def _next(self) -> str:
        while self._at < len(self._tokens) and not self._tokens[self._at].strip():
            self._at += 1
        return self._tokens[self._at].strip().lower() if self._at < len(self._tokens) else ""

    def _take(self, *wanted: str) -> bool:
        found = self._next() in wanted
        self._at += found
        return found
