"""The one place where anything may be caught: what breaks must become a sentence, and leave the others alone.

A handler that breaks is an answer for its caller and a trace in the log; a declaration that breaks when it is read is a
problem in the report.
"""

import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from secrets import token_hex
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from goalport.errors import BadInput, GoalportError
from goalport.secrecy import hide
from goalport.serve.texts import one_line

__all__ = ["Broken", "Fault", "answer_of", "logged", "read_or_fault"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Fault:
    """Why something cannot be read."""

    reason: str


class Broken(MCPError):
    """A handler raised what it should not. Over the wire it is an internal error with a sentence."""

    def __init__(self, words: str) -> None:
        super().__init__(INTERNAL_ERROR, words)


async def answer_of(what: str, handling: Awaitable[T], *, tells_errors: bool) -> T:
    """What a handler answers. Raises what it says to the caller on purpose, and `Broken` for anything else."""
    try:
        return await handling
    except (BadInput, MCPError):
        raise
    except Exception as bug:
        raise Broken(logged(what, bug, tells_errors=tells_errors)) from bug


def logged(what: str, bug: BaseException, *, tells_errors: bool) -> str:
    """What a client is told of a failure whose traceback goes to the log, and under which id it is found there.

    What the exception says may be anything; only errors of goalport are made for people.
    """
    found = token_hex(4)
    _log.error("%s broke (error %s).", what, found, exc_info=bug)
    name, text = type(bug).__name__, one_line(hide(str(bug).strip()))
    told = f": {text}" if text and (tells_errors or isinstance(bug, GoalportError)) else ""
    return f"{what} failed: {name}{told.rstrip('.')}. The server's log has it as error {found}."


def read_or_fault(reading: Callable[[], T]) -> T | Fault:
    """What is read of a declaration, or why it cannot be, whatever its types raise."""
    try:
        return reading()
    except Exception as bug:
        _log.debug("A declaration cannot be read.", exc_info=True)
        return Fault(one_line(str(bug) if isinstance(bug, GoalportError) else f"{type(bug).__name__}: {bug}"))
