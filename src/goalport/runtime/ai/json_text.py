"""JSON in the text of a model: found in a whole reply (`json_of`) or while a reply is written (`JsonValues`).

It knows no type, and it validates nothing.
"""

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Final

from pydantic_core import from_json

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE_BEGIN = re.compile(r"```(?:json)?[ \t]*\n", re.IGNORECASE)
_FENCE_END: Final = "```"
_THOUGHT_END: Final = "</think"
_OPENING = re.compile(r"[{\[]")
_BEGINNING = re.compile(r"""\{\s*["']|\[\s*["'\[{]""")
"""How JSON begins, unlike braces and brackets among words."""
_BRACKET_OR_TEXT = re.compile(r'[{}\[\]]|"(?:[^"\\\n]|\\.)*+"?')
_THOUGHT_BEGINS: Final = ("<think>", "<thinking>")
_THOUGHT_ENDS: Final = re.compile(r"</think(?:ing)?>")
_decoder = JSONDecoder()
_MOST_SEARCHED: Final = 1_000_000
"""Characters that are read in vain before the search ends: a text may consist of unfinished objects only."""
_SEARCHED_TOO_DEEP: Final = 50_000
"""The characters that are counted for an object when it is not known where its reading failed."""


def json_of(text: str) -> str | None:
    """The JSON text of a reply, without thoughts, fences and words around it; None when there is no valid JSON."""
    if _readable(text):
        return text.strip()
    answer = _without_thoughts(text).strip()
    candidates = [answer, *_fenced(answer), *_embedded(answer)]
    return next((each.strip() for each in candidates if _readable(each)), None)


def _fenced(text: str) -> Iterator[str]:
    """The contents of fences. A single regular expression for a whole fence would be slow on long spaces."""
    begin = _FENCE_BEGIN.search(text)
    while begin and (end := text.find(_FENCE_END, begin.end())) >= 0:
        yield text[begin.end() : end]
        begin = _FENCE_BEGIN.search(text, end + len(_FENCE_END))


def _without_thoughts(text: str) -> str:
    # Behind the last end mark no thought is whole, and a search from each beginning would take quadratic time.
    end = text.rfind(_THOUGHT_END) + len("</thinking>")
    return _THOUGHTS.sub("", text[:end]) + text[end:]


def _embedded(text: str) -> list[str]:
    """The first object in the text, or the first list when there is no object.

    An object that cannot be read is skipped with everything in it: a part of an answer is not an answer.
    """
    place, searched, lists = 0, 0, list[str]()
    while (opening := _OPENING.search(text, place)) and searched < _MOST_SEARCHED:
        start = opening.start()
        place = start + 1
        try:
            _, end = _decoder.raw_decode(text, start)
        except (RecursionError, ValueError) as error:
            if isinstance(error, JSONDecodeError):
                searched += error.pos - start + error.pos // 100 + 1  # the error counts all lines before it
            else:
                searched += _SEARCHED_TOO_DEEP  # or a number of thousands of digits
            if _BEGINNING.match(text, start):
                place = _end_of(text, start)
        else:
            if opening[0] == "{":
                return [text[start:end]]
            searched += end - start
            lists.append(text[start:end])
    return lists[:1]


def _end_of(text: str, start: int) -> int:
    """Where the brackets that open at `start` are closed; the end of the text when it was cut off before."""
    depth = 0
    for found in _BRACKET_OR_TEXT.finditer(text, start):
        depth += {"{": 1, "[": 1, "}": -1, "]": -1}.get(found[0], 0)
        if not depth:
            return found.end()
    return len(text)


def _readable(text: str) -> bool:
    try:
        from_json(text)
    except (TypeError, ValueError):  # the former for half a surrogate pair, which is no text that JSON could be in
        return False
    return True


class JsonValues:
    """Reads JSON values out of a text that is still being written, each as soon as it is whole.

    Objects end with their closing brace; with `lines`, any value ends with its line. A list around the objects, and a
    fence, words or thoughts before them, are skipped.
    """

    def __init__(self, *, lines: bool) -> None:
        self._lines = lines
        self._begun = False
        """Whether anything but thoughts has come."""
        self._text = ""
        self._at = 0
        self._start = -1
        """Where the object that is being read begins; negative between two objects."""
        self._depth = 0
        self._quoted = False
        self._escaped = False

    @property
    def unfinished(self) -> str:
        """The text of an object that is not whole yet."""
        return "" if self._start < 0 else self._text[self._start :]

    def feed(self, text: str) -> Iterator[str]:
        """The values that become whole with a further piece of text."""
        # Only the object that is being read is kept: texts grow long, and appending to a long one takes time.
        kept = self._at if self._start < 0 else self._start
        self._text, self._at, self._start = self._text[kept:] + text, self._at - kept, min(self._start, 0)
        if self._begun or not self._is_thinking():
            self._begun = True
            yield from self._whole_lines() if self._lines else self._whole_objects()

    def end(self) -> Iterator[str]:
        """The value that no line break follows."""
        return self.feed("\n")

    def _is_thinking(self) -> bool:
        """Whether only thoughts, or what may become thoughts, have come; if not, skip the thoughts."""
        text_so_far = self._text.lstrip()
        if not text_so_far.startswith(_THOUGHT_BEGINS):
            return any(begin.startswith(text_so_far.rstrip()) for begin in _THOUGHT_BEGINS)
        end = _THOUGHT_ENDS.search(self._text)
        self._at = end.end() if end else 0
        return end is None

    def _whole_lines(self) -> Iterator[str]:
        while (end := self._text.find("\n", self._at)) >= 0:
            line, self._at = self._text[self._at : end].strip(), end + 1
            if line and not line.startswith(_FENCE_END):
                yield line

    def _whole_objects(self) -> Iterator[str]:
        while self._at < len(self._text):
            char = self._text[self._at]
            self._at += 1
            if self._start < 0:
                if char != "{":
                    continue
                self._start = self._at - 1
            if self._escaped:
                self._escaped = False
                continue
            if self._quoted:
                self._escaped, self._quoted = char == "\\", char != '"'
                continue
            self._quoted = char == '"'
            self._depth += (char == "{") - (char == "}")
            if self._depth == 0:
                yield self._text[self._start : self._at]
                self._start = -1
