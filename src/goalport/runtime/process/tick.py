"""The loop of a process: observe the facts, plan, run the first action of the plan, and repeat.

The search for a plan is pure; only the user's conditions, costs and values are awaited. Also here is what may happen in
between: a pause that the options demand; waiting for people when no action can run; and a stuck process, which its
policy may end or its handlers may help, in order. A kill or a termination takes precedence over handlers. Pruning
removes actions that cannot help, before a process begins. (User guide, section 3.2.2.)
"""

import math
import sys
import time
from collections.abc import Collection, Generator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from logging import getLogger
from typing import Final

import anyio
from anyio import CancelScope, current_time

from goalport.agents.blackboard import Blackboard
from goalport.agents.domain import Action, Condition, Cost
from goalport.agents.plan import Fact, Holds, Plan, Problem, Undecided, WorldState, prune
from goalport.base.events import GoalAchieved, PlanFormulated, ProcessPaused, StuckHandled
from goalport.base.observe.spans import note_end, process_span
from goalport.runtime.ai import TOOL_CONTEXT, ToolContext, tool_context
from goalport.runtime.process.action_progress import in_words
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.context import ActionContext
from goalport.runtime.process.execution import fill, invoke, invoke_all, missing
from goalport.runtime.process.lifecycle import (
    Completed,
    Failed,
    Killed,
    Outcome,
    ProcessStatus,
    Stuck,
    Terminated,
    Waiting,
)
from goalport.runtime.process.planners import Planner, holds, planner_for
from goalport.runtime.process.process_options import StuckCode, StuckHandler, StuckResult
from goalport.runtime.process.scope import Scope
from goalport.tools import CALL_SITE, ContextValues, ToolGroupResolver

_log = getLogger(__name__)
DEAREST: Final = 1e9
"""The cost of an action whose cost method fails: more than any real cost, and small enough to be added exactly."""
_LARGEST: Final = sys.float_info.max
_ROUNDS: Final = 20
"""The most times in a row that handlers may request a new plan with which no action can run."""


class _Faulty(Exception):
    """A policy, a schedule or a handler of a user has failed."""


@contextmanager
def _blaming(owner: object, method: str) -> Generator[None]:
    """A block that calls a user's policy, schedule or handler: a failure of it ends the process."""
    try:
        yield
    except Exception as error:
        raise _Faulty(f"{type(owner).__name__}.{method}") from error


async def drive(process: AgentProcess, *, stepped: bool = False) -> None:
    """Run a process until it has an outcome, which is stored in the process; `stepped`: run one step only.

    A kill takes precedence over an outcome of the same moment. If the process is over, its sub-processes are killed.
    """
    agent = process.agent
    with process_span(agent.name, process_id=process.id, description=agent.description, trace=process.trace) as span:
        process.traced = span.is_recording()
        outcome: Outcome | None = None
        goes_on = False
        try:
            outcome = await _run(process, stepped=stepped)
            goes_on = outcome is None and process.end_requested is None
        except Exception as bug:
            _log.exception("Process %s could not go on.", process.id)
            where = f"{bug} failed" if isinstance(bug, _Faulty) else "The process could not go on"
            outcome = Failed(f"{where}: {process.words_for(bug.__cause__ or bug)}")
            process.fail(outcome.reason, error=bug)
        finally:
            if goes_on or process.remote:
                process.release()
            else:
                _end(process, outcome)
        if process.traced:
            note_end(span, "process", str(process.status), process.usage.spent)


async def _run(process: AgentProcess, *, stepped: bool) -> Outcome | None:
    """Take steps as the current process, in a cancel scope with the deadline, which a kill cancels."""
    if process.outcome is None:
        process.status, process.driven = ProcessStatus.RUNNING, True
    process.runs_since = time.monotonic()
    limit, turns = process.options.deadline, process.options.turns
    run = process.seconds_before - process.turn_start.seconds
    current = ToolContext(process, callers=tool_context().callers)
    scope = process.cancel_scope = CancelScope(deadline=math.inf if limit is None else current_time() + limit - run)
    outcome: Outcome | None = None
    try:
        with ContextValues((TOOL_CONTEXT, current), (CALL_SITE, None)), scope:
            outcome = await tick(process)
            while outcome is None and not stepped:
                outcome = await tick(process)
    finally:
        if scope.cancelled_caught and process.end_requested is None and not process.remote:
            reason = f"The deadline of {limit:g} s has passed."
            process.end_requested = Stuck(reason, turn_failed=True) if turns else Terminated(reason)
        process.cancel_scope = None
        process.seconds_before, process.runs_since = process.seconds_run, None
    return outcome


