"""Cutting the elements of a list out of JSON that comes in pieces, each as soon as it is whole. Pure; it knows no type.

The list may stand by itself, in the object that many providers want around it, after thoughts or words, or be no list
at all but one object after another.
"""

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["Elements"]

_THOUGHT_BEGINS: Final = re.compile(r"<think(?:ing)?>")
_THOUGHT_ENDS: Final = re.compile(r"</think(?:ing)?>")
_OPENING: Final = re.compile(r"[\[{]")
_WRAPPER: Final = re.compile(r'\{\s*"result"\s*:\s*\[')
_PART_OF_WRAPPER: Final = re.compile(r'\{\s*(?:"(?:r(?:e(?:s(?:u(?:l(?:t(?:"\s*(?::\s*)?)?)?)?)?)?)?)?)?')
_OUTSIDE_STRINGS: Final = re.compile(r'["{}\[\],]|[^\s"{}\[\],]+')
_INSIDE_STRINGS: Final = re.compile(r'\\.|"', re.DOTALL)


class Elements:
    """One list that is being written."""

    def __init__(self) -> None:
        self._text = ""
        self._at = -1
        """How far the text is read; negative while its list has not begun."""
        self._bare = False
        """Whether objects stand one after another without a list around them."""
        self._depth = 0
        self._quoted = False
        self._start = -1
        """Where the element begins that is being read; negative between two."""
        self._closed = False

    @property
    def ended(self) -> bool:
        """Whether nothing is left half written."""
        return self._closed or (self._bare and self._start < 0)

    def feed(self, text: str) -> Iterator[str]:
        """The elements that a further piece of the text makes whole."""
        self._text += text
        if self._at < 0:
            self._begin()
        while self._at >= 0 and not self._closed:
            found = self._next()
            if found is None:
                return
            before = self._start
            if self._is_whole(found.group(), found.start()):
                yield self._text[before if before >= 0 else found.start() : self._at].rstrip(", \n\r\t")

    def _begin(self) -> None:
        thoughts = _THOUGHT_ENDS.search(self._text)
        if not thoughts and _THOUGHT_BEGINS.search(self._text):
            return
        opening = _OPENING.search(self._text, thoughts.end() if thoughts else 0)
        if opening is None:
            return
        wrapper = _WRAPPER.match(self._text, opening.start())
        if opening.group() == "[" or wrapper:
            self._at = (wrapper or opening).end()
        elif not _PART_OF_WRAPPER.fullmatch(self._text, opening.start()):
            self._bare, self._at = True, opening.start()
