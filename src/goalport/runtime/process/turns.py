"""A turn of a process: how it begins, what ran in it, and how it ends when it exceeds a limit.

Below: the process. Above: what runs its actions, and the platform, which is told what begins a turn.
"""

from collections.abc import Sequence
from typing import Final

from goalport.base.caller import Caller
from goalport.runtime.process.action_progress import ActionInvocation
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.ledger import TurnStart

_TOLD: Final = 15
"""How many of the things that a process was told before the last one are known by their tokens."""


def turn_history(process: AgentProcess) -> Sequence[ActionInvocation]:
    """The actions that ran in the turn of a process, in order; without turns, all."""
    return process.progress.history[process.turn_start.actions :]


def begin_turn(process: AgentProcess, objects: Sequence[object], caller: Caller | None, token: str) -> bool:
    """Begin a turn of a process that nothing runs: more objects are on its blackboard, and its budget is whole again.

    `token` identifies what it is told. Returns False, and nothing is changed, if it was told that before. Actions that
    failed may run again, and what was stopped in their middle is forgotten; those that wait for people wait on.
    `caller` is its caller with the scopes of today; None: as before.
    """
    progress, told = process.progress, process.turn_start.told
    if token in told:
        return False
    for action in [*progress.journals.keys() - process.pending]:
        progress.end(action).close(f"The turn in which {action} ran was stopped.")
    progress.begin_turn()
    told = (*told[-_TOLD:], token)
    process.continue_turn(TurnStart(len(progress.history), process.usage, process.seconds_run, told), caller)
    for each in objects:
        process.blackboard.add(each)
    return True


def exceed(process: AgentProcess, reason: str) -> None:
    """End a process that has exceeded a limit, as `terminate` does; or its turn, if it goes on from turn to turn.

    Processes that its actions started are terminated in any case.
    """
    if not process.options.turns:
        process.terminate(reason)
        return
    process.end_turn(reason)
    for child in process.children:
        child.terminate(reason)
