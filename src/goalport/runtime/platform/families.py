"""What follows in a family of processes when one of them has ended or waits, or when the program had ended."""

import asyncio
import time
from collections.abc import Callable, Sequence
from logging import getLogger
from typing import Final
from weakref import WeakSet

from goalport.runtime.process import AgentProcess, ProcessStatus, Stuck

_log = getLogger(__name__)
_MOST_SKEW: Final = 120.0
"""By how many seconds the clock of a database may be ahead."""


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
    """The processes of a family that nobody ran and that can go on by themselves."""
    for each in family:
        if each.parent is not None and each.status.ended:
            each.parent.progress.unpark(each)
    return [
        each for each in family if each.outcome is None and each.idle and not each.stepped and not each.progress.parked
    ]


def ready_after(family: Sequence[AgentProcess], *, retry: bool) -> "list[AgentProcess] | None":
    """The processes that can go on after it is decided about interrupted actions; None: there are no such actions."""
    if not any(each.driven for each in family):
        interrupted_in(family)  # no program may have looked since the one that ran it ended
    if not any(each.progress.interrupted for each in family):
        return None
    for each in family:
        each.progress.settle_interrupted(retry=retry)
    return [each for each in family if each.status is ProcessStatus.STUCK and each.idle] + ready_in(family)


def park(process: AgentProcess, interrupted: Sequence[str]) -> None:
    """End a process as stuck until somebody decides what becomes of actions that were interrupted."""
    _log.warning("Process %s is stuck: the program had ended in the middle of %s.", process.id, "; ".join(interrupted))
    process.settle(
        Stuck(
            f"The program ended in the middle of an action that may not be repeated: {'; '.join(interrupted)}. Look at"
            f" what it has done, then run `goalport resume {process.id}` with `--retry` or `--skip`."
        )
    )


class ExpiryTimers:
    """Calls `expire` with a process when one of its open questions expires.

    They serve where no store says when to wake, or where its clock is ahead of that of this program.
    """

    def __init__(self, expire: Callable[[AgentProcess], None]) -> None:
        self._expire = expire
        self._timed: WeakSet[AgentProcess] = WeakSet()

    def __contains__(self, process: AgentProcess) -> bool:
        return process in self._timed

    def set(self, process: AgentProcess) -> None:
        """Wait for the next of its questions that expires."""
        self._timed.add(process)
        if (left := _seconds_left(process)) is not None:
            asyncio.get_running_loop().call_later(max(left, 0), self._expire, process)

    def set_soon(self, family: Sequence[AgentProcess]) -> bool:
        """Set timers for a family that was woken too early by this program's clock. Returns False if it was not."""
        early = [each for each in family if (left := _seconds_left(each)) is not None and left < _MOST_SKEW]
        for each in early:
            self.set(each)
        return bool(early)


def _seconds_left(process: AgentProcess) -> float | None:
    times = [each.expires_at.timestamp() for each in process.questions.open if each.expires_at is not None]
    return min(times) - time.time() if times else None
