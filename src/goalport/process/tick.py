"""The loop of a process: see how things are, plan, run the first action of the plan, and begin again.

Observing and planning are pure; the only things awaited are the user's functions. (User guide, section 3.2.2.)
"""

import math
import sys
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from logging import getLogger
from typing import TypeAlias, TypeGuard

from goalport.domain import Action, Condition, Cost
from goalport.events import GoalAchieved, PlanFormulated
from goalport.observe.spans import note_spent, process_span
from goalport.plan import Fact, Holds, NoPlan, Plan, Problem, Undecided, WorldState
from goalport.process.agent_process import AgentProcess
from goalport.process.arguments import fill, missing
from goalport.process.context import ActionContext
from goalport.process.invoke import in_words, invoke_all, told
from goalport.process.outcome import Completed, Failed, Killed, Outcome, Stuck, Terminated, Waiting
from goalport.process.pacing import paused
from goalport.process.pending import next_steps, waits
from goalport.process.planners import Planner, planner_for
from goalport.process.unsticking import unstick

__all__ = ["drive", "step", "usable_figure"]

_log = getLogger(__name__)

_NO_FIGURES: tuple[dict[str, float], dict[str, float]] = ({}, {})
_LARGEST = sys.float_info.max
Advance: TypeAlias = Callable[[AgentProcess], Awaitable[Outcome | None]]
"""How far a process is brought: its outcome, or None where it can go on."""
PLANNING_SECONDS = 1.0
"""How long a plan may be searched for: everything else in the event loop stands still meanwhile."""


async def drive(process: AgentProcess) -> None:
    """Run a process to its end, whatever that is; the outcome is on the process."""
    await _traced(process, _to_the_end)


async def step(process: AgentProcess) -> None:
    """Take one step of a process, which may be its last; else it rests."""
    await _traced(process, tick)


async def _traced(process: AgentProcess, advance: Advance) -> None:
    with process_span(process.agent.name, process_id=process.id, description=process.agent.description) as span:
        await _drive(process, advance, traced=span.is_recording())
        if process.traced:
            span.set_attribute("goalport.process.status", str(process.status))
            note_spent(span, process.usage.spent)


async def _drive(process: AgentProcess, advance: Advance, *, traced: bool) -> None:
    outcome: Outcome | None = None
    goes_on = False
    try:
        with process.running(traced=traced):
            outcome = await advance(process)
            goes_on = outcome is None and process.end_requested is None
    except Exception as bug:
        _log.exception("Process %s could not go on.", process.id)
        outcome = Failed(f"The process could not go on: {told(process, bug)}")
        process.fail(outcome.reason, error=bug)
    finally:
        if goes_on:
            process.release()
        else:
            outcome = _ending(process, outcome)
            if _is_final(outcome):
                _dismiss_children(process)
            process.settle(outcome)


def _dismiss_children(process: AgentProcess) -> None:
    """End what an action had started that nobody waits for any more."""
    for child in process.children:
        if not child.status.ended:
            child.kill("The process that had started it has ended.")


def _ending(process: AgentProcess, outcome: Outcome | None) -> Outcome:
    """How it ended; whoever killed it is believed over what came of it in the same moment."""
    requested = process.end_requested
    if requested is not None and (isinstance(requested, Killed) or outcome is None or not _is_final(outcome)):
        return requested
    return outcome or Terminated("The program stopped.")


def _is_final(outcome: Outcome) -> bool:
    return not isinstance(outcome, (Waiting, Stuck))


async def _to_the_end(process: AgentProcess) -> Outcome:
    outcome: Outcome | None = None
    while outcome is None:
        outcome = await tick(process)
    return outcome


async def tick(process: AgentProcess) -> Outcome | None:
    """One step: plan and run one action. The outcome when the process has come to an end, else None."""
    if process.end_requested is not None:
        return process.end_requested
    planner = planner_for(process.agent, process.options)
    found, problem, actual = await _formulate(process, planner)
    skipped = process.progress.take_skipped()
    if isinstance(found, NoPlan):
        return None if skipped else await unstick(process, planner.nothing_left(process, problem, found))
    process.pursue(process.scope.goals.get(found.goal.name), tuple(step.action for step in found.steps))
    steps = next_steps(process, found, actual, at_once=process.options.concurrent and planner.looks_ahead)
    if not steps:
        return Waiting(process.open_questions) if waits(process, found, actual) else _reached(process)
    if overrun := process.options.overrun(process):
        return Terminated(overrun)
    steps = steps[: process.options.room(process, [step.action for step in steps])]
    if await paused(process, steps[0].action):
        return None
    if process.listeners.attentive:
        process.emit(PlanFormulated(found.goal.name, process.plan, process_id=process.id))
    return await invoke_all(process, [process.scope.actions[step.action] for step in steps])


