"""Inspection of the deployed agents, before anything runs: their mistakes, and from what goals can be reached.

`goalport check` prints mistakes that no single declaration shows. Each is a `DeclarationError` that is returned and not
raised: where, what was expected, what came, the fix. A mistake in one declaration alone is an error when the class is
read.

When goals are checked, a condition that could be evaluated at the start counts as undecided. A condition on an object
that is made only on the way counts as false, as it does when a process plans. Methods that compute costs and values are
called if they need no object and no process. For the others the figure of the action counts, and a note says so. No
other method is called.
"""

import inspect
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final, TypeAlias, get_args, get_origin

from goalport.agents.blackboard import DEFAULT_BINDING, field_kinds, fits, related
from goalport.agents.domain import (
    Action,
    Agent,
    Aggregation,
    Cost,
    Goal,
    Input,
    ProvidedInput,
    inputs_among,
    is_state,
    names_known,
    needs_of,
    promises_of,
    unmarked_givers,
)
from goalport.agents.plan import (
    Available,
    Explanation,
    Fact,
    HasRun,
    Holds,
    LastResult,
    Operator,
    Plan,
    Problem,
    WorldState,
    best_plan,
    explain,
    needed,
    prune,
    unusable,
)
from goalport.base.errors import DeclarationError
from goalport.base.words import did_you_mean, listed, nearest, type_name, with_article
from goalport.models.llm import UserMessage
from goalport.runtime.chat import Conversation
from goalport.runtime.platform.deployments import Deployments
from goalport.runtime.process import PLANNING_SECONDS, Scope, planner_for
from goalport.runtime.process.tick import DEAREST, usable_figure
from goalport.tools import ToolGroupResolver

Service: TypeAlias = Callable[[type], object | None]
"""The platform's service of a type, or None."""
_STARTS = 8
"""The most world states to start from that are cached for an agent."""
_MOST_STATES: Final = 100
"""The most world states in which loops are looked for; each takes a plan."""
_OPERATORS: Final = {"&": "and", ",": "and", "|": "or", "~": "not"}
_OPERATOR: Final = re.compile(r"([&,|~])\1*")
_LET_OR_START: Final = "Let an action bring that about, or start from it: Export(starting_input_types=[…])."
_OWN_CLASS: Final = "Take a class of your own in place of {}: the planner tells objects apart by their types."
_CORRECT_TRIGGER: Final = "Correct trigger=…, or give some action that return type."
_MARK_CHATBOT: Final = (
    "If people are to talk to it, mark the class with @chatbot, or name a chatbot in the setting `chatbot`."
)
_LET_POST: Final = "Let an action make it true, with its name in post=[…], or a @condition that can be asked at first."


def mistakes_in(agents: Deployments, groups: ToolGroupResolver) -> tuple[DeclarationError, ...]:
    """The mistakes in the deployed agents and components, each once."""
    scopes = [agents.scope(each.name) for each in agents]
    unreached = {each.agent.name: () if each.may_help_itself else tuple(_unreachable(each, groups)) for each in scopes}
    # Goals that cannot be reached come last: mostly a mistake in an action is the reason.
    found: list[DeclarationError] = []
    for scope in scopes:
        agent = agents.named(scope.agent.name)
        found += _action_mistakes([scope], agent.actions, blocked=bool(unreached[agent.name]))
        if scope.agent.chat is not None:
            found += chatbot_mistakes(agent, scope)
    users = [scope for scope in scopes if not scope.agent.opaque]
    for each in agents.components:
        blocked = any(unreached.get(user.agent.name) for user in users)
        found += _action_mistakes([*users, agents.scope(each.name)], each.actions, blocked=blocked)
    found += chain.from_iterable(unreached.values())
    found += chain.from_iterable(_broken_loops(scope, groups) for scope in scopes)
    return tuple({str(mistake): mistake for mistake in found}.values())


def remarks_in(agents: Deployments, groups: ToolGroupResolver) -> tuple[str, ...]:
    """A sentence for each declaration whose author may have meant something else.

    That is: each method that would give a starting object of a goal if it were declared in another way, and each action
    that a chatbot runs without being asked.
    """
    scopes = [(each, agents.scope(each.name)) for each in agents]
    found = [
        remark
        for agent, scope in scopes
        for goal in agent.goals
        if not goal.export.starting_input_types
        for remark in near_misses(scope.agent, starting_types(scope, goal, groups))
    ]
    found += [remark for agent, scope in scopes if agent.chat is not None for remark in chatbot_remarks(agent, scope)]
    return tuple(dict.fromkeys(found))


