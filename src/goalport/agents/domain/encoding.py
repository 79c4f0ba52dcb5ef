"""The encoding of an agent for the planner: which facts its actions need, and which they bring about.

It knows types and their hierarchy; the planner below knows only facts. The state of the world is read from the
blackboard by the process. (User guide, sections 3.2 and 3.6; sub- and supertypes count as they do in routing by type.)
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property

from goalport.agents.blackboard import DEFAULT_BINDING, fits, is_told_by_bases, related
from goalport.agents.domain.agents import Action, Agent, Goal
from goalport.agents.domain.formulas import Term, names_known, needs_of, promises_of
from goalport.agents.domain.values import is_state
from goalport.agents.plan import Available, Fact, GroupAvailable, HasRun, Holds, LastResult, Operator, PlanGoal
from goalport.base.words import type_name


def plan_goal(goal: Goal) -> PlanGoal:
    """A goal as the planner sees it: its action has run and its output is there."""
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
    return tuple(
        replace(
            each,
            requires={
                **each.requires,
                **dict.fromkeys(_overriding_states(action, namesakes[action.short_name]), False),
            },
        )
        for action in agent.actions
        for term in sorted(terms[action.name], key=lambda term: sum(costs.get(name, 0.0) for name in term))
        for each in _operators(action, term, facts, alone=len(terms[action.name]) == 1)
    )


class _KnownFacts:
    """The facts of an agent, and which of them an object of a type makes true."""

    def __init__(self, facts: Iterable[Fact]) -> None:
        self.all = tuple(facts)
        self.clearable = tuple(each for each in self.all if not isinstance(each, GroupAvailable))
        self.results = tuple(each for each in self.all if isinstance(each, LastResult))
        self._available = tuple(each for each in self.all if isinstance(each, Available))
        self.states = tuple(each for each in self._available if is_state(each.type))

    def supplied_by(self, kinds: Iterable[object]) -> list[Available]:
        """The objects that are there once there is one of each of these types, in the order of the facts."""
        found = {number for kind in kinds for number in self._numbers_for(kind)}
        return [self._available[number] for number in sorted(found)]

    def _numbers_for(self, kind: object) -> Iterable[int]:
        if not is_told_by_bases(kind):
            return (number for number, each in enumerate(self._available) if related(kind, each.type))
        found = {number for base in kind.__mro__ for number in self._by_class.get(base, ())}
        found.update(self._by_base.get(kind, ()))
        found.update(number for number in self._by_asking if related(kind, self._available[number].type))
        return found

    @cached_property
    def _by_class(self) -> Mapping[type, Sequence[int]]:
        found = defaultdict[type, list[int]](list)
        for number, each in enumerate(self._available):
            if is_told_by_bases(each.type):
                found[each.type].append(number)
        return found

    @cached_property
    def _by_base(self) -> Mapping[type, Sequence[int]]:
        found = defaultdict[type, list[int]](list)
        for kind, numbers in self._by_class.items():
            for base in kind.__mro__:
                found[base] += numbers
        return found

    @cached_property
    def _by_asking(self) -> Sequence[int]:
        return [number for number, each in enumerate(self._available) if not is_told_by_bases(each.type)]


def _overriding_states(action: Action, namesakes: Sequence[Action]) -> Iterator[Available]:
    """The substates of an action's state that override the action: in those states their own action runs."""
    base = action.origin.owner
    for kind in (each.origin.owner for each in namesakes) if is_state(base) else ():
        if base is not None and kind is not None and kind is not base and issubclass(kind, base):
            yield Available(kind, DEFAULT_BINDING)


def _facts_of(agent: Agent, terms: Mapping[str, Sequence[Term]]) -> Iterator[Fact]:
    """Every fact that some action or goal of the agent may need or forbid, each once."""
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
        yield Operator(
            action.name + wherever + suffix,
            action.name,
            _guards(action, exit_) | _needs(action, term),
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


def _guards(action: Action, exit_: Iterable[object]) -> dict[Fact, bool]:
    """The facts that keep an action from running twice: it has not run yet, and its output is not there."""
    if action.settings.can_rerun:
        return {}
    guards: dict[Fact, bool] = {HasRun(action.name): False}
    if not action.settings.clear_blackboard:
        guards |= {Available(kind, action.output_binding): False for kind in exit_ if not _transforms(action, kind)}
    return guards


def _transforms(action: Action, output: object) -> bool:
    """Whether an action makes a new version of an object that it takes: the old one does not keep it from running."""
    return any(fits(each.type, output) for each in action.inputs if each.required)


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
