"""Choosing what to run: an agent as it is (closed mode), or a goal with every action that helps to it (open mode).

Nothing runs before something was chosen with enough confidence. Below: `ranking` asks the model. Above: `front_agent`,
and programs.
"""

import inspect
from collections import Counter
from collections.abc import Awaitable, Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Protocol, TypeAlias

from goalport.agents.blackboard import Blackboard, Typed
from goalport.agents.domain import Agent, Goal, RetryPolicy, UserInput
from goalport.agents.plan import Plan, Problem, WorldState, plan
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import BadInput, GoalNotApproved, NoAgentFound, NoGoalFound
from goalport.base.words import in_json
from goalport.models.llm import LlmOptions, Message
from goalport.runtime.ai import Ai
from goalport.runtime.autonomy.ranking import Achieved, Candidate, Choice, Ranker, Ranking, rank, ranking_of
from goalport.runtime.process import (
    PLANNING_SECONDS,
    AgentProcess,
    ProcessOptions,
    Scope,
    Spending,
    pruned,
    spending_outside,
)
from goalport.tools import ToolGroupResolver

Approver: TypeAlias = "Callable[[Choice], bool | Awaitable[bool]]"
"""Decides whether a goal that was chosen may be pursued."""


class DeployedAgents(Protocol):
    """What is deployed on a platform."""

    def __iter__(self) -> Iterator[Agent]: ...
    @property
    def components(self) -> tuple[Agent, ...]: ...
    def scope(self, declared: object, /) -> Scope: ...


class Platform(Protocol):
    """What autonomy needs of a platform; `AgentPlatform` has it."""

    ai: Ai
    groups: ToolGroupResolver
    ranker: Ranker | None
    may_start: Callable[[Caller, Goal], bool]

    @property
    def agents(self) -> DeployedAgents: ...
    def starting_types(self, goal: str | Goal, /) -> tuple[object, ...]: ...
    async def run(
        self,
        agent: str | Agent,
        *inputs: object,
        bindings: Mapping[str, object] | None = None,
        goals: Sequence[str] | None = None,
        options: ProcessOptions | None = None,
        caller: Caller = ANONYMOUS,
        spent: Iterable[Spending] = (),
    ) -> AgentProcess: ...


@dataclass(frozen=True, slots=True)
class PlannedGoal:
    """A goal that can be reached from what there is, and the plan to it."""

    agent: Agent
    goal: Goal
    plan: Plan