async def _formulate(process: AgentProcess, planner: Planner) -> tuple[Plan | NoPlan, Problem, WorldState]:
    """The plan from here, with what it was made for and how things really are.

    Conditions are asked one by one, and only those that can change the plan.
    """
    costs, values = await _figures(process) if process.scope.figured else _NO_FIGURES
    answers: dict[Fact, bool | None] = {}
    while True:
        actual = observe(process, answers)
        problem = planner.problem(process, actual, costs, values, PLANNING_SECONDS)
        found = await planner.choose(process, problem)
        if not isinstance(found, Undecided):
            return found, problem, actual
        assert isinstance(found.fact, Holds)
        answers[found.fact] = await _ask(process, process.scope.conditions[found.fact.condition])


def observe(process: AgentProcess, answers: Mapping[Fact, bool | None]) -> WorldState:
    """The facts as they are now; conditions that nobody has asked yet are unknown."""
    scope = process.scope
    true = scope.facts_on(process.blackboard)
    true.update(map(scope.has_run.__getitem__, process.progress.has_run))
    if scope.groups:
        true.update(group for group in scope.groups if process.services.groups.unmet(group) is None)
    if not answers:
        return WorldState(frozenset(true), scope.questions)
    true.update(fact for fact, answer in answers.items() if answer)
    return WorldState(
        frozenset(true),
        scope.questions.difference(answers),
        frozenset(fact for fact, answer in answers.items() if answer is None),
    )


async def _ask(process: AgentProcess, condition: Condition) -> bool | None:
    if missing(condition.parameters, process.blackboard):
        return False
    context = ActionContext(process, action=condition.name)
    try:
        answer = await context.call(condition.function, **fill(condition.parameters, condition.owner, context))
        return _yes_or_no(condition, answer)
    except Exception as error:
        counts_as = "unknown" if condition.when_failing is None else str(condition.when_failing).lower()
        _log.warning("Condition %s failed and counts as %s: %s", condition.name, counts_as, in_words(error))
        return condition.when_failing


def _yes_or_no(condition: Condition, answer: object) -> bool:
    if answer not in (True, False):
        raise TypeError(f"{condition.origin} gave {answer!r}, neither True nor False.")
    return bool(answer)


async def _figures(process: AgentProcess) -> tuple[dict[str, float], dict[str, float]]:
    """The costs and values that are computed anew on each planning."""
    costs: dict[str, float] = {}
    values: dict[str, float] = {}
    for action in process.scope.figured:
        if action.cost is not None:
            costs[action.name] = await _figure(process, action, action.cost, action.settings.cost, least=0.0)
        if action.value is not None:
            values[action.name] = await _figure(process, action, action.value, action.settings.value)
    return costs, values


async def _figure(
    process: AgentProcess, action: Action, cost: Cost, otherwise: float, least: float = -math.inf
) -> float:
    if missing(cost.parameters, process.blackboard):
        return otherwise
    context = ActionContext(process, action=cost.name)
    try:
        figure = await context.call(cost.function, **fill(cost.parameters, cost.owner, context))
    except Exception as error:
        _log.warning("Cost %s of %s could not be computed: %s", cost.name, action.name, in_words(error))
        return otherwise
    usable = usable_figure(figure, least)
    if usable is not None:
        return usable
    wanted = "a finite number from 0 up" if least == 0 else "a finite number"
    _log.warning(
        "Cost %s of %s gave %.100r, not %s: it counts as %g.", cost.name, action.name, figure, wanted, otherwise
    )
    return otherwise


def usable_figure(figure: object, least: float) -> float | None:
    """A figure as a number, if it is a finite one and no less than the least."""
    return float(figure) if _is_finite(figure) and figure >= least else None


def _is_finite(figure: object) -> TypeGuard[float]:
    if isinstance(figure, Decimal):  # one that is no number cannot be compared
        return figure.is_finite() and abs(figure) <= _LARGEST
    return isinstance(figure, (int, float)) and abs(figure) <= _LARGEST


def _reached(process: AgentProcess) -> Outcome:
    goal = process.goal
    assert goal is not None
    if process.listeners.attentive:
        process.emit(GoalAchieved(goal.name, process_id=process.id))
    result = process.progress.results.get(goal.action)
    # An action that leaves as it is what was there declines, and its goal holds all the same.
    return Completed(result if result is not None or goal.output is None else process.blackboard.last(goal.output))