def _end(process: AgentProcess, outcome: Outcome | None) -> None:
    requested = process.end_requested
    if requested is not None and (isinstance(requested, Killed) or outcome is None or not outcome.final):
        outcome = requested
    outcome = outcome or Terminated("Its task was cancelled: the program stopped, or an action cancelled it.")
    if process.options.turns:
        if isinstance(outcome, Failed | Terminated) and not isinstance(requested, Killed | Terminated):
            outcome = Stuck(outcome.reason, turn_failed=True)
        elif isinstance(outcome, Stuck) and not outcome.turn_failed:
            outcome = replace(outcome, rests=True)
    if outcome.final:
        for child in process.children:
            if not child.status.ended:
                child.kill("The process that had started it has ended.")
    process.settle(outcome)


async def tick(process: AgentProcess) -> Outcome | None:
    """Plan and run one action. Returns the outcome when the process has one, else None."""
    if process.end_requested is not None:
        return process.end_requested
    progress = process.progress
    resumed = _resumed(process)
    if resumed and progress.triggers[resumed] is process.blackboard.last_entry:
        return await _go_on(process, resumed)
    planner = planner_for(process.agent, process.options)
    found, actual = await formulate(process, planner)
    resumed = resumed or _resumed(process)  # an answer may have come while costs were computed
    skipped, progress.skipped = progress.skipped, frozenset()
    if not isinstance(found, Plan):
        if skipped:
            return None
        return await _go_on(process, resumed) if resumed else await unstick(process, found)
    if resumed and any(step.action == resumed for step in found.steps):
        newer = process.blackboard.last_entry
        end = await _go_on(process, resumed)
        if newer is not None and process.blackboard.last_entry is None:
            process.blackboard.renew(newer)  # an object that came meanwhile triggers its action afterwards
        return end
    process.goal = process.scope.goals.get(found.goal.name)
    process.plan = tuple([step.action for step in found.steps])
    steps = planner.steps(process, found, actual) if found.steps else []
    if not steps:
        needs_answer = process.pending and (found.steps or not holds(found.goal.requires.items(), actual))
        return Waiting(process.open_questions) if needs_answer else _goal_reached(process)
    if overrun := _overrun(process):
        return Terminated(overrun)
    if len(steps) > 1:
        steps = steps[: process.options.concurrency(process, [step.action for step in steps])]
    if (process.options.delay > 0 or process.options.schedule is not None) and await paused(process, steps[0].action):
        return None
    if process.listeners.attentive:
        process.emit(PlanFormulated(found.goal.name, process.plan, process_id=process.id))
    actions = [process.scope.actions[step.action] for step in steps]
    return await (invoke(process, actions[0]) if len(actions) == 1 else invoke_all(process, actions))


def _resumed(process: AgentProcess) -> str:
    """The first parked action with a trigger that can continue now; empty: there is none."""
    if not process.progress.triggers:
        return ""
    waiting = {*process.pending, *process.progress.interrupted}
    return next((each for each in process.progress.triggers if each not in waiting), "")


async def _go_on(process: AgentProcess, action: str) -> Outcome | None:
    """Continue a parked action with the object that triggered it, even if other actions have a higher value now."""
    if overrun := _overrun(process):
        return Terminated(overrun)
    process.blackboard.renew(process.progress.triggers[action])
    process.plan = (action,)
    return await invoke(process, process.scope.actions[action])


def _goal_reached(process: AgentProcess) -> Completed:
    goal = process.goal
    assert goal is not None
    if process.listeners.attentive:
        process.emit(GoalAchieved(goal.name, process_id=process.id))
    result = process.progress.results.get(goal.action)
    # An action may return None because its output was on the blackboard already: the goal is reached.
    return Completed(result if result is not None or goal.output is None else process.blackboard.last(goal.output))


def _overrun(process: AgentProcess) -> str | None:
    """Why no further action may run; None: one may."""
    try:
        return process.options.overrun(process)
    except Exception as error:
        raise _Faulty(f"{type(process.options.early_termination).__name__}.reason_to_end") from error


