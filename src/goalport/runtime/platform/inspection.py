"""Inspection of what is deployed, for mistakes that no single declaration shows. `goalport check` prints them.

Each mistake is a `DeclarationError` that is returned and not raised: where, what was expected, what came, the fix.
Nothing runs. A mistake in one declaration alone is an error when the class is read. Below: deployments, reachability
and the planner.
"""

import re
from collections.abc import Collection, Iterator, Sequence
from typing import Final

from goalport.agents.blackboard import DEFAULT_BINDING, fits, related
from goalport.agents.domain import (
    Action,
    Agent,
    inputs_among,
    is_state,
    names_known,
    needs_of,
    promises_of,
)
from goalport.agents.plan import (
    Available,
    Explanation,
    Fact,
    HasRun,
    Holds,
    LastResult,
    Operator,
    Problem,
    WorldState,
    explain,
    needed,
    unusable,
)
from goalport.base.errors import DeclarationError
from goalport.base.words import did_you_mean, listed, nearest, type_name, with_article
from goalport.models.llm import UserMessage
from goalport.runtime.chat import Conversation
from goalport.runtime.platform.deployments import Deployments
from goalport.runtime.platform.reachability import explain_goal, near_givers, possible_inputs, starting_types
from goalport.runtime.process import PLANNING_SECONDS, Scope, planner_for
from goalport.tools import ToolGroupResolver

_MOST_STATES: Final = 100
"""The most world states in which loops are looked for; each takes a plan."""
_OPERATORS: Final = {"&": "and", ",": "and", "|": "or", "~": "not"}
_OPERATOR: Final = re.compile(r"([&,|~])\1*")
_LET_OR_START: Final = "Let an action bring that about, or start from it: Export(starting_input_types=[…])."
_OWN_CLASS: Final = "Take a class of your own in place of {}: the planner tells objects apart by their types."
_LET_POST: Final = "Let an action make it true, with its name in post=[…], or a @condition that can be asked at first."


def mistakes_in(agents: Deployments, groups: ToolGroupResolver) -> tuple[DeclarationError, ...]:
    """The mistakes in the deployed agents and components, each once."""
    scopes = [agents.scope(each.name) for each in agents]
    unreached = {each.agent.name: () if each.may_help_itself else tuple(_unreachable(each, groups)) for each in scopes}
    # Goals that cannot be reached come last: the mistake in an action is mostly why.
    found: list[DeclarationError] = []
    for scope in scopes:
        name = scope.agent.name
        found += _action_mistakes([scope], agents.named(name).actions, blocked=bool(unreached[name]))
        if scope.agent.chat is not None:
            found += chatbot_mistakes(agents.named(name), scope)
    lenders = [agents.scope(each.name) for each in agents.components]
    users = [scope for scope in scopes if not scope.agent.opaque]
    for scope in lenders:
        blocked = any(unreached.get(each.agent.name) for each in users)
        found += _action_mistakes([*users, scope], agents.named(scope.agent.name).actions, blocked=blocked)
    found += [mistake for mistakes in unreached.values() for mistake in mistakes]
    found += [mistake for scope in scopes for mistake in _broken_loops(scope, groups)]
    return tuple({str(mistake): mistake for mistake in found}.values())


def remarks_on_givers(agents: Deployments, groups: ToolGroupResolver) -> tuple[str, ...]:
    """A sentence for each method that would give an object which a goal has to be started from instead."""
    goals = [(agents.scope(agent.name), goal) for agent in agents for goal in agent.goals]
    derived = [(scope, goal) for scope, goal in goals if not goal.export.starting_input_types]
    found = [each for scope, goal in derived for each in near_givers(scope.agent, starting_types(scope, goal, groups))]
    return tuple(dict.fromkeys(found))


def remarks_on_chatbots(agents: Deployments) -> tuple[str, ...]:
    """A sentence for each action that a chatbot runs without being asked."""
    chatbots = [each for each in agents if each.chat is not None]
    return tuple(dict.fromkeys(said for each in chatbots for said in chatbot_remarks(each, agents.scope(each.name))))


