"""The one place of this room where anything may be caught: a handler that breaks becomes an answer for its caller.

The traceback goes to the log. `calls`, `resources` and `server` are above.
"""

from collections.abc import Awaitable
from typing import TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INTERNAL_ERROR

from goalport.errors import BadInput
from goalport.publish.faults import logged

__all__ = ["HandlerFailed", "answer_of"]

T = TypeVar("T")


class HandlerFailed(MCPError):
    """A handler raised what it should not. Over the wire it is an internal error with a sentence."""

    def __init__(self, words: str) -> None:
        super().__init__(INTERNAL_ERROR, words)


async def answer_of(what: str, handling: Awaitable[T], *, tells_errors: bool) -> T:
    """What a handler answers. Raises what it says to the caller on purpose, and `HandlerFailed` for anything else."""
    try:
        return await handling
    except (BadInput, MCPError):
        raise
    except Exception as bug:
        raise HandlerFailed(logged(what, bug, tells_errors=tells_errors)) from bug
