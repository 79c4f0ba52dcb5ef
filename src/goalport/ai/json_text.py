"""Finding the JSON in what a model wrote. Pure; it knows no type."""

import re
from collections.abc import Iterator
from json import JSONDecodeError, JSONDecoder
from typing import Final

from pydantic_core import from_json

__all__ = ["json_of"]

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE_BEGIN = re.compile(r"```(?:json)?[ \t]*\n", re.IGNORECASE)
_FENCE_END: Final = "```"
_THOUGHT_END: Final = "</think"
_OPENING = re.compile(r"[{\[]")
_BEGINNING = re.compile(r"""\{\s*["']|\[\s*["'\[{]""")
"""How JSON begins, and braces and brackets among words do not."""
_BRACKET_OR_TEXT = re.compile(r'[{}\[\]]|"(?:[^"\\\n]|\\.)*+"?')
_decoder = JSONDecoder()
_MOST_SEARCHED: Final = 1_000_000
"""Characters that are read in vain before no more JSON is looked for: a text may be nothing but half objects."""
_SEARCHED_TOO_DEEP: Final = 50_000
"""What counts for an object of which nobody says where it stops to be one."""


def json_of(text: str) -> str | None:
    """The JSON text inside thoughts, a fence and words around it; None: there is none that can be read."""
    if _readable(text):
        return text.strip()
    said = _without_thoughts(text).strip()
    candidates = [said, *_fenced(said), *_embedded(said)]
    return next((each.strip() for each in candidates if _readable(each)), None)


def _fenced(text: str) -> Iterator[str]:
    """What stands in fences. One expression for all of a fence would look for its end from each of its spaces."""
    begin = _FENCE_BEGIN.search(text)
    while begin and (end := text.find(_FENCE_END, begin.end())) >= 0:
        yield text[begin.end() : end]
        begin = _FENCE_BEGIN.search(text, end + len(_FENCE_END))


def _without_thoughts(text: str) -> str:
    # Behind the last end no thought is whole, and looking for its end from each beginning would take forever.
    end = text.rfind(_THOUGHT_END) + len("</thinking>")
    return _THOUGHTS.sub("", text[:end]) + text[end:]


def _embedded(text: str) -> list[str]:
    """The first object in the text; the first list, where there is no object.

    An object that cannot be read is passed over with all that is in it: a part of an answer is no answer.
    """
    place, searched, lists = 0, 0, list[str]()
    while (opening := _OPENING.search(text, place)) and searched < _MOST_SEARCHED:
        start = opening.start()
        place = start + 1
        try:
            _, end = _decoder.raw_decode(text, start)
        except (RecursionError, ValueError) as error:
            searched += _cost(error, start)
            if _BEGINNING.match(text, start):
                place = _end_of(text, start)
        else:
            if opening[0] == "{":
                return [text[start:end]]
            searched += end - start
            lists.append(text[start:end])
    return lists[:1]


def _cost(error: Exception, start: int) -> int:
    if isinstance(error, JSONDecodeError):
        return error.pos - start + error.pos // 100 + 1  # the error counts all lines before it
    return _SEARCHED_TOO_DEEP  # or a number of thousands of digits


def _end_of(text: str, start: int) -> int:
    """Where the brackets are closed that are opened there; the end of the text when they are not: it was cut off."""
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