def _unreachable(scope: Scope, groups: ToolGroupResolver) -> Iterator[DeclarationError]:
    told: Sequence[object] = ()
    if scope.agent.chat is not None:  # it has its conversation, and gets objects that trigger its actions while it runs
        triggers = (each.settings.trigger for each in scope.actions.values())
        told = (Conversation, *dict.fromkeys(each for each in triggers if each is not None))
    for goal in scope.goals.values():
        # Without a plan, no types are derived: then all types that no action makes count as given.
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
    """The loops that can run once only: an error for each action that an exit leads back to and that cannot run again.

    After such an exit no goal can be reached, since that action counts as done. Every exit of every action on
    the way to the goals is followed, once each.
    """
    if not planner_for(scope.agent).looks_ahead:
        return

    def after(state: WorldState, step: Operator) -> WorldState:
        given = {fact for fact, value in step.effects.items() if value}
        true = state.true.difference(step.effects) | given
        return WorldState(true, scope.evaluated_conditions.difference(step.effects, true))

    firsts = (explain_goal(scope, goal, starting_types(scope, goal, groups), None) for goal in scope.goals.values())
    problems = (each.problem for each in firsts if each.plan is not None)
    states: dict[WorldState, Operator | None] = {each.start: None for each in problems if each is not None}
    visited: set[WorldState] = set()
    while states and len(visited) < _MOST_STATES:
        state, by = states.popitem()
        visited.add(state)
        found = explain(Problem(scope.system, state, tuple(scope.plan_goals.values()), deadline=PLANNING_SECONDS))
        if found.plan is not None:
            for step in found.plan.steps:  # the exits that the plan does not count on
                for other in scope.system.operators:
                    if other.action == step.action and other.name != step.name:
                        then = after(state, other)
                        states |= {} if then in visited else {then: other}
                state = after(state, step)
        elif by is not None:
            # What keeps each missing fact from being made; the exit is to blame if nothing else is missing.
            held_back = dict.fromkeys(each.held_back for each in found.failures[0].missing)
            for name in held_back if all(held_back) else ():
                if _leads_to(scope, by, name):
                    yield scope.actions[name].origin.error(
                        expected=f"to run again when it is reached by way of {by.name}",
                        came="it runs once only, and that leads back to it",
                        fix="Write `can_rerun=True` here, or `clear_blackboard=True` where each round begins anew.",
                    )


def _leads_to(scope: Scope, by: Operator, action: str) -> bool:
    """Whether an action needs an output of an exit, directly or through other actions."""
    reached, steps = set[Fact](), [by]
    while steps:
        made = (fact for each in steps for fact, value in each.effects.items() if value and isinstance(fact, Available))
        fresh = set(made) - reached
        reached |= fresh
        steps = [each for each in scope.system.operators if any(each.requires.get(fact) for fact in fresh)]
        if any(each.action == action for each in steps):
            return True
    return False


def _action_mistakes(
    scopes: Sequence[Scope], actions: Sequence[Action], *, blocked: bool
) -> Iterator[DeclarationError]:
    """The mistakes in an agent's own actions that are mistakes in each of these scopes.

    `blocked`: whether some goal cannot be reached.
    """
    known = frozenset[str]().union(*(names_known(each.agent) for each in scopes))
    for action in actions:
        terms = needs_of(action, names_known(scopes[-1].agent))
        for name in dict.fromkeys(name for term in terms for name in term):
            wanted = blocked and all(each.get(name) is True for each in terms)
            yield from _undecided(action, scopes, name, known, wanted=wanted)
        trigger = action.settings.trigger
        if trigger is not None and all(each.agent.chat is None for each in scopes):
            operators = (operator for scope in scopes for operator in scope.system.operators)
            is_made = any(each.effects.get(LastResult(trigger)) for each in operators)
            if not is_made and not any(_may_be_given(each, trigger) for each in scopes):
                yield action.origin.error(
                    expected=f"an action that makes {with_article(trigger)}, which is the trigger here",
                    came="none does, and no goal starts from one",
                    fix=_MARK_CHATBOT if fits(UserMessage, trigger) else _CORRECT_TRIGGER,
                )
    if any(each.may_help_itself for each in scopes):
        return
    lacks: list[Mapping[str, Sequence[tuple[Fact, bool]]]] = []
    for scope in scopes:
        # Each input may be there or not, and each fact that actions do not decide may hold or not.
        given = possible_inputs(scope)
        undecided = frozenset(
            each
            for each in scope.facts
            if (
                each.binding != DEFAULT_BINDING or any(related(kind, each.type) for kind in given)
                if isinstance(each, Available)
                else not isinstance(each, HasRun)
            )
        )
        lacks.append(unusable(Problem(scope.system, WorldState(unknown=undecided), ())))
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


