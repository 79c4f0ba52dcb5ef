"""The scope of a run: an agent, the actions of components, and its goals, compiled for the planner.

It is built once for an agent, shared by all its processes, and holds no state of a process. Also here: which objects of
its parent's blackboard a sub-process gets, because that depends on the scope of the child.
"""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain
from typing import TypeAlias, cast

from goalport.agents.blackboard import (
    DEFAULT_BINDING,
    Blackboard,
    fits,
    is_generic,
    is_of,
    matcher,
    related_by_bases_only,
)
from goalport.agents.domain import (
    Action,
    Agent,
    Condition,
    Goal,
    Injected,
    Parameter,
    ProvidedInput,
    conditions_of,
    inputs_among,
    is_state,
    operators_of,
    plan_goal,
    promises_of,
)
from goalport.agents.plan import (
    Available,
    Fact,
    GroupAvailable,
    HasRun,
    Holds,
    LastResult,
    NoPlan,
    Operator,
    Plan,
    PlanGoal,
    PlanningSystem,
    Problem,
    Undecided,
    WorldState,
    plan,
)
from goalport.models.llm import UserMessage
from goalport.runtime.ai import Ai
from goalport.runtime.process.process_options import StuckHandler
from goalport.tools import ToolGroupResolver

Search: TypeAlias = Callable[[Problem], Plan | Undecided | NoPlan]
_ANSWERS = 256
"""The most search results that are cached, and the most problems and world states."""
PLANNING_SECONDS = 1.0
"""The most seconds that a search may take, since it blocks the event loop."""


def asks_a_model(action: Action) -> bool:
    """Whether an action gets an `Ai`: by a parameter, or in the constructor of its class."""
    kinds = [each.type for each in action.parameters if isinstance(each, (Injected, ProvidedInput))]
    attribute_types = map(type, getattr(action.owner, "__dict__", {}).values())
    taken = getattr(type(action.owner).__init__, "__annotations__", {}).values()  # it may not be constructed yet
    return Ai in kinds or Ai in attribute_types or Ai in taken


def asks_models(agent: Agent) -> bool:
    """Whether an agent may ask models when it runs: by its planner, or by an action."""
    return agent.planner.asks_models or any(map(asks_a_model, agent.actions))


