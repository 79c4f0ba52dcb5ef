"""Formulas over conditions, and the encoding of an agent for the planner, which knows only facts.

A formula combines conditions by `and`, `or` and `not`: `!busy`, `paid or (regular and known)`, also in `expr:`. It is
converted to alternatives (disjunctive normal form): each is a set of conditions with the values that they must have. So
each condition is evaluated by itself, only when it matters; an unknown condition makes neither a formula nor its
negation true. The encoding says which facts an agent's actions require and change; it knows types and their hierarchy.
The process reads the state of the world from the blackboard. (User guide, sections 3.2 and 3.6.)
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from typing import Any, Self

from goalport.agents.blackboard import DEFAULT_BINDING, fits, related, related_by_bases_only
from goalport.agents.domain.agents import Action, Agent, Condition, Goal
from goalport.agents.domain.decorators import ActionMark, ConditionMark, mark_of
from goalport.agents.domain.expressions import EXPRESSION, Expression, canonical, is_expression, tokens_of
from goalport.agents.domain.signature import is_state
from goalport.agents.plan import Available, Fact, GroupAvailable, HasRun, Holds, LastResult, Operator, PlanGoal
from goalport.base.introspection import Origin
from goalport.base.words import type_name

Term = Mapping[str, bool]
"""Conditions by name, with the values that all of them must have."""
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
class _Joined:
    parts: tuple["_Formula", ...]
    by_and: bool
    """Whether all parts have to hold (`and`); otherwise one of them (`or`)."""


_Formula = _Leaf | _Not | _Joined


class When(str):
    """A condition that can be combined by `&`, `|` and `~`, for `pre=`: `pre=[When("paid") & ~When(busy)]`.

    It is the text of a formula. Its argument is a condition's name, a function that is a condition, or an expression
    (`expr: …`). An unknown condition makes neither a formula nor its negation true.
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
    """The formulas of `pre` and `post`, checked and in the planner's spelling. Raises `DeclarationError`."""
    pre, post = canonical(origin, settings.pre), canonical(origin, settings.post)
    what = "pre"
    try:
        possible = _alternatives(pre, _NONE)
        what = "post"
        promises_of(post)
    except ValueError as error:
        raise _unreadable(origin, what, error) from None
    if not possible:
        clash = ValueError("they can never hold together, since some part of them asks for the opposite of another")
        raise _unreadable(origin, "pre", clash)
    return pre, post


def names_known(agent: Agent) -> frozenset[str]:
    """The names of an agent's conditions: its condition methods, and the names that its actions set with `post`."""
    promised = (name for action in agent.actions for name in promises_of(action.settings.post))
    return frozenset((*(each.name for each in agent.conditions), *promised))