@dataclass(frozen=True, kw_only=True, slots=True)
class Autonomy:
    """`await Autonomy(platform=platform).choose_and_run_agent(UserInput("Lynda is a Scorpio, find news for her"))`.

    What somebody wants is the text of a `UserInput` among the inputs, else a text among them, else all of them as JSON.
    A candidate is chosen if the model's confidence in it is above the cut-off; one that is the only candidate is chosen
    without asking a model.
    """

    platform: Platform
    agent_confidence_cut_off: float = 0.6
    goal_confidence_cut_off: float = 0.6
    llm: LlmOptions | None = None
    """The model that ranks; None: that of the `Ai` that is used."""
    max_attempts: int = 5
    """How often the model is asked while it names what is no candidate."""
    backoff: RetryPolicy = field(default_factory=lambda: RetryPolicy(first_delay=0.0))
    """The waits in between."""
    approver: "Approver | None" = None
    """Asked before a goal is pursued."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ValueError(f"Expected max_attempts to be a whole number from 1 up, but came {self.max_attempts!r}.")
        for name in ("agent_confidence_cut_off", "goal_confidence_cut_off"):
            if not 0 <= (value := getattr(self, name)) <= 1:
                raise ValueError(f"Expected {name} to be a number from 0 to 1, but came {value!r}.")

    async def choose_agent(
        self,
        *inputs: object,
        among: Iterable[Goal] | None = None,
        conversation: Sequence[Message] = (),
        ai: Ai | None = None,
    ) -> Choice:
        """Choose the agent that fits best, to run it alone (closed mode).

        `among` are the goals that count; by default all that are deployed. `conversation` is what was said before; `ai`
        asks the model, by default that of the platform. Raises `NoAgentFound` with the ranking, `BadInput` if nobody
        said anything, and `ModelError`.
        """
        intent, agents = _intent(inputs), dict[str, Agent]()
        wanted = None if among is None else {each.name for each in among}
        for each in self.platform.agents:
            if goals := tuple(_goals(each, wanted)):
                agents[each.name] = each if wanted is None or goals == each.goals else replace(each, goals=goals)
        candidates = [
            Candidate(each.name, each.description, tuple(chain.from_iterable(goal.examples for goal in each.goals)))
            for each in agents.values()
        ]
        ranking, spent = await self._rank(candidates, intent, conversation, ai)
        agent = agents[_best(ranking, self.agent_confidence_cut_off, "agent", NoAgentFound)]
        return Choice(agent, tuple(each.name for each in agent.goals), intent, ranking, spent)

    async def choose_goal(
        self,
        *inputs: object,
        among: Iterable[Goal] | None = None,
        assembled: bool = True,
        conversation: Sequence[Message] = (),
        ai: Ai | None = None,
    ) -> Choice:
        """Choose the goal that fits best, and assemble an agent for it of all actions that help (open mode).

        `among` are the goals to choose from; by default all that are deployed. With `assembled=False` it is planned for
        with the actions of its own agent. Raises `NoGoalFound` with the ranking, `GoalNotApproved`, and what
        `choose_agent` raises.
        """
        intent = _intent(inputs)
        wanted = None if among is None else {each.name for each in among}
        found = {goal.name: (agent, goal) for agent in self.platform.agents for goal in _goals(agent, wanted)}
        shown = Counter(goal.export.name or goal.short_name for _, goal in found.values())
        names: dict[str, tuple[Agent, Goal]] = {}
        for owner, goal in found.values():
            short = goal.export.name or goal.short_name
            names[short if shown[short] == 1 else goal.name] = owner, goal
        candidates = [Candidate(name, goal.description, goal.examples) for name, (_, goal) in names.items()]
        ranking, spent = await self._rank(candidates, intent, conversation, ai)
        owner, goal = names[_best(ranking, self.goal_confidence_cut_off, "goal", NoGoalFound)]
        agent = self._assembled(owner, goal, inputs) if assembled else replace(owner, goals=(goal,))
        choice = Choice(agent, (goal.name,), intent, ranking, spent)
        approved = True if self.approver is None else self.approver(choice)
        if not (await approved if inspect.isawaitable(approved) else approved):
            raise GoalNotApproved(f"The goal {choice.name} was chosen, but it was not approved.", ranking.pairs)
        return choice

    async def choose_and_run_agent(
        self,
        *inputs: object,
        conversation: Sequence[Message] = (),
        options: ProcessOptions | None = None,
        caller: Caller = ANONYMOUS,
    ) -> AgentProcess:
        """Choose an agent as `choose_agent` does, run it with the inputs to its end, and return the process."""
        return await self._run(await self.choose_agent(*inputs, conversation=conversation), inputs, options, caller)

    async def choose_and_accomplish_goal(
        self,
        *inputs: object,
        conversation: Sequence[Message] = (),
        options: ProcessOptions | None = None,
        caller: Caller = ANONYMOUS,
    ) -> AgentProcess:
        """Choose a goal as `choose_goal` does, pursue it from the inputs to the end, and return the process."""
        return await self._run(await self.choose_goal(*inputs, conversation=conversation), inputs, options, caller)

    def plans_for(self, *inputs: object, bindings: Mapping[str, object] | None = None) -> list[PlannedGoal]:
        """The goals that can be reached at once from these objects, with their plans, the most valuable first.

        Nothing runs. Conditions count as if they turned out well.
        """
        blackboard, agents = _blackboard(inputs, bindings), self.platform.agents
        found = [
            PlannedGoal(agent, goal, plan)
            for agent in agents
            for goal in _goals(agent)
            if (plan := self._plan(agents.scope(agent), goal, blackboard)) is not None
        ]
        return sorted(found, key=lambda each: -each.plan.net_value)

    def _plan(self, scope: Scope, goal: Goal, blackboard: Blackboard) -> Plan | None:
        """The plan to a goal; None: there is none, however the conditions turn out."""
        facts = frozenset(scope.facts_on(blackboard, self.platform.groups))
        start = WorldState(facts, scope.evaluated_conditions)
        problem = Problem(scope.system, start, (scope.plan_goals[goal.name],), deadline=PLANNING_SECONDS)
        found = plan(problem)
        if not isinstance(found, Plan):  # it stands on a condition
            found = plan(replace(problem, start=WorldState(facts | scope.evaluated_conditions)))
        return found if isinstance(found, Plan) else None

    async def _rank(
        self, candidates: Sequence[Candidate], intent: str, conversation: Sequence[Message], ai: Ai | None
    ) -> tuple[Ranking, tuple[Spending, ...]]:
        if (ranker := self.platform.ranker) is not None and candidates:
            rated = ranker.rank(candidates, intent)
            return ranking_of(candidates, await rated if inspect.isawaitable(rated) else rated), ()
        asks = ai or self.platform.ai
        asks = asks if self.llm is None else asks.with_llm(self.llm)
        with spending_outside() as spent:
            delays = replace(self.backoff, attempts=self.max_attempts).delays()
            ranking = await rank(candidates, intent, asks, conversation=conversation, delays=tuple(delays))
        return ranking, tuple(spent)

    async def _run(
        self, choice: Choice, inputs: Sequence[object], options: ProcessOptions | None, caller: Caller
    ) -> AgentProcess:
        given = [UserInput(each) if isinstance(each, str) else each for each in inputs]
        return await self.platform.run(
            choice.agent, *given, goals=choice.goals, options=options, caller=caller, spent=choice.spent
        )

    def _assembled(self, owner: Agent, goal: Goal, inputs: Sequence[object]) -> Agent:
        """An agent for one goal: its own agent's actions, and those of all others that can help to reach it.

        An opaque agent lends nothing to others, and takes nothing of them.
        """
        agents = self.platform.agents
        others = [] if owner.opaque else [each for each in (*agents, *agents.components) if not each.opaque]
        together = replace(owner.with_components(others), name=f"{owner.name}.{goal.short_name}", goals=(goal,))
        scope = Scope(replace(together, opaque=True, source=""))
        blackboard = _blackboard(inputs)
        if self._plan(scope, goal, blackboard) is None:
            return scope.agent  # other objects may be given too, or the process says what is missing
        return pruned(scope, blackboard, [goal.name], self.platform.groups).agent


def _intent(inputs: Sequence[object]) -> str:
    """What somebody wants, in words. Raises `BadInput` if there are none."""
    said = [each.content for each in inputs if isinstance(each, UserInput)]
    said += [each for each in inputs if isinstance(each, str)]
    text = said[0] if said else in_json([Typed.value_of(each) for each in inputs]) if inputs else ""
    if not text.strip():
        raise BadInput("Say what is to be done: the text is empty.")
    return text


def _blackboard(inputs: Iterable[object], bindings: Mapping[str, object] | None = None) -> Blackboard:
    found = Blackboard()
    for each in inputs:
        found.add(UserInput(each) if isinstance(each, str) else each)
    for name, value in (bindings or {}).items():
        found.bind(name, value)
    return found


def _goals(agent: Agent, wanted: Container[str] | None = None) -> list[Goal]:
    """The goals that may be chosen: not one that chooses itself, as that of the front agent does."""
    goals = [each for each in agent.goals if each.output is not Achieved]
    return goals if wanted is None else [each for each in goals if each.name in wanted]


def _best(ranking: Ranking, cut_off: float, what: str, error: type[NoAgentFound | NoGoalFound]) -> str:
    """The name of the candidate that fits best. Raises `error` if none fits well enough."""
    best = ranking.best
    if best is None:
        raise error(f"There is no {what} to choose from.", ranking.pairs)
    if best.confidence <= cut_off:
        near = f"The nearest are {ranking.nearest}. Say more clearly what you want."
        raise error(f"No {what} fits well enough. {near}", ranking.pairs)
    return best.name