def _unreachable(scope: Scope, groups: ToolGroupResolver) -> Iterator[DeclarationError]:
    told: Sequence[object] = ()
    if scope.agent.chat is not None:  # it has its conversation, and is told what triggers its actions while it runs
        triggers = (each.settings.trigger for each in scope.actions.values())
        told = (Conversation, *dict.fromkeys(each for each in triggers if each is not None))
    for goal in scope.goals.values():
        # Without a plan, no types are derived; what no action makes is there then, since somebody has to give it.
        types = starting_types(scope, goal, groups) or scope.unmade
        for starts in [(each,) for each in types] if goal.export.starting_input_types else [types]:
            found = explain_goal(scope, goal, (*starts, *told), groups)
            # Which groups there are is a matter of deployment, and no mistake of the author's.
            if found.failures and not found.lacks_only_groups:
                given = " and ".join(map(type_name, starts)) or "nothing"
                lacks = [each.fact for each in found.failures[0].missing]
                only_conditions = lacks and all(isinstance(each, Holds) for each in lacks)
                wanted = [each.type for each in lacks if isinstance(each, Available)]
                plain = [each for each in wanted if isinstance(each, type) and each.__module__ == "builtins"]
                notes = [*found.notes, *(_OWN_CLASS.format(type_name(each)) for each in plain)]
                yield scope.actions[goal.action].origin.error(
                    expected=f"a way to the goal {goal.name} from {given}",
                    came=f"it cannot be reached: {found.failures[0].because}",
                    fix=" ".join([*notes, _LET_POST if only_conditions else _LET_OR_START]),
                )


def _broken_loops(scope: Scope, groups: ToolGroupResolver) -> Iterator[DeclarationError]:
    """The loops that can go round once only: an error for each action that an exit leads back to, and cannot run again.

    After such an exit no goal can be reached, since what it leads back to counts as done. Every exit of every action on
    the way to the goals is followed, once each.
    """
    if not planner_for(scope.agent).looks_ahead:
        return
    states: dict[WorldState, Operator | None] = {}
    for goal in scope.goals.values():
        first = explain_goal(scope, goal, starting_types(scope, goal, groups), None)
        if first.plan is not None and first.problem is not None:
            states[first.problem.start] = None
    visited: set[WorldState] = set()
    while states and len(visited) < _MOST_STATES:
        state, by = states.popitem()
        visited.add(state)
        goals = tuple(scope.plan_goals.values())
        found = explain(Problem(scope.system, state, goals, deadline=PLANNING_SECONDS))
        if found.plan is not None:
            for step in found.plan.steps:  # the exits that the plan does not count on
                for other in scope.system.operators:
                    after = _after(scope, state, other)
                    if other.action == step.action and other.name != step.name and after not in visited:
                        states[after] = other
                state = _after(scope, state, step)
        elif by is not None:
            yield from _held_back(scope, found, by)


def _after(scope: Scope, state: WorldState, step: Operator) -> WorldState:
    given = {fact for fact, value in step.effects.items() if value}
    true = state.true.difference(step.effects) | given
    return WorldState(true, scope.evaluated_conditions.difference(step.effects, true))


def _held_back(scope: Scope, found: Explanation, by: Operator) -> Iterator[DeclarationError]:
    """The actions that only their having run, or their output, keeps from leading on from an exit."""
    missing = found.failures[0].missing
    if not missing or not all(each.held_back for each in missing):
        return
    for name in dict.fromkeys(each.held_back for each in missing):
        if _leads_to(scope, by, name):
            yield scope.actions[name].origin.error(
                expected=f"to run again when it is reached by way of {by.name}",
                came="it runs once only, and that leads back to it",
                fix="Write `can_rerun=True` here, or `clear_blackboard=True` where each round begins anew.",
            )


def _leads_to(scope: Scope, by: Operator, action: str) -> bool:
    """Whether an action needs what an exit gives, or what other actions make of that."""
    reached: set[Fact] = set()
    fresh = _add_effects(by)
    while fresh:
        reached |= fresh
        users = [each for each in scope.system.operators if any(each.requires.get(fact) for fact in fresh)]
        if any(each.action == action for each in users):
            return True
        fresh = {fact for each in users for fact in _add_effects(each)} - reached
    return False


def _add_effects(step: Operator) -> set[Fact]:
    return {fact for fact, value in step.effects.items() if value and isinstance(fact, Available)}