class Scope:
    """An agent with the components' actions, compiled to operators and to facts that can be read from a blackboard."""

    def __init__(self, agent: Agent, components: Iterable[Agent] = ()) -> None:
        whole = agent.with_components(tuple(components))
        self.agent = whole if agent.chat is None else replace(whole, actions=tuple(map(_triggered, whole.actions)))
        self.actions: dict[str, Action] = {each.name: each for each in self.agent.actions}
        self.conditions: dict[str, Condition] = {each.name: each for each in conditions_of(self.agent)}
        self.goals: dict[str, Goal] = {each.name: each for each in self.agent.goals}
        self.long_goals = frozenset(each.name for each in self.agent.goals if each.export.long)
        """The goals that are declared long-running: their callers may fetch the result later."""
        self.plan_goals: dict[str, PlanGoal] = {each.name: plan_goal(each) for each in self.agent.goals}
        self.reached = {name: Plan(each, (), 0.0, each.value) for name, each in self.plan_goals.items()}
        """For each goal, the empty plan for when the goal holds already."""
        self.with_computed_cost = tuple(each for each in self.actions.values() if each.cost or each.value)
        """The actions whose cost or value is computed again for each plan."""
        self._condition_costs: dict[Fact, float] = {
            Holds(each.name): each.cost for each in self.agent.conditions if each.cost
        }
        self.system = PlanningSystem(operators_of(self.agent), self._condition_costs)
        made = {name: set[Fact]() for name in self.actions}
        for each in self.system.operators:
            made[each.action].update(_made_true(each))
        self.add_effects = {name: frozenset(facts) for name, facts in made.items()}
        """The facts that each action makes true when it succeeds and returns all its outputs."""
        self._systems_keeping: dict[frozenset[Fact], PlanningSystem] = {}
        self._problems: dict[object, Problem] = {}
        self._answers: dict[object, Plan | Undecided | NoPlan] = {}
        steps_and_goals = (*self.system.operators, *self.plan_goals.values())
        self.facts = tuple(dict.fromkeys(fact for each in steps_and_goals for fact in each.requires))
        """The facts that actions and goals require to be true or false."""
        available = [each for each in self.facts if isinstance(each, Available)]
        unnamed = [each for each in available if each.binding == DEFAULT_BINDING]
        self._by_class = [each for each in unnamed if _is_plain(each.type)]
        self._by_entry = [each for each in unnamed if not _is_plain(each.type)]
        self._named = [each for each in available if each.binding != DEFAULT_BINDING]
        figures = (each for action in self.with_computed_cost for each in (action.cost, action.value) if each)
        askers = (*self.actions.values(), *self.conditions.values(), *figures)
        takes = chain.from_iterable(inputs_of(each.parameters) for each in askers)
        exports = ((*each.export.starting_input_types, each.output) for each in self.goals.values())
        of_goals = (Available(kind) for kinds in exports for kind in kinds if kind is not None)
        self._generic = tuple(each for each in (*takes, *of_goals) if not _is_plain(each.type))
        self._triggers = tuple(each for each in self.facts if isinstance(each, LastResult))
        self._numbered = tuple(dict.fromkeys((*self.facts, *map(HasRun, self.actions))))
        """The facts in the order of their bits: a set of facts is an integer, for speed, since each step needs one."""
        self._bits: Mapping[Fact, int] = {fact: 1 << place for place, fact in enumerate(self._numbered)}
        self._has_run = {name: self._bits[HasRun(name)] for name in self.actions}
        self._bits_by_class: dict[type, int] = {}
        self._worlds: dict[int, WorldState] = {}
        self.starts: dict[object, WorldState] = {}
        """The world states of the starts that were asked for; the code that explains goals fills it."""
        self._facts_by_type: dict[object, frozenset[Fact]] = {}
        self.groups = tuple(each for each in self.facts if isinstance(each, GroupAvailable))
        named = [each for each in self.facts if isinstance(each, Holds)]
        self.evaluated_conditions = frozenset(each for each in named if each.condition in self.conditions)
        self._stated_conditions = tuple(each for each in named if each not in self.evaluated_conditions)
        self._needs_more = bool(self._by_entry or self._named or self._triggers or self._stated_conditions)

    @property
    def may_help_itself(self) -> bool:
        """Whether its agent handles a stuck process: then a goal may be reached although no plan leads to it."""
        return any(isinstance(self.actions[each].owner, StuckHandler) for each in self.goals)

    def problem(
        self, system: PlanningSystem, start: WorldState, goals: tuple[str, ...], excluded: frozenset[str]
    ) -> Problem:
        """The planning problem from a start to these goals, without excluded actions; cached, as its solution is."""
        question = (system, start, goals, excluded)
        problem = self._problems.get(question)
        if problem is None:
            if len(self._problems) >= _ANSWERS:
                self._problems.clear()
            wanted = tuple(map(self.plan_goals.__getitem__, goals))
            problem = Problem(system, start, wanted, excluded, deadline=PLANNING_SECONDS)
            self._problems[question] = problem
        return problem

    def answer(self, problem: Problem, search: Search = plan) -> Plan | Undecided | NoPlan:
        """The result of a search, cached: the processes of an agent mostly pass through the same states."""
        question = (search, problem.system, problem.start, problem.goals, problem.excluded)
        cacheable = not (problem.costs or problem.values)
        if cacheable and (known := self._answers.get(question)):
            return known
        found = search(problem)
        # A result that only the time limit explains must not be cached.
        if cacheable and found.proven:
            if len(self._answers) >= _ANSWERS:
                self._answers.clear()
            self._answers[question] = found
        return found

    def system_on(self, blackboard: Blackboard) -> PlanningSystem:
        """The operators for this blackboard: clearing it does not remove protected objects."""
        if not blackboard.protects:
            return self.system
        left = blackboard.spawn()
        left.clear()
        kept = frozenset(
            each for each in self.facts_on(left) if isinstance(each, Available) and not is_state(each.type)
        )
        if kept not in self._systems_keeping:
            operators = [
                replace(each, effects={fact: to for fact, to in each.effects.items() if to or fact not in kept})
                for each in self.system.operators
            ]
            self._systems_keeping[kept] = PlanningSystem(operators, self._condition_costs)
        return self._systems_keeping[kept]

    def facts_on(self, blackboard: Blackboard, groups: ToolGroupResolver | None = None) -> set[Fact]:
        """The facts that are true by the objects and the stated conditions of a blackboard, and by the tool groups."""
        return set(self._facts_of(self._bits_on(blackboard, groups)))

    def world_on(self, blackboard: Blackboard, groups: ToolGroupResolver, has_run: Iterable[str]) -> WorldState:
        """What is known from a blackboard, the tool groups and the actions that have run; conditions are unknown.

        Equal states are the same object, so that cached solutions are found fast.
        """
        bits = self._bits_on(blackboard, groups)
        for name in has_run:
            bits |= self._has_run.get(name, 0)  # a history may name what the code no longer has
        world = self._worlds.get(bits)
        if world is None:
            if len(self._worlds) >= _ANSWERS:
                self._worlds.clear()
            world = self._worlds[bits] = WorldState(frozenset(self._facts_of(bits)), self.evaluated_conditions)
        return world

    def _facts_of(self, bits: int) -> Iterator[Fact]:
        while bits:
            last = bits & -bits
            yield self._numbered[last.bit_length() - 1]
            bits ^= last

    def _bits_on(self, blackboard: Blackboard, groups: ToolGroupResolver | None) -> int:
        found, known = 0, self._bits_by_class
        for entry in blackboard.samples:
            bits = known.get(type(entry.value))
            if bits is None:
                shown = [fact for fact in self._by_class if is_of(entry.value, None, fact.type)]
                bits = known[type(entry.value)] = sum(map(self._bits.__getitem__, shown))
            found |= bits
        if self._needs_more:  # than the class of an object
            board, last = blackboard, blackboard.last_entry
            more: list[Fact] = [each for each in self._by_entry if board.last(each.type) is not None]
            more += [each for each in self._named if board.get(each.binding, cast("type", each.type)) is not None]
            more += [each for each in self._triggers if last is not None and last.is_of(each.type)]
            more += [each for each in self._stated_conditions if board.conditions.get(each.condition, False)]
            found |= sum(map(self._bits.__getitem__, more))
        if groups is not None and self.groups:
            found |= sum(self._bits[each] for each in self.groups if groups.unmet(each) is None)
        return found

    def facts_given_by(self, kind: object) -> frozenset[Fact]:
        """The facts that are true once there is an object declared as `kind`, whatever its class is at run time."""
        facts = self._facts_by_type.get(kind)
        if facts is None:
            classes = (*kind.__mro__, None) if related_by_bases_only(kind) else self._facts_by_class
            asked = chain.from_iterable(self._facts_by_class.get(each, ()) for each in classes)
            facts = self._facts_by_type[kind] = frozenset(
                each
                for each in asked
                if (isinstance(each, LastResult) or (isinstance(each, Available) and each.binding == DEFAULT_BINDING))
                and fits(kind, each.type)
            )
        return facts

    @cached_property
    def _facts_by_class(self) -> Mapping[type | None, Sequence[Fact]]:
        """The facts about objects, by required class; under None the facts whose type base classes do not tell."""
        found = defaultdict[type | None, list[Fact]](list)
        for each in self.facts:
            if isinstance(each, Available | LastResult):
                found[each.type if related_by_bases_only(each.type) else None].append(each)
        return found

    def infer_type(self, binding: str, value: object) -> object:
        """The generic type of an object whose class does not tell it and that has no declared type; None: unknown.

        It is the type that the agent takes under this name, else from its callers, else anywhere; None if several are
        possible.
        """
        return inferred_type(binding, value, self._generic, self.unmade) if self._generic else None

    @cached_property
    def durable_goals(self) -> frozenset[str]:
        """The goals whose processes are stored at each step: they are long-running or durable, or may ask people."""
        if any(each.outputs.may_wait for each in self.agent.actions):
            return frozenset(self.goals)
        asks = asks_models(self.agent)
        return frozenset(
            name
            for name, goal in self.goals.items()
            if goal.export.durable or (asks if goal.export.long is None else goal.export.long)
        )

    @cached_property
    def unmade(self) -> tuple[object, ...]:
        """The types that some action needs and no action produces."""
        made = {fact for each in self.system.operators for fact in _made_true(each)}
        unnamed = (each for each in self.facts if isinstance(each, Available) and each.binding == DEFAULT_BINDING)
        return tuple(dict.fromkeys(each.type for each in unnamed if each not in made))


