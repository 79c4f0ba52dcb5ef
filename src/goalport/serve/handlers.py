"""The only place of this room that catches every exception: the failure of a handler becomes an error for its caller.

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
    """A handler raised an unexpected exception. The client gets an internal error (-32603) with one sentence."""

    def __init__(self, words: str) -> None:
        super().__init__(INTERNAL_ERROR, words)


async def answer_of(what: str, handling: Awaitable[T], *, tells_errors: bool) -> T:
    """The result of a handler. Lets `BadInput` and `MCPError` pass, and raises `HandlerFailed` for any other error."""
    try:
        return await handling
    except (BadInput, MCPError):
        raise
    except Exception as bug:
        raise HandlerFailed(logged(what, bug, tells_errors=tells_errors)) from bug
