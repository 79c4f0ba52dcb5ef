"""SIGHUP: a request to load the workspace anew, unless it says that the terminal was closed."""

import os
import signal

__all__ = ["has_terminal", "heeds_hangup", "terminal_closed"]


def heeds_hangup() -> bool:
    """Whether the signal is obeyed: `nohup` ignores it for the programs that it starts, and Windows has none."""
    return hasattr(signal, "SIGHUP") and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN


def terminal_closed(had_terminal: bool) -> bool:  # noqa: FBT001 - its name says it
    """Whether the terminal that the program had was closed, which sends the signal too."""
    return had_terminal and not has_terminal()


def has_terminal() -> bool:
    """Whether this process has a terminal; one that was closed is none."""
    try:
        os.close(os.open(os.ctermid(), os.O_RDWR))
    except OSError:
        return False
    return True
