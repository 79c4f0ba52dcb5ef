"""Failures in words: a declaration that cannot be read becomes a `Fault`, a bug is logged and told in one sentence.

Only this module of the room catches every exception that users' types raise. `doors.mcp.state` does so for handlers.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import TypeVar

from goalport.base.errors import GoalportError, HandedOver, StoreError, Unreadable
from goalport.base.secrecy import hide
from goalport.base.words import error_summary, first_line

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """The reason why a declaration cannot be read."""

    reason: str


def logged(what: str, bug: BaseException, *, tells_errors: bool) -> str:
    """Log the traceback of a bug, and return a sentence for the client with the id by which the log has it.

    The sentence quotes the exception's message if `tells_errors`, or if it is an error of goalport.
    """
    error_id = token_hex(4)
    _log.error("%s broke (error %s).", what, error_id, exc_info=bug)
    name, text = type(bug).__name__, first_line(hide(str(bug).strip()))
    quoted = f": {text}" if text and (tells_errors or isinstance(bug, GoalportError)) else ""
    return f"{what} failed: {name}{quoted.rstrip('.')}. The server's log has it as error {error_id}."


def unavailable_words(trouble: HandedOver | StoreError | Unreadable) -> str:
    """What a client hears of what is away now. Where the store is, the log alone says."""
    if not isinstance(trouble, StoreError):
        return str(trouble)
    _log.warning("A request was refused: %s", trouble)
    return f"Try again later. {trouble.told}"


def read_or_fault(read: Callable[[], T]) -> T | Fault:
    """The value that `read` returns, or a `Fault` for any exception that it raises."""
    try:
        return read()
    except Exception as bug:
        _log.debug("A declaration cannot be read.", exc_info=True)
        return Fault(first_line(str(bug) if isinstance(bug, GoalportError) else error_summary(bug)))