def _triggered(action: Action) -> Action:
    """An action of a chatbot, triggered by the message that it takes, unless it declares a trigger."""
    taken = (each.type for each in action.inputs if each.required)
    message = next((each for each in taken if isinstance(each, type) and issubclass(each, UserMessage)), None)
    if message is None or action.settings.trigger is not None:
        return action
    return replace(action, settings=replace(action.settings, trigger=message))


def _made_true(operator: Operator) -> Iterator[Fact]:
    return (fact for fact, value in operator.effects.items() if value)


def inputs_of(parameters: Iterable[Parameter]) -> Iterator[Available]:
    """The blackboard inputs among parameters, required or not."""
    return (Available(each.type, each.binding) for each in inputs_among(parameters))


def inferred_type(binding: str, value: object, takes: Iterable[Available], unmade: Collection[object]) -> object:
    """The type of an object without a declared type, by inputs and unmade types; see `Scope.infer_type`."""
    may_be = [each for each in takes if not _is_plain(each.type) and matcher(each.type)(value)]
    if not may_be or any(is_of(value, None, each.type) for each in may_be):
        return None
    choices = (
        {each.type for each in may_be if each.binding == binding != DEFAULT_BINDING},
        {each.type for each in may_be if each.type in unmade},
        {each.type for each in may_be},
    )
    return next((each.pop() for each in choices if len(each) == 1), None)


