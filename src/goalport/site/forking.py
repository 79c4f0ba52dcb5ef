"""What the processes that actions fork inherit of a server: not its signals.

A child that took signals as its server does would not end when it is told, and by the pipe that wakes the event loop,
which it shares, the server would hear of the signal and end instead.
"""

import os
import signal
import sys
from collections.abc import Generator
from contextlib import contextmanager

__all__ = ["children_end_when_told"]


@contextmanager
def children_end_when_told() -> Generator[None]:
    """The time in which this process is a server: what is forked meanwhile takes signals as a new program does."""
    serving = True

    def forget() -> None:
        # A hook like this cannot be taken back.
        if serving:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.signal(signal.SIGINT, signal.default_int_handler)

    if sys.platform != "win32":
        os.register_at_fork(after_in_child=forget)
    try:
        yield
    finally:
        serving = False
