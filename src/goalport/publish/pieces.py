"""A long text in pieces that each fit into one message, and into what a model reads at once."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from goalport.process import AgentProcess, Completed
from goalport.publish.output import Output

__all__ = ["Pages", "beginning_of", "pieces_of"]

_BLOCK: Final = 4_096
_BESIDE: Final = 1_000
"""Bytes beside a page in its answer."""
_LARGEST_BLOCK: Final = 12 * _BLOCK + 2
"""A character takes twelve bytes in JSON at worst, as two escapes."""
_PAGE: Final = 100_000
"""Bytes of a page: some 25,000 tokens, the most that hosts give a model of one answer."""


@dataclass(frozen=True, slots=True)
class Pages:
    """The result of a process, page by page."""

    media: str
    text: str
    """The whole."""
    pages: tuple[str, ...]

    @classmethod
    def of(cls, process: AgentProcess, limit: int) -> "Pages | None":
        """The pages of what a process has reached, none above `limit` bytes in JSON; None when it has no result."""
        if not isinstance(process.outcome, Completed) or process.goal is None:
            return None
        media, text = Output.of(process.goal.output).document(process.outcome.value)
        return cls(media, text, tuple(pieces_of(text, min(limit - _BESIDE, _PAGE))))


def beginning_of(text: str, limit: int) -> str:
    """As much of a text as surely takes no more than `limit` bytes in JSON."""
    return next(pieces_of(text, limit)) if limit > _LARGEST_BLOCK else ""


def pieces_of(text: str, limit: int) -> Iterator[str]:
    """The text cut so that no piece takes more than `limit` bytes in JSON; together they are the text again."""
    begin, size = 0, 0
    for at in range(0, len(text), _BLOCK):
        weight = len(json.dumps(text[at : at + _BLOCK]))
        if size and size + weight > limit:
            yield text[begin:at]
            begin, size = at, 0
        size += weight
    yield text[begin:]
