"""Pagination of lists, with opaque cursors that stay valid when the list changes between two pages.

A cursor holds the last key of its page. The next page begins after that key, even if entries were added or removed.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from mcp.shared.exceptions import MCPError
from mcp_types import INVALID_PARAMS, PaginatedRequestParams, Prompt, Resource, ResourceTemplate, Tool

__all__ = ["PROMPTS", "RESOURCES", "TEMPLATES", "TOOLS", "Pagination"]

ListedT = TypeVar("ListedT")


@dataclass(frozen=True)
class Pagination(Generic[ListedT]):
    """The pagination of the lists of one kind."""

    kind: str
    key: Callable[[ListedT], str]
    """The unique key of an entry; the list must be sorted by it."""

    def page(
        self, entries: Sequence[ListedT], params: PaginatedRequestParams | None, size: int
    ) -> tuple[list[ListedT], str | None]:
        """A page of at most `size` entries, and the cursor of the next. Raises `MCPError` for an invalid cursor."""
        rest = entries
        if params is not None and params.cursor is not None:
            after = self._read(params.cursor)
            rest = [each for each in entries if self.key(each) > after]
        cursor = self._write(rest[size - 1]) if len(rest) > size else None
        return list(rest[:size]), cursor

    def _write(self, last: ListedT) -> str:
        return urlsafe_b64encode(f"{self.kind} {self.key(last)}".encode()).decode()

    def _read(self, cursor: str) -> str:
        try:
            kind, separator, key = urlsafe_b64decode(cursor.encode()).decode().partition(" ")
        except ValueError:
            kind, separator, key = "", "", ""
        if kind != self.kind or not separator:
            raise MCPError(INVALID_PARAMS, f"The cursor is not one of the list of {self.kind}. Ask again without one.")
        return key


TOOLS = Pagination[Tool]("tools", lambda each: each.name)
PROMPTS = Pagination[Prompt]("prompts", lambda each: each.name)
RESOURCES = Pagination[Resource]("resources", lambda each: each.uri)
TEMPLATES = Pagination[ResourceTemplate]("templates", lambda each: each.uri_template)
