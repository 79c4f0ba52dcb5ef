"""The whole list of a server's tools, page by page, however the server means it."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from mcp import Client
    from mcp_types import Tool as Definition

__all__ = ["Listing", "list_tools"]

_MOST_TOOLS: Final = 10_000
_MOST_PAGES: Final = 1_000


@dataclass(frozen=True, slots=True)
class Listing:
    """The tools that a server lists."""

    definitions: "tuple[Definition, ...]" = ()
    note: str = ""
    """Why it is not all of them; empty: it is."""


async def list_tools(client: "Client") -> Listing:
    """Ask for page after page. A list that never ends is cut; a server that has no tools is asked for none."""
    if client.server_capabilities.tools is None:
        return Listing()
    found: list[Definition] = []
    cursors: set[str | None] = set()
    cursor: str | None = None
    while len(cursors) < _MOST_PAGES and len(found) <= _MOST_TOOLS:
        cursors.add(cursor)
        page = await client.list_tools(cursor=cursor, cache_mode="refresh")
        found.extend(page.tools)
        cursor = page.next_cursor
        if cursor is None:
            return Listing(tuple(found[:_MOST_TOOLS]), _too_many(len(found)))
        if cursor in cursors:
            return Listing(tuple(found[:_MOST_TOOLS]), "its list of tools goes round in a circle, and was cut")
    return Listing(tuple(found[:_MOST_TOOLS]), "its list of tools does not end, and was cut")


def _too_many(count: int) -> str:
    return f"it lists {count:,} tools, of which the first {_MOST_TOOLS:,} are used" if count > _MOST_TOOLS else ""