def _undecided(
    action: Action, scopes: Sequence[Scope], name: str, known: Collection[str], *, wanted: bool
) -> Iterator[DeclarationError]:
    """The mistake in a condition in `pre`: nothing decides it or, if it is `wanted`, nothing makes it true in time."""
    is_posted = any(name in promises_of(each.settings.post) for scope in scopes for each in scope.actions.values())
    askers = [each for each in scopes if name in each.conditions]
    if not is_posted and not askers:
        in_words = " ".join(_OPERATOR.sub(lambda found: f" {_OPERATORS[found[1]]} ", name).split())
        fix = f'Write a @condition method of that name, or give the action that brings it about post=["{name}"].'
        if in_words != name:
            fix = f'Conditions are put together by words: write pre=["{in_words}"].'
        elif near := did_you_mean(nearest(name, known)):
            fix = near
        elif not name.isidentifier():
            fix = f'If it is an expression over objects, write pre=["expr: {name}"].'
        yield action.origin.error(
            expected=f"somebody to decide the condition {name!r} of pre=[…]",
            came="no @condition is called that, and no action posts it",
            fix=fix,
        )
    # Where there is another way, this one opens once the condition can be asked.
    elif wanted and not is_posted:
        late: list[list[object]] = []  # for each asker, the types that the condition looks at and actions make first
        for scope in askers:
            inputs = inputs_among(scope.conditions[name].parameters)
            needed = [each for each in inputs if each.required and each.binding == DEFAULT_BINDING]
            # A planner of single steps asks it on the way.
            asked_first = not scope.agent.component and planner_for(scope.agent).looks_ahead
            late.append([each.type for each in needed if asked_first and not _may_be_given(scope, each.type)])
        if all(late):
            made = Available(late[0][0])
            makers = [maker for maker, facts in askers[0].add_effects.items() if made in facts]
            those = f"{' or '.join(makers)}, which makes it," if makers else "the action that makes it"
            yield action.origin.error(
                expected=f"an action that may make the condition {name!r} of pre=[…] true",
                came=f"it looks at {with_article(made.type)}, which is made on the way, so at first it is false,"
                " and no action posts it",
                fix=f'Give {those} post=["{name}"].',
            )


def _may_be_given(scope: Scope, kind: object) -> bool:
    return any(related(each, kind) for each in possible_inputs(scope))


def chatbot_mistakes(agent: Agent, scope: Scope) -> Iterator[DeclarationError]:
    """The mistakes in a chatbot: `agent` as it was read, and its scope with the actions of others that it uses."""
    triggers = [each.settings.trigger for each in scope.actions.values()]
    if not any(each is not None and fits(UserMessage, each) for each in triggers):
        yield DeclarationError(
            agent.source or f"Chatbot {agent.name}",
            expected="an action that answers what a person says",
            came="no action of this chatbot takes a message or has the trigger UserMessage, so nobody gets an answer",
            fix="Put @action(trigger=UserMessage, can_rerun=True) above the method that answers.",
        )
    for action in (scope.actions[each.name] for each in agent.actions):
        settings = action.settings
        if settings.trigger is None and settings.can_rerun and not settings.pre:  # with conditions, it may stop
            yield action.origin.error(
                expected="a trigger, since this is an action of a chatbot",
                came="without one, and with `can_rerun=True`, it runs again and again until the budget of a turn is"
                " spent",
                fix="Write `trigger=UserMessage` for what answers a message, or the type of the event that it reacts"
                " to.",
            )
        if settings.trigger is None or settings.can_rerun:
            continue
        states = any(is_state(kind) for exit_ in action.outputs.exits for kind in exit_)
        if not (states or action.name in scope.goals or is_state(action.origin.owner)):
            yield action.origin.error(
                expected="to run again, for each message or event",
                came=f"it runs once in a conversation: after its first {settings.trigger.__name__} it is done",
                fix="Write `can_rerun=True` here, or return a state in which other actions go on.",
            )