def needs_of(action: Action, known: frozenset[str]) -> tuple[Term, ...]:
    """The alternatives of an action's `pre`: one of them has to hold.

    `known`: the names of conditions, which take precedence: a formula that equals such a name is that condition, even
    if it contains an "and"; in an expression the name means the condition and not an object. Raises `DeclarationError`.
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
    """The conditions that an agent may have to evaluate: its methods, and the expressions in its formulas."""
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
        case _Joined(parts, by_and):
            return _Joined(tuple(_in_expression(each, known) for each in parts), by_and)


def _leaves(formula: _Formula) -> Iterator[str]:
    match formula:
        case _Leaf(text):
            yield text
        case _Not(part):
            yield from _leaves(part)
        case _Joined(parts):
            for each in parts:
                yield from _leaves(each)


def _terms(formula: _Formula, *, value: bool) -> tuple[Term, ...]:
    """The alternatives in which a formula has the value; contradictory ones are omitted."""
    match formula:
        case _Leaf(text):
            return ({text: value},)
        case _Not(part):
            return _terms(part, value=not value)
        case _Joined(parts, by_and) if by_and is value:
            return _joined(_terms(each, value=value) for each in parts)
        case _Joined(parts):
            return _bounded(tuple(term for each in parts for term in _terms(each, value=value)))


def _joined(several: Iterable[tuple[Term, ...]]) -> tuple[Term, ...]:
    """The alternatives in which all of several formulas hold."""
    found: tuple[Term, ...] = ({},)
    for theirs in several:
        pairs = product(found, theirs)
        together = ({**a, **b} for a, b in pairs if all(a.get(name, value) is value for name, value in b.items()))
        found = _bounded(tuple(together))
    return found


def _bounded(terms: tuple[Term, ...]) -> tuple[Term, ...]:
    distinct = tuple({frozenset(each.items()): each for each in terms}.values())
    if len(distinct) > _MOST:
        raise ValueError(f"it comes to more than {_MOST} alternatives; write a @condition method for a part of it")
    return distinct


class _Reader:
    """Parses a formula from tokens: `or` binds least, then `and`, then `not` and `!`."""

    def __init__(self, tokens: Sequence[str]) -> None:
        self._tokens = [each for each in tokens if each]
        self._at = 0

    def whole(self) -> _Formula:
        found = self._any()
        if self._at < len(self._tokens):
            raise ValueError(f"nothing can follow before {self._tokens[self._at].strip()!r}")
        return found

    def _any(self) -> _Formula:
        found = [self._all()]
        while self._take("or"):
            found.append(self._all())
        return found[0] if len(found) == 1 else _Joined(tuple(found), by_and=False)

    def _all(self) -> _Formula:
        found = [self._not()]
        while self._take("and"):
            found.append(self._not())
        return found[0] if len(found) == 1 else _Joined(tuple(found), by_and=True)

    def _not(self) -> _Formula:
        if self._take("not", "!"):
            return _Not(self._not())
        began, depth = self._at, 0
        if self._take("("):
            # A parenthesized part, unless the text goes on after the parenthesis, as in `(a + b) > c`.
            with suppress(ValueError):
                found = self._any()
                if self._take(")") and self._next() in ("", "and", "or", ")"):
                    return found
        self._at = began
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


def plan_goal(goal: Goal) -> PlanGoal:
    """A goal for the planner: its action has run, and its output is on the blackboard."""
    requires: dict[Fact, bool] = {HasRun(goal.action): True}
    if goal.output is not None:
        requires[Available(goal.output, goal.output_binding)] = True
    return PlanGoal(goal.name, requires, goal.value)


def operators_of(agent: Agent) -> tuple[Operator, ...]:
    """The planner's operators for all actions of an agent.

    An action has an operator for each type that it may return, and for each way in which its conditions can be met.
    """
    known, costs = names_known(agent), {each.name: each.cost for each in agent.conditions}
    terms = {action.name: needs_of(action, known) for action in agent.actions}
    facts, namesakes = _KnownFacts(_facts_of(agent, terms)), defaultdict[str, list[Action]](list)
    for action in agent.actions:
        namesakes[action.short_name].append(action)
    found: list[Operator] = []
    for action in agent.actions:
        # If a substate overrides an action of its base state, only the substate's action applies to it.
        base = action.origin.owner
        owners = [each.origin.owner for each in namesakes[action.short_name]] if is_state(base) else []
        below = [each for each in owners if base and each and each is not base and issubclass(each, base)]
        elsewhere: dict[Fact, bool] = {Available(each, DEFAULT_BINDING): False for each in below}
        for term in sorted(terms[action.name], key=lambda term: sum(costs.get(name, 0.0) for name in term)):
            made = _operators(action, term, facts, alone=len(terms[action.name]) == 1)
            found += (replace(each, requires={**each.requires, **elsewhere}) for each in made)
    return tuple(found)


class _KnownFacts:
    """The facts of an agent, and which of them an object of a type makes true."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.all = tuple(facts)
        self.clearable = tuple(each for each in self.all if not isinstance(each, GroupAvailable))
        self.results = tuple(each for each in self.all if isinstance(each, LastResult))
        self._available = tuple(each for each in self.all if isinstance(each, Available))
        self.states = tuple(each for each in self._available if is_state(each.type))

    def supplied_by(self, kinds: Iterable[object]) -> list[Available]:
        """The facts that objects of these types make true, in the order of the facts."""
        found = set[int]()
        for kind in kinds:
            if related_by_bases_only(kind):
                by_class, by_base, others = self._numbers
                found.update(number for base in kind.__mro__ for number in by_class.get(base, ()))
                found.update(by_base.get(kind, ()))
            else:
                others = range(len(self._available))
            found.update(number for number in others if related(kind, self._available[number].type))
        return [self._available[number] for number in sorted(found)]

    @cached_property
    def _numbers(self) -> tuple[Mapping[type, Sequence[int]], Mapping[type, Sequence[int]], Sequence[int]]:
        """Indexes of facts: by class, by each base class, and a list of facts whose types are no classes."""
        by_class, by_base = defaultdict[type, list[int]](list), defaultdict[type, list[int]](list)
        others: list[int] = []
        for number, each in enumerate(self._available):
            if related_by_bases_only(each.type):
                by_class[each.type].append(number)
                for base in each.type.__mro__:
                    by_base[base].append(number)
            else:
                others.append(number)
        return by_class, by_base, others


