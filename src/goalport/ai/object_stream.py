"""Objects out of a text that is still being written: one JSON value after another, each as soon as it is whole.

Pure. Above: `LlmEngine.stream`; `shapes` says what a value must be.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from json import JSONDecodeError, JSONDecoder
from typing import Final

from goalport.ai.binding import bound_text
from goalport.ai.shapes import OutputShape
from goalport.errors import InvalidModelOutput

__all__ = ["ObjectStream", "form_of"]

_FORM: Final = (
    "Answer with JSON Lines: one JSON value per line, each complete on its own line, one line for each object, and "
    "nothing else: no list around them, no words between them. Each line is valid against this JSON Schema:\n{}"
)
_decoder = JSONDecoder()


def form_of(shape: OutputShape) -> str:
    """What a model is told that is to write one object after another."""
    return _FORM.format(json.dumps(shape.spec.schema))


@dataclass(slots=True)
class ObjectStream:
    """What has been written and not yet been read."""

    shape: OutputShape
    _unread: str = field(default="", init=False)

    def feed(self, text: str) -> Iterator[object]:
        """The objects that are whole now. Raises `InvalidModelOutput` for one that breaks the type's rules."""
        self._unread += text
        if "\n" in text or "}" in text:
            yield from self._whole()

    def end(self) -> Iterator[object]:
        """The last object, which no line's end follows. Raises `InvalidModelOutput` for one that was cut off."""
        self._unread += "\n"
        yield from self._whole()
        if self._unread.startswith("{"):
            raise InvalidModelOutput(self.shape.name, ["it was cut off before its end"], self._unread)

    def _whole(self) -> Iterator[object]:
        while (found := self._next()) is not None:
            yield bound_text(found, self.shape)

    def _next(self) -> str | None:
        """The next value that is whole, taken off the text."""
        if self.shape.wrapped:
            return self._line()
        start = self._unread.find("{")
        if start < 0:
            self._unread = ""
            return None
        self._unread = self._unread[start:]
        try:
            _, end = _decoder.raw_decode(self._unread)
        except (JSONDecodeError, RecursionError):
            return None
        return self._take(end)

    def _line(self) -> str | None:
        """The next line that is not empty: what is no object has no other end."""
        self._unread = self._unread.lstrip()
        end = self._unread.find("\n")
        return None if end < 0 else self._take(end)

    def _take(self, end: int) -> str:
        found, self._unread = self._unread[:end], self._unread[end:]
        return found
