"""The one place where anything may be caught: a handler that breaks must become an answer, and leave the others alone.

The caller learns in a sentence that it broke, the log gets the trace.
"""

import logging
from collections.abc import Awaitable
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from goalport.errors import BadInput
from goalport.serve.texts import one_line

__all__ = ["Broken", "answer_of"]

T = TypeVar("T")
_log = logging.getLogger(__name__)


class Broken(MCPError):
    """A handler raised what it should not. Over the wire it is an internal error with a sentence."""

    def __init__(self, what: str, bug: Exception) -> None:
        text = one_line(str(bug).strip() or type(bug).__name__)
        super().__init__(INTERNAL_ERROR, f"{what} failed: {text}. The server's log says more.")


async def answer_of(what: str, handling: Awaitable[T]) -> T:
    """What a handler answers. Raises what it says to the caller on purpose, and `Broken` for anything else."""
    try:
        return await handling
    except (BadInput, MCPError):
        raise
    except Exception as bug:
        _log.exception("%s broke.", what)
        raise Broken(what, bug) from bug