def _action_mistakes(
    scopes: Sequence[Scope], actions: Sequence[Action], *, blocked: bool
) -> Iterator[DeclarationError]:
    """The mistakes in an agent's own actions that are mistakes in each of these scopes.

    `blocked`: whether there is no way to some goal.
    """
    for action in actions:
        yield from _unposted(action, scopes, blocked=blocked)
        yield from _untriggered(action, scopes)
    if any(each.may_help_itself for each in scopes):
        return
    lacks = [unusable(_everything_possible(each)) for each in scopes]
    for action in actions:
        if action.name in scopes[-1].goals or not all(action.name in each for each in lacks):
            continue
        fact, value = lacks[-1][action.name][0]
        givers = [each.action for each in scopes[-1].system.operators if each.effects.get(fact) is value]
        only = f"only {givers[0]} brings that about, which can never run either" if givers else ""
        yield action.origin.error(
            expected="an action that can run at some time",
            came=f"it needs {needed(fact, value=value)}, and {only or 'nothing brings that about'}",
            fix="Let an action return it or a goal start from it, or remove this action.",
        )


def _everything_possible(scope: Scope) -> Problem:
    """A problem in which each input may be there or not, and each fact that actions do not decide may hold or not."""
    given = possible_inputs(scope)

    def is_open(fact: Fact) -> bool:
        if isinstance(fact, Available):
            return fact.binding != DEFAULT_BINDING or any(related(each, fact.type) for each in given)
        return not isinstance(fact, HasRun)

    return Problem(scope.system, WorldState(unknown=frozenset(filter(is_open, scope.facts))), ())


def _unposted(action: Action, scopes: Sequence[Scope], *, blocked: bool) -> Iterator[DeclarationError]:
    terms = needs_of(action, names_known(scopes[-1].agent))
    # Of each condition in `pre`, whether the action needs it to be true.
    conditions = {name: all(each.get(name) is True for each in terms) for term in terms for name in term}
    for name, value in conditions.items():
        if not any(_is_posted(each, name) or name in each.conditions for each in scopes):
            yield action.origin.error(
                expected=f"somebody to decide the condition {name!r} of pre=[…]",
                came="no @condition is called that, and no action posts it",
                fix=_fix_of_condition(name, frozenset[str]().union(*(names_known(each.agent) for each in scopes))),
            )
        # Where there is another way, this one opens once the condition can be asked.
        elif blocked and value and not any(_is_posted(each, name) for each in scopes):
            askers = [each for each in scopes if name in each.conditions]
            late = [_made_on_the_way(each, name) for each in askers]
            if all(late):
                wanted = Available(late[0][0])
                makers = [maker for maker, facts in askers[0].add_effects.items() if wanted in facts]
                those = f"{' or '.join(makers)}, which makes it," if makers else "the action that makes it"
                yield action.origin.error(
                    expected=f"an action that may make the condition {name!r} of pre=[…] true",
                    came=f"it looks at {with_article(wanted.type)}, which is made on the way, so at first it is false,"
                    " and no action posts it",
                    fix=f'Give {those} post=["{name}"].',
                )


def _fix_of_condition(name: str, known: Collection[str]) -> str:
    """What to write in place of a condition that nobody decides."""
    in_words = " ".join(_OPERATOR.sub(lambda found: f" {_OPERATORS[found[1]]} ", name).split())
    if in_words != name:
        return f'Conditions are put together by words: write pre=["{in_words}"].'
    if near := did_you_mean(nearest(name, known)):
        return near
    if not name.isidentifier():
        return f'If it is an expression over objects, write pre=["expr: {name}"].'
    return f'Write a @condition method of that name, or give the action that brings it about post=["{name}"].'


def _is_posted(scope: Scope, condition: str) -> bool:
    return any(condition in promises_of(action.settings.post) for action in scope.actions.values())


def _made_on_the_way(scope: Scope, condition: str) -> Sequence[object]:
    """The types that a condition looks at and that actions have to make first; empty where it can be asked at first.

    A planner of single steps asks it on the way.
    """
    if scope.agent.component or not planner_for(scope.agent).looks_ahead:
        return ()
    inputs = inputs_among(scope.conditions[condition].parameters)
    needed = [each for each in inputs if each.required and each.binding == DEFAULT_BINDING]
    return [each.type for each in needed if not _may_be_given(scope, each.type)]


