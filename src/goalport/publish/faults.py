"""Failures put into words: a declaration that cannot be read is a `Fault`, a bug is logged and told in a sentence.

Only here may anything be caught that the types of users raise when they are read. `serve` catches what handlers raise.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import TypeVar

from goalport.errors import GoalportError
from goalport.secrecy import hide
from goalport.words import error_summary, first_line

__all__ = ["Fault", "logged", "read_or_fault"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something cannot be read."""

    reason: str


def logged(what: str, bug: BaseException, *, tells_errors: bool) -> str:
    """What a client is told of a failure whose traceback goes to the log, and under which id it is found there.

    What the exception says may be anything; only errors of goalport are made for people.
    """
    found = token_hex(4)
    _log.error("%s broke (error %s).", what, found, exc_info=bug)
    name, text = type(bug).__name__, first_line(hide(str(bug).strip()))
    told = f": {text}" if text and (tells_errors or isinstance(bug, GoalportError)) else ""
    return f"{what} failed: {name}{told.rstrip('.')}. The server's log has it as error {found}."


def read_or_fault(reading: Callable[[], T]) -> T | Fault:
    """What is read of a declaration, or why it cannot be, whatever its types raise."""
    try:
        return reading()
    except Exception as bug:
        _log.debug("A declaration cannot be read.", exc_info=True)
        return Fault(first_line(str(bug) if isinstance(bug, GoalportError) else error_summary(bug)))