def _facts_of(agent: Agent, terms: Mapping[str, Sequence[Term]]) -> Iterator[Fact]:
    """All facts that an action or goal of the agent may require or change, each once."""
    found: dict[Fact, None] = {}
    for action in agent.actions:
        found |= {fact: None for term in terms[action.name] for fact in _needs(action, term)}
        kinds = (kind for exit_ in action.outputs.exits for kind in exit_)
        found |= {Available(kind, action.output_binding): None for kind in kinds} | {HasRun(action.name): None}
        found |= {Holds(name): None for name in promises_of(action.settings.post)}
    for goal in agent.goals:
        found |= dict.fromkeys(plan_goal(goal).requires)
    return iter(found)


def _needs(action: Action, term: Term) -> dict[Fact, bool]:
    needs: dict[Fact, bool] = {Available(each.type, each.binding): True for each in action.inputs if each.required}
    needs |= {Holds(name): value for name, value in term.items()}
    needs |= {GroupAvailable(each.role, tuple(each.tools)): True for each in action.requirements}
    if action.settings.trigger is not None:
        needs[LastResult(action.settings.trigger)] = True
    return needs


def _operators(action: Action, term: Term, facts: _KnownFacts, *, alone: bool) -> Iterator[Operator]:
    exits = action.outputs.exits or ((),)
    wherever = "" if alone else f" if {' and '.join(('' if value else 'not ') + name for name, value in term.items())}"
    for exit_, suffix in zip(exits, _suffixes(exits), strict=True):
        # An action does not run twice: it requires that it has not run and that its output is absent.
        guards: dict[Fact, bool] = {} if action.settings.can_rerun else {HasRun(action.name): False}
        for kind in exit_ if guards and not action.settings.clear_blackboard else ():
            # An action may return a new version of an object that it takes: the old one must not prevent that.
            if not any(fits(each.type, kind) for each in action.inputs if each.required):
                guards[Available(kind, action.output_binding)] = False
        yield Operator(
            action.name + wherever + suffix,
            action.name,
            guards | _needs(action, term),
            _effects(action, exit_, facts),
            action.settings.cost,
            action.settings.value,
        )


def _suffixes(exits: Sequence[Sequence[object]]) -> list[str]:
    """A suffix for the name of each exit of an action: its type, with a number where two types have the same name."""
    if len(exits) == 1:
        return [""]
    labels = [" & ".join(map(type_name, exit_)) for exit_ in exits]
    count = Counter(labels)
    return [
        f" → {label}" if count[label] == 1 else f" → {label} ({labels[:index].count(label) + 1})"
        for index, label in enumerate(labels)
    ]


def _effects(action: Action, exit_: tuple[object, ...], facts: _KnownFacts) -> dict[Fact, bool]:
    cleared = action.settings.clear_blackboard
    effects: dict[Fact, bool] = dict.fromkeys(facts.clearable, False) if cleared else {}
    effects |= {fact: any(related(kind, fact.type) for kind in exit_) for fact in facts.results}
    if any(map(is_state, exit_)):  # entering a state hides the others
        effects |= dict.fromkeys(facts.states, False)
    bindings = {DEFAULT_BINDING, action.output_binding}
    effects |= {fact: True for fact in facts.supplied_by(exit_) if fact.binding in bindings}
    effects |= {Holds(name): value for name, value in promises_of(action.settings.post).items()}
    effects[HasRun(action.name)] = not cleared
    return effects
