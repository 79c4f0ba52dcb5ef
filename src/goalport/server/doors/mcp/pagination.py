"""The pages of lists: how they are cut, and the cursors that clients send back to get the next one.

A cursor says of which list it is and where its page has ended, so it stays valid when the list changes meanwhile.
`server` and `provided_resources` are above.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_left
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams

ListedT = TypeVar("ListedT")
SourceT = TypeVar("SourceT")


def cursor_of(kind: str, place: str) -> str:
    """The cursor of a place in the list of a kind, which is one word."""
    return urlsafe_b64encode(f"{kind} {place}".encode()).decode()


def place_of(params: PaginatedRequestParams | None, kinds: Sequence[str]) -> tuple[str, str] | None:
    """The kind and the place that the cursor of a request says; None without a cursor.

    Raises `MCPError` (-32602) for a cursor that is of none of these kinds.
    """
    if params is None or params.cursor is None:
        return None
    try:
        kind, separator, place = urlsafe_b64decode(params.cursor.encode()).decode().partition(" ")
    except ValueError:
        kind = separator = place = ""
    if kind not in kinds or not separator:
        raise MCPError(INVALID_PARAMS, f"The cursor is not one of the list of {kinds[0]}. Ask again without one.")
    return kind, place


@dataclass(frozen=True)
class Pagination(Generic[ListedT]):
    """The pages of the lists of one kind: each begins after the last key of the one before."""

    kind: str
    key: Callable[[ListedT], str]
    """The unique key of an entry; the list must be sorted by it."""

    def page(
        self, entries: Sequence[ListedT], params: PaginatedRequestParams | None, size: int
    ) -> tuple[list[ListedT], str | None]:
        """A page of at most `size` entries, and the cursor of the next. Raises `MCPError` for an invalid cursor."""
        place = place_of(params, [self.kind])
        rest = entries if place is None else [entry for entry in entries if self.key(entry) > place[1]]
        if len(rest) <= size:
            return list(rest), None
        return list(rest[:size]), cursor_of(self.kind, self.key(rest[size - 1]))


async def page_across(
    sources: Mapping[str, SourceT],
    begin: str,
    room: int,
    page: Callable[[SourceT, int, str], Awaitable[tuple[Sequence[ListedT], str]]],
) -> tuple[list[ListedT], str]:
    """At most `room` entries of several sources, which are sorted by name, and the place of the next one.

    `page` gives a page of one source: at most so many entries, and where the next page begins. A place is a name and,
    after a line break, where to go on in that source. Without more entries it is empty.
    """
    found = list[ListedT]()
    first, _, after = begin.partition("\n")
    names = list(sources)
    for name in names[bisect_left(names, first) :]:
        if len(found) >= room:
            return found, f"{name}\n"
        entries, end = await page(sources[name], room - len(found), after if name == first else "")
        found += entries
        if end:
            return found, f"{name}\n{end}"
    return found, ""
