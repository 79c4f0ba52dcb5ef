"""What becomes of a process that is stuck: its policy may end it, or its handlers help it on, in order.

Whoever kills or terminates it meanwhile is obeyed: no handler overtakes them. Below: the process. Above: `tick`.
"""

from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from goalport.events import StuckHandled
from goalport.process.agent_process import AgentProcess
from goalport.process.context import ActionContext
from goalport.process.outcome import Outcome, Stuck, Terminated
from goalport.process.stuck import StuckCode, StuckHandler, StuckResult

__all__ = ["unstick"]

_ROUNDS = 20
"""How often handlers may help on, one after the other, without that any action can run."""


async def unstick(process: AgentProcess, outcome: Outcome) -> Outcome | None:
    """None when a handler has helped a stuck process on; other outcomes stay as they are."""
    if not isinstance(outcome, Stuck):
        return outcome
    policy = process.options.early_termination
    reason = None if policy is None else policy.reason_to_end(process, stuck=True)
    if reason:
        return Terminated(f"{reason} {outcome.reason}")
    handlers = list(_handlers(process))
    futile = _futile(process) if handlers else None
    if futile:
        return replace(outcome, reason=f"{outcome.reason} {futile}")
    for handler in handlers:
        if await _helps(process, handler):
            return process.end_requested
    asked = ", ".join(type(each).__name__ for each in handlers)
    reason = f"{outcome.reason} {asked} could not help." if asked else outcome.reason
    return process.end_requested or replace(outcome, reason=reason)


def _handlers(process: AgentProcess) -> Iterator[StuckHandler]:
    """The agent itself, and those that were given for the run."""
    own = {id(owner): owner for goal in process.scope.goals if (owner := process.scope.actions[goal].owner)}
    yield from (each for each in own.values() if isinstance(each, StuckHandler))
    yield from process.options.stuck_handlers


async def _helps(process: AgentProcess, handler: StuckHandler) -> bool:
    result = await ActionContext(process).call(partial(handler.handle_stuck, process))
    if not isinstance(result, StuckResult):
        raise TypeError(
            f"Expected {type(handler).__name__}.handle_stuck to return a StuckResult, but it returned"
            f" {type(result).__name__}. Return StuckResult(StuckCode.REPLAN) or StuckResult(StuckCode.NO_RESOLUTION)."
        )
    process.emit(StuckHandled(type(handler).__name__, result.code, result.message, process_id=process.id))
    return result.code is StuckCode.REPLAN


def _futile(process: AgentProcess) -> str | None:
    """Why asking handlers again would lead nowhere; None: it may lead somewhere."""
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
