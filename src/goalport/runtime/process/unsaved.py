"""The families that have ended and are not saved yet: how much memory they take, and who waits because of that.

A family that is saved only at its end is saved after its caller has the answer, so callers may be faster than the disk.
Above: the repository, which saves the families and asks for room before another one begins.
"""

from collections.abc import Awaitable, Callable, Generator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from threading import Lock
from typing import Final

from goalport.base.errors import StoreError
from goalport.runtime.process.agent_process import AgentProcess
from goalport.runtime.process.sizes import estimated_size
from goalport.store import ProcessStore

_MOST_BYTES: Final = 32 * 1024 * 1024
_PROCESS: Final = 30_000
"""About how many bytes a process that is being saved takes besides its objects."""
_COPIES: Final = 2
"""The objects of a process are in memory, and what is written of them."""


class UnsavedFamilies:
    """Lets nothing begin while families that `store` has not saved yet take more than `most_bytes`."""

    def __init__(self, store: ProcessStore, most_bytes: int = _MOST_BYTES) -> None:
        self._at_once = not store.durable
        """Whether the store takes what it saves at once, so that there is nothing to count."""
        self._most_bytes = most_bytes
        self._lock = Lock()
        """Held while the fields below change: families may be saved in several event loops."""
        self._bytes = 0
        self._sizes: dict[AgentProcess, int] = {}
        """About how many bytes each family takes, by its root."""
        self._refused: dict[AgentProcess, StoreError] = {}
        """Those that the store has refused, and why."""
        self._waiting: dict[AgentProcess, None] = {}
        """The processes that wait for room, in the order in which they came."""

    def saving(self, family: Sequence[AgentProcess]) -> AbstractContextManager[None]:
        """The block in which a family is saved. It still counts afterwards if the store refuses it."""
        return nullcontext() if self._at_once else self._counting(family)

    @contextmanager
    def _counting(self, family: Sequence[AgentProcess]) -> Generator[None]:
        root = family[0]
        objects = (value for each in family for value in each.blackboard.history)
        self._set(root, _PROCESS * len(family) + _COPIES * sum(map(estimated_size, objects)))
        try:
            yield
        except StoreError as error:
            self._refused[root] = error
            raise
        except BaseException:
            self._set(root, 0)
            raise
        else:
            self._set(root, 0)
        finally:
            self._wake()

    @property
    def full(self) -> bool:
        """Whether nothing more may begin now."""
        return self._bytes > self._most_bytes

    async def room_for(self, process: AgentProcess, save: Callable[[AgentProcess], Awaitable[None]]) -> None:
        """Wait until there is room, or the process that wants to begin is ended.

        If the store has refused everything that is not saved yet, `save` tries to save one of the families again.
        Raises `StoreError` if that is refused too.
        """
        try:
            while self.full and process.end_requested is None:
                self._waiting[process] = None
                if self._idle:
                    root = next(iter(self._refused))
                    self._set(root, 0)
                    await save(root)
                    if error := self._refused.get(root):
                        raise StoreError(error.where, error.problem, error.fix)
                else:
                    await process.changed()
        finally:
            self._waiting.pop(process, None)

    @property
    def _idle(self) -> bool:
        """Whether nothing is being saved."""
        return len(self._refused) == len(self._sizes)

    def _set(self, root: AgentProcess, size: int) -> None:
        with self._lock:
            self._refused.pop(root, None)
            self._bytes += size - self._sizes.pop(root, 0)
            if size:
                self._sizes[root] = size

    def _wake(self) -> None:
        """Let the first that waits begin if there is room; or all of them, if there is much, or nothing is being saved.

        As long as there is none, nobody is woken: who was would lose its place.
        """
        with self._lock:
            everybody = self._idle or self._bytes <= self._most_bytes // 2
            number = len(self._waiting) if everybody else int(not self.full)
            woken = [*self._waiting][:number]
            for each in woken:
                del self._waiting[each]
        for each in woken:
            each.listeners.on_loop(each.notify_waiters)