def chatbot_remarks(agent: Agent, scope: Scope) -> Iterator[str]:
    """A sentence for each action that a chatbot runs without being asked, and one for all such actions of others."""
    made_by_others = {
        name: [each.type for each in action.inputs if each.required and each.type not in scope.unmade]
        for name, action in scope.actions.items()
    }
    unasked = [
        name
        for name, action in scope.actions.items()
        if not (action.settings.trigger or action.settings.pre or made_by_others[name])
    ]
    own = {each.name: each for each in agent.actions}
    for name, declared in own.items():
        action = scope.actions[name]  # in this scope its trigger may be another one
        if name in unasked and not action.settings.can_rerun:  # which would be a mistake
            yield (
                f"{action.origin} has no trigger: the chatbot {agent.name} runs it as soon as what it takes is there,"
                " without being asked. If it is to answer, write `trigger=UserMessage, can_rerun=True`."
            )
        made = next((each for each in made_by_others[name] if not is_state(each)), None)
        if made is not None and declared.settings.trigger is not action.settings.trigger:
            yield (
                f"{action.origin} takes a message, which is its trigger: when another action has made"
                f" {with_article(made)}, it waits for the message after that. If it is to run at once, write"
                f" `trigger={type_name(made)}`."
            )
    if lent := [name for name in unasked if name not in own]:
        yield (
            f"The chatbot {agent.name} runs these actions of others as soon as what they take is there, without being"
            f" asked, since they have no trigger: {listed(lent)}."
        )


def explain_goal(
    scope: Scope,
    goal: Goal,
    given: Sequence[object],
    groups: ToolGroupResolver | None,
    service: Service = lambda _kind: None,
) -> Explanation:
    """How a goal would be reached from objects of the given types, or why it would not.

    `groups` are the available tool groups; None: all of them. Costs and values are those at the start of a process;
    `service` gives the services for the methods that compute them.
    """
    problem, notes_by_action = _problem(scope, goal, given, groups, service)
    start, later = problem.start, scope.evaluated_conditions - problem.start.unknown
    opened = replace(problem, start=WorldState(start.true, start.unknown | later)) if later else problem
    concerned = prune(opened) if notes_by_action or later else ()
    required = (each.requires for each in scope.system.operators if each.action in concerned)
    needed_on_the_way = {fact for each in required for fact, value in each.items() if value} if later else set[Fact]()
    waiting = [each for each in later if each in needed_on_the_way]
    found = explain(problem)
    missing = found.failures[0].missing if found.failures else ()
    wanted = [each.fact.type for each in missing if isinstance(each.fact, Available) and each.value]
    notes = (
        *(note for action, note in notes_by_action.items() if action in concerned),
        *(
            f"The {each} counts as false here: it looks at what is made on the way, and is asked once that is there."
            for each in waiting
        ),
        *near_misses(scope.agent, wanted),
    )
    return replace(found, notes=notes, unforeseen=bool(waiting))


def _problem(
    scope: Scope, goal: Goal, given: Sequence[object], groups: ToolGroupResolver | None, service: Service
) -> tuple[Problem, Mapping[str, str]]:
    """The planning problem of a goal from objects of the given types, and by action a note on an unknown cost or value.

    The latest starts are cached, because the goals of an agent are explained one after another, mostly from the same
    types.
    """
    there = frozenset(each for each in scope.groups if groups is None or groups.unmet(each) is None)
    question = (tuple(given), there)
    start = scope.starts.get(question)
    if start is None:
        if len(scope.starts) >= _STARTS:
            scope.starts.clear()
        kinds, conditions = tuple(_with_parts(given)), scope.evaluated_conditions
        if planner_for(scope.agent).looks_ahead:  # a planner of single steps evaluates them on the way
            inputs = {each: inputs_among(scope.conditions[each.condition].parameters) for each in conditions}
            wanted = {each: [one.type for one in found if one.required] for each, found in inputs.items()}
            conditions = frozenset(
                each for each in conditions if all(any(related(kind, one) for kind in kinds) for one in wanted[each])
            )
        start = scope.starts[question] = WorldState(there.union(*map(scope.facts_given_by, kinds)), conditions)
    costs, values, notes = _estimates(scope, given, service)
    goals = (scope.plan_goals[goal.name],)
    return Problem(scope.system, start, goals, costs=costs, values=values, deadline=PLANNING_SECONDS), notes


def near_misses(agent: Agent, kinds: Iterable[object]) -> Iterator[str]:
    """A sentence for each method of an agent that would give an object of these types, but is written another way."""
    for kind in kinds:
        would = f"would give {with_article(kind)}, but"
        for method in unmarked_givers(agent, kind):
            yield f"{method} {would} is not marked as an action: put @action above it."
        for action in agent.actions:
            for given in chain(*action.outputs.exits):
                if get_origin(given) is tuple and any(fits(each, kind) for each in get_args(given)):
                    yield (
                        f"{action.name} {would} returns {type_name(given)}, which is one object to the planner:"
                        " return a SomeOf, a class with a field for each part."
                    )


