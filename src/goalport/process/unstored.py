"""Says of processes that they are kept in memory only, and why: in the log, and as an event. They go on all the same.

Below: the process. Above: the repository, which stores processes.
"""

from logging import getLogger
from weakref import WeakKeyDictionary

from goalport.errors import StoreError, Unstorable
from goalport.events import ProcessNotStored
from goalport.process.agent_process import AgentProcess

__all__ = ["Unstored"]

_log = getLogger(__name__)


class Unstored:
    """The processes that could not be stored, each with the reason that was told last: a reason is told once."""

    def __init__(self) -> None:
        self._reasons: WeakKeyDictionary[AgentProcess, str] = WeakKeyDictionary()

    def tell(self, process: AgentProcess, error: Exception) -> None:
        """Tell that a process could not be stored, unless the same was told before and it was not stored since."""
        expected = isinstance(error, StoreError | Unstorable)
        reason = str(error) if expected else f"Unexpected {type(error).__name__}; the log has the traceback."
        if self._reasons.get(process) == reason:
            return
        self._reasons[process] = reason
        _log.warning("Process %s is kept in memory only: %s", process.id, reason, exc_info=None if expected else error)
        if process.listeners.attentive:
            process.emit(ProcessNotStored(reason, process_id=process.id))

    def stored(self, process: AgentProcess) -> None:
        """Note that a process was stored; if it cannot be later, that is told again."""
        self._reasons.pop(process, None)