def _untriggered(action: Action, scopes: Sequence[Scope]) -> Iterator[DeclarationError]:
    trigger = action.settings.trigger
    if trigger is None:
        return
    fact = LastResult(trigger)
    made = any(operator.effects.get(fact) for scope in scopes for operator in scope.system.operators)
    told = any(each.agent.chat is not None for each in scopes)
    if not made and not told and not any(_may_be_given(each, trigger) for each in scopes):
        fix = "Correct trigger=…, or give some action that return type."
        if fits(UserMessage, trigger):
            fix = (
                "If people are to talk to it, mark the class with @chatbot, or name a chatbot in the setting `chatbot`."
            )
        yield action.origin.error(
            expected=f"an action that makes {with_article(trigger)}, which is the trigger here",
            came="none does, and no goal starts from one",
            fix=fix,
        )


def _may_be_given(scope: Scope, kind: object) -> bool:
    return any(related(each, kind) for each in possible_inputs(scope))


_ANSWERING = "@action(trigger=UserMessage, can_rerun=True)"


def chatbot_mistakes(agent: Agent, scope: Scope) -> Iterator[DeclarationError]:
    """The mistakes in a chatbot: `agent` as it was read, and its scope with the actions that others lend it."""
    triggers = [each.settings.trigger for each in scope.actions.values()]
    if not any(each is not None and fits(UserMessage, each) for each in triggers):
        yield DeclarationError(
            agent.source or f"Chatbot {agent.name}",
            expected="an action that answers what a person says",
            came="no action of this chatbot takes a message or has the trigger UserMessage, so nobody gets an answer",
            fix=f"Put {_ANSWERING} above the method that answers.",
        )
    for action in _own(agent, scope):
        if action.settings.trigger is None:
            yield from _endless(action)
            continue
        states = any(is_state(kind) for exit_ in action.outputs.exits for kind in exit_)
        goes_on = states or action.name in scope.goals or is_state(action.origin.owner)
        if not (action.settings.can_rerun or goes_on):
            yield action.origin.error(
                expected="to run again, for each message or event",
                came=f"it runs once in a conversation: after its first {action.settings.trigger.__name__} it is done",
                fix="Write `can_rerun=True` here, or return a state in which other actions go on.",
            )


def chatbot_remarks(agent: Agent, scope: Scope) -> Iterator[str]:
    """A sentence for each action that a chatbot runs without being asked, and one for all that others lend it."""
    for declared, action in zip(agent.actions, _own(agent, scope), strict=True):
        if not any(_endless(action)) and _begins_by_itself(action, scope):
            yield (
                f"{action.origin} has no trigger: the chatbot {agent.name} runs it as soon as what it takes is there,"
                " without being asked. If it is to answer, write `trigger=UserMessage, can_rerun=True`."
            )
        made = next((each for each in _made_by_others(action, scope) if not is_state(each)), None)
        if made is not None and declared.settings.trigger is not action.settings.trigger:
            yield (
                f"{action.origin} takes a message, which is its trigger: when another action has made"
                f" {with_article(made)}, it waits for the message after that. If it is to run at once, write"
                f" `trigger={type_name(made)}`."
            )
    own = {each.name for each in agent.actions}
    lent = [name for name in scope.actions if name not in own]
    if unasked := [name for name in lent if _begins_by_itself(scope.actions[name], scope)]:
        yield (
            f"The chatbot {agent.name} runs these actions of others as soon as what they take is there, without being"
            f" asked, since they have no trigger: {listed(unasked)}."
        )


def _own(agent: Agent, scope: Scope) -> Sequence[Action]:
    """The actions that are the chatbot's own, with the triggers that they have in it."""
    return [scope.actions[each.name] for each in agent.actions]


def _endless(action: Action) -> Iterator[DeclarationError]:
    """An action that a chatbot would repeat until the budget of the turn is spent. One with conditions may stop."""
    if action.settings.can_rerun and not action.settings.pre:
        yield action.origin.error(
            expected="a trigger, since this is an action of a chatbot",
            came="without one, and with `can_rerun=True`, it runs again and again until the budget of a turn is spent",
            fix="Write `trigger=UserMessage` for what answers a message, or the type of the event that it reacts to.",
        )


def _begins_by_itself(action: Action, scope: Scope) -> bool:
    """Whether an action needs neither a trigger nor a condition, and nothing that another one makes."""
    return not (action.settings.trigger or action.settings.pre or any(_made_by_others(action, scope)))


def _made_by_others(action: Action, scope: Scope) -> Iterator[object]:
    """The types that an action needs and another one makes."""
    return (each.type for each in action.inputs if each.required and each.type not in scope.unmade)
