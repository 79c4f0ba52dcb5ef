"""The loop of a process: observe the facts, plan, run the first action of the plan, and repeat.

Also here is what may happen in between: a pause that the options demand, waiting for people when no action can run, and
handling a stuck process: its policy may end it, or its handlers may help it, in order. A kill or a termination takes
precedence over handlers. (User guide, section 3.2.2.)
"""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from logging import getLogger

import anyio

from goalport.agents.plan import Plan
from goalport.base.events import GoalAchieved, PlanFormulated, ProcessPaused, StuckHandled
from goalport.base.observe.spans import note_end, process_span
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.context import ActionContext
from goalport.runtime.process.execution import invoke, invoke_all
from goalport.runtime.process.formulation import formulate
from goalport.runtime.process.lifecycle import Completed, Failed, Killed, Outcome, Stuck, Terminated, Waiting
from goalport.runtime.process.planners import holds, planner_for
from goalport.runtime.process.process_options import StuckCode, StuckHandler, StuckResult

_log = getLogger(__name__)
_ROUNDS = 20
"""How many times in a row handlers may request a new plan with which no action can run."""


class _Faulty(Exception):
    """A policy, a schedule or a handler of a user has failed."""

    def __init__(self, owner: object, method: str) -> None:
        super().__init__(f"{type(owner).__name__}.{method}")


async def drive(process: AgentProcess) -> None:
    """Run a process until it has an outcome, which is stored in the process."""

    async def to_the_end(process: AgentProcess) -> Outcome | None:
        outcome: Outcome | None = None
        while outcome is None:
            outcome = await tick(process)
        return outcome

    await _advance(process, to_the_end)


async def step(process: AgentProcess) -> None:
    """Run one step of a process; afterwards it has an outcome or rests."""
    await _advance(process, tick)


async def _advance(process: AgentProcess, steps: Callable[[AgentProcess], Awaitable[Outcome | None]]) -> None:
    with process_span(
        process.agent.name, process_id=process.id, description=process.agent.description, trace=process.trace
    ) as span:
        outcome: Outcome | None = None
        goes_on = False
        try:
            scope = process.begin_run(traced=span.is_recording())
            try:
                with process.as_current(), scope:
                    outcome = await steps(process)
                    goes_on = outcome is None and process.end_requested is None
            finally:
                process.end_run(scope)
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


def _end(process: AgentProcess, outcome: Outcome | None) -> None:
    """Set the outcome of the process; if it is final, kill the sub-processes that have not ended.

    A kill takes precedence over an outcome that came at the same moment.
    """
    requested = process.end_requested
    if requested is not None and (isinstance(requested, Killed) or outcome is None or not outcome.final):
        outcome = requested
    outcome = outcome or Terminated("Its task was cancelled: the program stopped, or an action cancelled it.")
    wanted = isinstance(requested, Killed | Terminated)
    if process.options.turns and not wanted and isinstance(outcome, Failed | Terminated):
        outcome = Stuck(outcome.reason, turn_failed=True)
    elif process.options.turns and isinstance(outcome, Stuck) and not outcome.turn_failed:
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
    resumed = _resumed(process)
    if resumed and process.progress.triggers[resumed] is process.blackboard.last_entry:
        return await _go_on(process, resumed)
    planner = planner_for(process.agent, process.options)
    found, actual = await formulate(process, planner)
    resumed = resumed or _resumed(process)  # costs take their time, and an answer may have come meanwhile
    skipped = process.progress.take_skipped()
    if not isinstance(found, Plan):
        if skipped:
            return None
        return await _go_on(process, resumed) if resumed else await unstick(process, found)
    if resumed and any(step.action == resumed for step in found.steps):
        newer = process.blackboard.last_entry
        end = await _go_on(process, resumed)
        if newer is not None and process.blackboard.last_entry is None:
            process.blackboard.renew(newer)  # what has come since triggers its action afterwards
        return end
    process.pursue(process.scope.goals.get(found.goal.name), tuple([step.action for step in found.steps]))
    steps = planner.steps(process, found, actual) if found.steps else []
    if not steps:
        needs_answer = process.pending and (found.steps or not holds(found.goal.requires.items(), actual))
        return Waiting(process.open_questions) if needs_answer else _goal_reached(process)
    if overrun := _overrun(process):
        return Terminated(overrun)
    if len(steps) > 1:
        steps = steps[: process.options.concurrency(process, [step.action for step in steps])]
    if process.options.unhurried and await paused(process, steps[0].action):
        return None
    if process.listeners.attentive:
        process.emit(PlanFormulated(found.goal.name, process.plan, process_id=process.id))
    actions = [process.scope.actions[step.action] for step in steps]
    return await (invoke(process, actions[0]) if len(actions) == 1 else invoke_all(process, actions))


