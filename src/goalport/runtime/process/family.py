"""A family: the process that a caller started, with those that it and they started. Above: what stores and runs it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from logging import getLogger
from typing import Final

from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import ProcessStatus, Stuck

_log = getLogger(__name__)
DUE_NOW: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When a family is due in which something runs: as soon as nobody runs it."""


def family_of(process: AgentProcess) -> Sequence[AgentProcess]:
    """The processes of a family, the root first and each before those that it started; `process` is any of them."""
    return with_descendants(process.root)


def with_descendants(process: AgentProcess) -> Sequence[AgentProcess]:
    """A process and all that it started, each before those that it started itself."""
    found = [process]
    for each in found:
        found += each.children
    return found


def due_at(family: Sequence[AgentProcess]) -> datetime | None:
    """When a family that rests has to be continued: when a question expires, or at once if something is to run."""
    if any(_is_to_run(each) for each in family):
        return DUE_NOW
    times = [each.expires_at for process in family for each in process.open_questions if each.expires_at is not None]
    return min(times, default=None)


def is_busy(process: AgentProcess) -> bool:
    """Whether something runs it, changes it, or is going to run it."""
    return process.driven or process.changing or _is_to_run(process)


def _is_to_run(process: AgentProcess) -> bool:
    ready = process.outcome is None and not process.stepped and not process.progress.parked
    return ready and process.status is not ProcessStatus.NOT_STARTED


def is_watched(root: AgentProcess | None) -> bool:
    """Whether somebody waits for a process of a family or follows it; nobody does if none of it is in memory."""
    return root is not None and any(each.watched or each.followed for each in family_of(root))


def update_ancestors(process: AgentProcess) -> None:
    """Update the processes above that wait for this one, as far as their status changes with its status."""
    above = process.parent
    while above is not None and above.follow_children():
        above = above.parent


def interrupted_in(family: Sequence[AgentProcess]) -> list[str]:
    """The actions, each with its process, in whose middle the program ended and which may not be repeated."""
    for process in family:
        if process.outcome is None and not process.driven:
            for action, journal in process.progress.journals.items():
                if journal.running and not process.scope.actions[action].settings.repeatable:
                    process.progress.interrupt(action)
    return [f"{action} of process {each.id}" for each in family for action in sorted(each.progress.interrupted)]


def ready_in(family: Sequence[AgentProcess]) -> list[AgentProcess]:
    """The processes of a family that nobody runs and that can go on by themselves."""
    for each in family:
        if each.parent is not None and each.status.ended:
            each.parent.progress.unpark(each)
    return [
        each for each in family if each.outcome is None and each.idle and not each.stepped and not each.progress.parked
    ]


def ready_after(family: Sequence[AgentProcess], *, retry: bool) -> list[AgentProcess] | None:
    """The processes that can go on after it is decided about interrupted actions; None: there are no such actions."""
    if not any(each.driven for each in family):
        interrupted_in(family)  # no program may have looked since the one that ran it ended
    if not any(each.progress.interrupted for each in family):
        return None
    for each in family:
        each.progress.settle_interrupted(retry=retry)
    return [each for each in family if each.status is ProcessStatus.STUCK and each.idle] + ready_in(family)


def stop_interrupted(process: AgentProcess, interrupted: Sequence[str]) -> None:
    """End a process as stuck until somebody decides what becomes of actions that were interrupted."""
    _log.warning("Process %s is stuck: the program had ended in the middle of %s.", process.id, "; ".join(interrupted))
    process.settle(
        Stuck(
            f"The program ended in the middle of an action that may not be repeated: {'; '.join(interrupted)}. Look at"
            f" what it has done, then run `goalport resume {process.id}` with `--retry` or `--skip`."
        )
    )
