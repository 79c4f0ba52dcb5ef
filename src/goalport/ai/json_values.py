"""JSON values out of a text that is still being written: one after another, each as soon as it is whole.

Pure; it knows no type. A list around the objects, a fence, words and thoughts before them do no harm.
"""

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["JsonValues"]

_THOUGHT_BEGINS: Final = ("<think>", "<thinking>")
_THOUGHT_ENDS: Final = re.compile(r"</think(?:ing)?>")
_FENCE: Final = "```"


class JsonValues:
    """What has been written so far. Objects end with their brace; with `lines`, any value ends with its line."""

    def __init__(self, *, lines: bool) -> None:
        self._lines = lines
        self._begun = False
        """Whether anything but thoughts is there."""
        self._text = ""
        self._at = 0
        self._start = -1
        """Where the object begins that is being read; negative between two."""
        self._depth = 0
        self._quoted = False
        self._escaped = False

    @property
    def left(self) -> str:
        """What is written of an object that is not whole."""
        return "" if self._start < 0 else self._text[self._start :]

    def feed(self, text: str) -> Iterator[str]:
        """The values that a further piece makes whole."""
        self._forget_read()
        self._text += text
        if self._begun or not self._thinks():
            self._begun = True
            yield from self._whole_lines() if self._lines else self._whole_objects()

    def _forget_read(self) -> None:
        """Keep the object alone that is being read: texts grow long, and adding to a long one takes time."""
        kept = self._at if self._start < 0 else self._start
        self._text, self._at, self._start = self._text[kept:], self._at - kept, min(self._start, 0)

    def end(self) -> Iterator[str]:
        """The value that no line's end follows."""
        return self.feed("\n")

    def _thinks(self) -> bool:
        """Whether nothing but thoughts, or what may become one, is there yet; if not, go on behind them."""
        said = self._text.lstrip()
        if not said.startswith(_THOUGHT_BEGINS):
            return any(begin.startswith(said.rstrip()) for begin in _THOUGHT_BEGINS)
        end = _THOUGHT_ENDS.search(self._text)
        self._at = end.end() if end else 0
        return end is None

    def _whole_lines(self) -> Iterator[str]:
        while (end := self._text.find("\n", self._at)) >= 0:
            line, self._at = self._text[self._at : end].strip(), end + 1
            if line and not line.startswith(_FENCE):
                yield line

    def _whole_objects(self) -> Iterator[str]:
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if self._start < 0:
                if char != "{":
                    continue
                self._start = self._at - 1
            if self._quoted:
                self._inside_string(char)
                continue
            self._quoted = char == '"'
            self._depth += (char == "{") - (char == "}")
            if self._depth == 0:
                yield self._text[self._start : self._at]
                self._start = -1

    def _inside_string(self, char: str) -> None:
        if self._escaped:
            self._escaped = False
        elif char == "\\":
            self._escaped = True
        elif char == '"':
            self._quoted = False