def _resumed(process: AgentProcess) -> str:
    """The first of the actions that were parked after a trigger and can go on; empty: there is none."""
    progress = process.progress
    waiting = {*process.pending, *progress.interrupted} if progress.triggers else ()
    return next((each for each in progress.triggers if each not in waiting), "")


async def _go_on(process: AgentProcess, action: str) -> Outcome | None:
    """Let an action that was parked go on with what had triggered it, whatever is worth more by now."""
    if overrun := _overrun(process):
        return Terminated(overrun)
    process.blackboard.renew(process.progress.triggers[action])
    process.pursue(process.goal, (action,))
    return await invoke(process, process.scope.actions[action])


def _goal_reached(process: AgentProcess) -> Completed:
    goal = process.goal
    assert goal is not None
    if process.listeners.attentive:
        process.emit(GoalAchieved(goal.name, process_id=process.id))
    result = process.progress.results.get(goal.action)
    # An action that returns None because its output was there already has achieved its goal nevertheless.
    return Completed(result if result is not None or goal.output is None else process.blackboard.last(goal.output))


def _overrun(process: AgentProcess) -> str | None:
    """Why no further action may run; None: one may."""
    try:
        return process.options.overrun(process)
    except Exception as error:
        raise _Faulty(process.options.early_termination, "reason_to_end") from error


async def paused(process: AgentProcess, action: str) -> bool:
    """Pause before the next action if required. Returns whether there was a pause: then a new plan is needed."""
    if not process.progress.may_pause():
        return False
    seconds = float(process.options.delay) if process.progress.history else 0.0
    schedule = process.options.schedule
    try:
        begins_at = None if schedule is None else schedule.not_before(process, action)
        if begins_at is not None:
            seconds = max(seconds, (begins_at - datetime.now(UTC)).total_seconds())
    except Exception as error:
        raise _Faulty(schedule, "not_before") from error
    if seconds <= 0:
        return False
    with process.pausing():
        process.emit(ProcessPaused(seconds, process_id=process.id))
        await anyio.sleep(seconds)
    return True


async def unstick(process: AgentProcess, outcome: Outcome) -> Outcome | None:
    """Let the handlers help a stuck process. Returns None if one did; any other outcome is returned unchanged.

    The agents' instances that are handlers are asked first, then the handlers of the options.
    """
    if not isinstance(outcome, Stuck):
        return outcome
    policy = process.options.early_termination
    try:
        reason = None if policy is None else policy.reason_to_end(process, stuck=True)
    except Exception as error:
        raise _Faulty(policy, "reason_to_end") from error
    if reason:
        return Terminated(f"{reason} {outcome.reason}")
    owners = {id(owner): owner for goal in process.scope.goals if (owner := process.scope.actions[goal].owner)}
    own = (each for each in owners.values() if isinstance(each, StuckHandler))
    handlers = [*own, *process.options.stuck_handlers]
    if handlers and (why_futile := _why_futile(process)):
        return replace(outcome, reason=f"{outcome.reason} {why_futile}")
    for handler in handlers:
        try:
            result = await ActionContext(process).call(partial(handler.handle_stuck, process))
        except Exception as error:
            raise _Faulty(handler, "handle_stuck") from error
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
    """Why it is useless to ask the handlers again; None: they may help."""
    progress, blackboard = process.progress, process.blackboard
    standing = (
        tuple(map(id, blackboard.objects)),
        tuple(blackboard.conditions.items()),
        frozenset(progress.has_run),
        frozenset(progress.left_out),
    )
    rounds = progress.note_impasse(standing)
    if rounds and rounds[-1] == standing:
        return "It was to be planned again, but nothing had changed."
    if len(rounds) >= _ROUNDS:
        return f"It was to be planned again {_ROUNDS} times, and no action could run."
    return None
