"""SIGHUP asks a server to load its workspace anew, unless it comes because the terminal of the server was closed.

`supervisor` obeys it for several workers, and `site`, above, for a server of one process.
"""

import os
import signal
import sys
from collections.abc import Sequence


def reload_signals() -> Sequence[signal.Signals]:
    """The signals that ask for it: none on Windows, and none under `nohup`, which has a program ignore SIGHUP."""
    if sys.platform == "win32" or signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
        return ()
    return (signal.SIGHUP,)


class Terminal:
    """The terminal that this program has when it starts, if it has one."""

    def __init__(self) -> None:
        self._was_there = _is_there()

    @property
    def is_closed(self) -> bool:
        """Whether it was there and is not any more: then SIGHUP says so, and asks for nothing else."""
        return self._was_there and not _is_there()


def _is_there() -> bool:
    try:
        os.close(os.open(os.ctermid(), os.O_RDWR))
    except OSError:
        return False
    return True
