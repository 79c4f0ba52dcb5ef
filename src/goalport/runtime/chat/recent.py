"""The processes of the conversations that were used last, which stay in memory for the next message.

Everything about them is stored, so any of them may be let go; it takes time to read a long one again. Above:
conversations, and the processes behind them.
"""

from collections import OrderedDict
from typing import Final

from goalport.runtime.process import AgentProcess

_MOST: Final = 100
"""How many are kept."""
_MOST_MESSAGES: Final = 10_000
"""How many messages they have together at most, unless one alone has more."""


class RecentProcesses:
    """Keeps the processes that were used last, with what is known of their conversations."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, tuple[AgentProcess, int]] = OrderedDict()
        """Each with the number of its messages, the one that was used last at the end."""
        self._messages = 0

    @property
    def kept(self) -> tuple[str, ...]:
        """The ids of those that are kept, the one that was used last at the end."""
        return tuple(self._kept)

    def keep(self, process: AgentProcess, messages: int) -> None:
        """Keep a process whose conversation has so many messages, and let others go if they are too many."""
        self.let_go(process.id)
        self._kept[process.id] = process, messages
        self._messages += messages
        while len(self._kept) > 1 and (len(self._kept) > _MOST or self._messages > _MOST_MESSAGES):
            self.let_go(next(iter(self._kept)))

    def let_go(self, process_id: str) -> None:
        """Keep a process no longer."""
        _, messages = self._kept.pop(process_id, (None, 0))
        self._messages -= messages