async def paused(process: AgentProcess, action: str) -> bool:
    """Pause before the next action if required. Returns whether it paused: then a new plan is needed."""
    progress = process.progress
    if progress.paused_after >= len(progress.history):  # it paused already since the last action
        return False
    progress.paused_after = len(progress.history)
    seconds = float(process.options.delay) if progress.history else 0.0
    schedule = process.options.schedule
    with _blaming(schedule, "not_before"):
        begins_at = None if schedule is None else schedule.not_before(process, action)
        if begins_at is not None:
            seconds = max(seconds, (begins_at - datetime.now(UTC)).total_seconds())
    if seconds <= 0:
        return False
    process.status = ProcessStatus.PAUSED
    try:
        process.emit(ProcessPaused(seconds, process_id=process.id))
        await anyio.sleep(seconds)
    finally:
        if process.status is ProcessStatus.PAUSED:
            process.status = ProcessStatus.RUNNING
    return True


async def unstick(process: AgentProcess, outcome: Outcome) -> Outcome | None:
    """Call the handlers of a stuck process. Returns None if one helped; another outcome is returned unchanged.

    Agents' instances that are handlers are called first, then the handlers of the options.
    """
    if not isinstance(outcome, Stuck):
        return outcome
    policy = process.options.early_termination
    with _blaming(policy, "reason_to_end"):
        reason = None if policy is None else policy.reason_to_end(process, stuck=True)
    if reason:
        return Terminated(f"{reason} {outcome.reason}")
    owners = {id(owner): owner for goal in process.scope.goals if (owner := process.scope.actions[goal].owner)}
    own = (each for each in owners.values() if isinstance(each, StuckHandler))
    handlers = [*own, *process.options.stuck_handlers]
    if handlers and (why_futile := _why_futile(process)):
        return replace(outcome, reason=f"{outcome.reason} {why_futile}")
    for handler in handlers:
        with _blaming(handler, "handle_stuck"):
            result = await ActionContext(process).call(partial(handler.handle_stuck, process))
        name = type(handler).__name__
        if not isinstance(result, StuckResult):
            raise TypeError(
                f"Expected {name}.handle_stuck to return a StuckResult, but it returned {type(result).__name__}. Return"
                " StuckResult(StuckCode.REPLAN) or StuckResult(StuckCode.NO_RESOLUTION)."
            )
        process.emit(StuckHandled(name, result.code, result.message, process_id=process.id))
        if result.code is StuckCode.REPLAN:
            return process.end_requested
    asked = ", ".join(type(each).__name__ for each in handlers)
    reason = f"{outcome.reason} {asked} could not help." if asked else outcome.reason
    return process.end_requested or replace(outcome, reason=reason)


def _why_futile(process: AgentProcess) -> str | None:
    """Why it is useless to call the handlers again; None: they may help."""
    progress, board = process.progress, process.blackboard
    facts = tuple(map(id, board.objects)), tuple(board.conditions.items())
    standing = *facts, frozenset(progress.has_run), frozenset(progress.left_out)
    if progress.impasse_after != len(progress.history):
        progress.impasse_after = len(progress.history)
        progress.impasses.clear()
    progress.impasses.append(standing)
    if progress.impasses[-2:-1] == [standing]:
        return "It was to be planned again, but nothing had changed."
    if len(progress.impasses) > _ROUNDS:
        return f"It was to be planned again {_ROUNDS} times, and no action could run."
    return None


