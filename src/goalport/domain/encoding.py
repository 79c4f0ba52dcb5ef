"""The encoding of an agent for the planner: which facts its actions need, and which they bring about.

It knows types and their hierarchy; the planner below knows only facts. The state of the world is read from the
blackboard by the process. (User guide, sections 3.2 and 3.6; sub- and supertypes count as they do in routing by type.)
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from goalport.blackboard import DEFAULT_BINDING, fits, related
from goalport.domain.agents import Action, Agent, Goal
from goalport.domain.formulas import Term, names_known, needs_of, promises_of
from goalport.domain.values import is_state
from goalport.plan import Available, Fact, GroupAvailable, HasRun, Holds, LastResult, Operator, PlanGoal
from goalport.words import type_name

__all__ = ["operators_of", "plan_goal"]


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
    facts = tuple(_facts_of(agent, terms))
    return tuple(
        replace(each, requires={**each.requires, **dict.fromkeys(_overriding_states(action, agent), False)})
        for action in agent.actions
        for term in sorted(terms[action.name], key=lambda term: sum(costs.get(name, 0.0) for name in term))
        for each in _operators(action, term, facts, alone=len(terms[action.name]) == 1)
    )


def _overriding_states(action: Action, agent: Agent) -> Iterator[Available]:
    """The substates of an action's state that override the action: in those states their own action runs."""
    base, method = action.origin.owner, action.name.rpartition(".")[2]
    namesakes = [each for each in agent.actions if each.name.rpartition(".")[2] == method] if is_state(base) else []
    for kind in (each.origin.owner for each in namesakes):
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


def _operators(action: Action, term: Term, facts: Sequence[Fact], *, alone: bool) -> Iterator[Operator]:
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


def _effects(action: Action, exit_: tuple[object, ...], facts: Sequence[Fact]) -> dict[Fact, bool]:
    cleared = action.settings.clear_blackboard
    effects: dict[Fact, bool] = {fact: False for fact in facts if cleared and not isinstance(fact, GroupAvailable)}
    effects |= {fact: any(related(kind, fact.type) for kind in exit_) for fact in facts if isinstance(fact, LastResult)}
    if any(map(is_state, exit_)):  # entering a state hides the others
        effects |= {fact: False for fact in facts if isinstance(fact, Available) and is_state(fact.type)}
    effects |= dict.fromkeys(_supplied(action, exit_, facts), True)
    effects |= {Holds(name): value for name, value in promises_of(action.settings.post).items()}
    effects[HasRun(action.name)] = not cleared
    return effects


def _supplied(action: Action, exit_: tuple[object, ...], facts: Sequence[Fact]) -> Iterator[Fact]:
    bindings = {DEFAULT_BINDING, action.output_binding}
    for fact in facts:
        if isinstance(fact, Available) and fact.binding in bindings and any(related(kind, fact.type) for kind in exit_):
            yield fact