def _is_plain(kind: object) -> bool:
    """Whether a value's class alone decides about a type; it does not for generic types and structural protocols."""
    return not is_generic(kind) and not getattr(kind, "_is_protocol", False)


def blackboard_for_child(blackboard: Blackboard, scope: Scope, *, called_with_inputs: bool) -> Blackboard:
    """A copy of the parent's blackboard for a sub-process, without what the sub-process produces itself.

    States are not copied, nor conditions in `post` of the child's actions, nor objects of types that its actions
    produce. A child that is called without inputs takes them from the parent: then objects that its actions take are
    kept.
    """
    copy, actions = blackboard.spawn(), scope.actions.values()
    takers = () if called_with_inputs else actions
    made = [kind for action in actions for exit_ in action.outputs.exits for kind in exit_]
    taken = [each.type for action in takers for each in action.inputs]
    for entry in copy.entries:
        if is_state(type(entry.value)) or (any(map(entry.is_of, made)) and not any(map(entry.is_of, taken))):
            copy.hide(entry.value)
    posted = {name for action in actions for name in promises_of(action.settings.post)}
    needed = () if called_with_inputs else (each.condition for each in scope.facts if isinstance(each, Holds))
    for condition in posted.difference(needed):
        copy.unset_condition(condition)
    return copy