async def formulate(process: AgentProcess, planner: Planner) -> tuple[Plan | Outcome, WorldState]:
    """The plan from the current state, or an outcome if there is none; and the facts that are known.

    Conditions are evaluated one by one, and only if they can change the plan.
    """
    costs, values = dict[str, float](), dict[str, float]()
    answers: dict[Fact, bool | None] = {}
    scope, progress = process.scope, process.progress
    for action in scope.with_computed_cost:  # anew for each plan
        declared = action.settings
        if action.cost is not None:
            costs[action.name] = await _figure(process, action, action.cost, declared.cost, DEAREST, least=0.0)
        if action.value is not None:
            values[action.name] = await _figure(process, action, action.value, declared.value, declared.value)
    never = [name for name, cost in costs.items() if cost == math.inf]
    for name in never:
        del costs[name]
    while True:
        actual = known = scope.world_on(process.blackboard, process.groups, progress.has_run)
        if answers:  # conditions that were not evaluated yet are unknown
            actual = WorldState(
                known.true.union(fact for fact, answer in answers.items() if answer),
                known.unknown.difference(answers),
                frozenset(fact for fact, answer in answers.items() if answer is None),
            )
        waiting = process.pending
        if planner.looks_ahead and len(goals := process.goals) == 1 and not waiting:
            reached = scope.reached[goals[0]]  # if the only goal holds, a search would find the same plan
            has_run = scope.goals[goals[0]].action in progress.has_run
            if has_run and reached.goal.requires.keys() <= actual.true:
                return reached, actual
        left_out = progress.left_out.keys() if progress.left_out else ()
        excluded = progress.skipped.union(left_out, never) if left_out or never else progress.skipped
        problem = scope.problem(scope.system_on(process.blackboard), actual, process.goals, excluded)
        if costs or values:
            problem = replace(problem, costs=costs, values=values)
        if waiting:
            problem = planner.while_waiting(process, problem)
        found = await planner.choose(process, problem)
        if not isinstance(found, Undecided):
            return found, actual
        assert isinstance(found.fact, Holds)
        answers[found.fact] = await _evaluate(process, scope.conditions[found.fact.condition])


async def _evaluate(process: AgentProcess, condition: Condition) -> bool | None:
    """Whether a condition holds; None: unknown, so that neither it nor its negation lets an action run."""
    if missing(condition.parameters, process.blackboard):
        return False
    context = ActionContext(process, action=condition.name)
    try:
        answer = await context.call(condition.function, **await fill(condition.parameters, condition.owner, context))
        if answer not in (True, False) and not (answer is None and condition.may_be_unknown):
            raise TypeError(f"{condition.origin} gave {answer!r}, neither True nor False.")  # noqa: TRY301
    except Exception as error:
        _log.warning("Condition %s failed and is unknown: %s", condition.name, in_words(error))
        process.progress.failed_conditions[condition.name] = process.words_for(error)
        return None
    process.progress.failed_conditions.pop(condition.name, None)
    return None if answer is None else bool(answer)


async def _figure(
    process: AgentProcess, action: Action, cost: Cost, declared: float, faulty: float, least: float = -math.inf
) -> float:
    """A computed cost or value; `declared` if an input of its method is missing, `faulty` if the method fails."""
    if missing(cost.parameters, process.blackboard):
        return declared
    context = ActionContext(process, action=cost.name)
    try:
        figure = await context.call(cost.function, **await fill(cost.parameters, cost.owner, context))
    except Exception as error:
        problem = f"failed ({in_words(error)})"
    else:
        usable = usable_figure(figure, least)
        if usable is not None:
            return usable
        problem = f"gave {figure!r:.100}, not a number{' from 0 up' if least == 0 else ''}"
    text = "Cost %s of %s %s: it counts as %g."
    kind = f"{process.agent.name} {cost.name}"
    process.platform.rate_limited_log.log(_log.warning, kind, text, cost.name, action.name, problem, faulty)
    return faulty


def usable_figure(figure: object, least: float) -> float | None:
    """A number as a float, if it is at least `least`; else None. Only a cost may be infinite: the action never runs."""
    if not isinstance(figure, (int, float, Decimal)) or (isinstance(figure, Decimal) and figure.is_nan()):
        return None  # a Decimal NaN cannot be compared
    if least == 0 and figure == math.inf:
        return math.inf
    return float(figure) if abs(figure) <= _LARGEST and figure >= least else None


def pruned(scope: Scope, blackboard: Blackboard, goals: Collection[str], groups: ToolGroupResolver) -> Scope:
    """A scope without the actions that cannot help to reach the goals from this blackboard."""
    start = WorldState(frozenset(scope.facts_on(blackboard, groups)), scope.evaluated_conditions)
    wanted = tuple(map(scope.plan_goals.__getitem__, goals))
    useful = prune(Problem(scope.system_on(blackboard), start, wanted))
    agent = scope.agent
    kept_goals = tuple(each for each in agent.goals if each.action in useful or each.name in goals)
    kept = useful | {each.action for each in kept_goals}
    return Scope(replace(agent, goals=kept_goals, actions=tuple(each for each in agent.actions if each.name in kept)))