def starting_types(
    scope: Scope, goal: Goal, groups: ToolGroupResolver, service: Service = lambda _kind: None
) -> tuple[object, ...]:
    """The types from which a goal can be started: declared, else what its plan needs and no action makes."""
    if goal.export.starting_input_types:
        return tuple(goal.export.starting_input_types)
    leaves = scope.unmade
    found = (best_plan(_problem(scope, goal, leaves, each, service)[0]) for each in (groups, None))
    plan = next((each for each in found if isinstance(each, Plan)), None)
    if plan is None:
        return ()
    needed = {fact for step in plan.steps for fact, value in step.requires.items() if value}
    kinds = {fact.type for fact in needed if isinstance(fact, Available) and fact.binding == DEFAULT_BINDING}
    return tuple(kind for kind in leaves if kind in kinds)


def possible_inputs(scope: Scope) -> tuple[object, ...]:
    """The types that a process may begin with: starting types of its goals, and types that no action makes.

    If each goal names its own starting types, only those count; but a chatbot also gets objects while it runs.
    """
    goals = scope.goals.values()
    declared = dict.fromkeys(kind for goal in goals for kind in goal.export.starting_input_types)
    declared = dict.fromkeys(_with_parts(declared))
    if goals and scope.agent.chat is None and all(goal.export.starting_input_types for goal in goals):
        return tuple(declared)
    return tuple(declared | dict.fromkeys(scope.unmade))


def _with_parts(kinds: Iterable[object]) -> Iterator[object]:
    """Types, each followed by the types of its parts where it is an aggregation."""
    for kind in kinds:
        yield kind
        if isinstance(kind, type) and issubclass(kind, Aggregation):
            yield from field_kinds(kind).values()


class _NotKnown(Exception):
    """Why a cost or a value is not known before the process runs; `faulty`: whether it fails at run time too."""

    def __init__(self, why: str, *, faulty: bool = False) -> None:
        super().__init__(why)
        self.faulty = faulty


def _estimates(
    scope: Scope, given: Sequence[object], service: Service
) -> tuple[Mapping[str, float], Mapping[str, float], Mapping[str, str]]:
    """The costs and the values that methods compute, by action, where objects of the given types are there.

    The third mapping has, by action, a sentence for each cost or value that is not known or fails.
    """
    costs, values, notes = dict[str, float](), dict[str, float](), dict[str, str]()
    given = tuple(_with_parts(given)) if scope.with_computed_cost else ()
    for action in scope.with_computed_cost:
        settings = action.settings
        for what, cost, said, at_worst, least, found in (
            ("cost", action.cost, settings.cost, DEAREST, 0.0, costs),
            ("value", action.value, settings.value, settings.value, float("-inf"), values),
        ):
            if cost is None:
                continue
            try:
                found[action.name] = _estimate(cost, given, service, least)
            except _NotKnown as why:
                note, counts = f"The {what} of {action.name} is known at run time only: {cost.name} {why}.", f"{said:g}"
                if why.faulty:
                    found[action.name] = at_worst
                    note = f"The {what} of {action.name} cannot be computed: {cost.name} {why}."
                    dearest = ", dearer than any other" if what == "cost" else ""
                    counts = f"{at_worst:g}{dearest}, as it does at run time"
                notes[action.name] = f"{note} It counts as {counts}{'' if why.faulty else ' here'}."
    return costs, values, notes


def _estimate(cost: Cost, given: Sequence[object], service: Service, least: float) -> float:
    """The result of a method that computes a cost or value, with objects of the given types. Raises `_NotKnown`."""
    arguments = dict[str, object]()
    for each in cost.parameters:
        match each:
            case Input():
                needed = [part.type for part in each.parts if part.required] or [each.type]
                if all(any(related(kind, wanted) for kind in given) for wanted in needed):
                    raise _NotKnown(f"looks at {Available(each.type)}")
                arguments[each.name] = each.default
            case ProvidedInput():
                provided = cost.owner if isinstance(cost.owner, each.type) else service(each.type)
                arguments[each.name] = each.default if provided is None else provided
            case _:
                raise _NotKnown("looks at the process")
    waits = False
    try:
        found = cost.function(**arguments)
        if inspect.isawaitable(found):  # the result of an async method, if that does not have to wait
            step: Any = found.__await__()
            next(step)
            step.close()
            waits = True
    except StopIteration as end:
        found = end.value
    except Exception as error:
        raise _NotKnown(f"raised {type(error).__name__} when asked", faulty=True) from error
    if waits:
        raise _NotKnown("waits for something")
    usable = usable_figure(found, least)
    if usable is None:
        raise _NotKnown(f"gave {found!r:.100}, which is no such figure", faulty=True)
    return min(usable, DEAREST)
