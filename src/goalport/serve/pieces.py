"""A long text in pieces that each fit into one message."""

import json
from collections.abc import Iterator
from typing import Final

__all__ = ["pieces_of"]

_BLOCK: Final = 4_096


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
