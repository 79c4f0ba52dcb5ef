"""Where processes are found again by their ids.

The store in memory keeps the newest of those that have ended and all that have not.
"""

from collections import OrderedDict, deque
from typing import Protocol
from weakref import ref

from goalport.process.agent_process import AgentProcess
from goalport.process.outcome import ProcessStatus

__all__ = ["AgentProcessRepository", "InMemoryProcessRepository"]


class AgentProcessRepository(Protocol):
    """What the platform needs of a store of processes."""

    def save(self, process: AgentProcess) -> None:
        """Keep a process, or note that it has changed."""
        ...

    def find(self, process_id: str) -> AgentProcess | None:
        """The process of that id, or None."""
        ...

    def all(self) -> tuple[AgentProcess, ...]:
        """Every process that is kept, oldest first."""
        ...


class InMemoryProcessRepository:
    """Processes of this program, up to a number; one that has not ended is never dropped.

    Of those that have ended, the newest `whole` keep all that they knew, and the others only how they ended: their
    history and their output.
    """

    def __init__(self, window: int = 1000, whole: int = 100) -> None:
        self._window = window
        self._whole: deque[ref[AgentProcess]] = deque()
        self._most_whole = whole
        self._processes: OrderedDict[str, AgentProcess] = OrderedDict()

    def save(self, process: AgentProcess) -> None:
        """Keep a process; beyond the window, the oldest that has ended makes room."""
        self._processes[process.id] = process
        if process.status.ended and process.status is not ProcessStatus.STUCK:
            self._whole.append(ref(process))
            if len(self._whole) > self._most_whole:
                _forget(self._whole.popleft()())
        while len(self._processes) > self._window:
            ended = next((each.id for each in self._processes.values() if each.status.ended), None)
            if ended is None:
                return
            del self._processes[ended]

    def find(self, process_id: str) -> AgentProcess | None:
        """The process of that id, or None when it is unknown or was dropped."""
        return self._processes.get(process_id)

    def all(self) -> tuple[AgentProcess, ...]:
        """Every process that is kept, oldest first."""
        return tuple(self._processes.values())


def _forget(process: AgentProcess | None) -> None:
    if process is not None:
        process.blackboard.clear()
        process.progress.results.clear()
