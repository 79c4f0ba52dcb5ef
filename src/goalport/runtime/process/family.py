"""What holds of the processes of a family together: who belongs to it, and when somebody has to run it."""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Final

from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.lifecycle import ProcessStatus

DUE_NOW: Final = datetime(1970, 1, 1, tzinfo=UTC)
"""When a family wakes in which something runs: as soon as nobody runs it."""


def family_of(process: AgentProcess) -> Sequence[AgentProcess]:
    """The processes of a family, the root first and each before those that it started; `process` is any of them."""
    return with_descendants(process.root)


def with_descendants(process: AgentProcess) -> Sequence[AgentProcess]:
    """A process and all that it started, each before those that it started itself."""
    found = [process]
    for each in found:
        found += each.children
    return found


def wakes_at(family: Sequence[AgentProcess]) -> datetime | None:
    """When somebody has to look at a family that rests: when a question expires, or at once if something is to run."""
    if any(_is_to_run(each) for each in family):
        return DUE_NOW
    times = [each.expires_at for process in family for each in process.open_questions if each.expires_at is not None]
    return min(times, default=None)


def is_alone(process: AgentProcess) -> bool:
    """Whether a process is over that is all of its family, and of which no events are kept."""
    others = process.parent is not None or process.children
    return process.over and not (others or process.driven or process.options.keep_events)


def is_busy(process: AgentProcess) -> bool:
    """Whether something runs it, changes it, or is going to run it."""
    return process.driven or process.changing or _is_to_run(process)


def is_watched(root: AgentProcess | None) -> bool:
    """Whether somebody waits for a process of a family or follows it; nobody does if none of it lives."""
    return root is not None and any(each.watched or each.followed for each in family_of(root))


def _is_to_run(process: AgentProcess) -> bool:
    ready = process.outcome is None and not process.stepped and not process.progress.parked
    return ready and process.status is not ProcessStatus.NOT_STARTED
