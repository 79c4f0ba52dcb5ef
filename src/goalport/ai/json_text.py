"""Finding the JSON in what a model wrote. Pure; it knows no type."""

import re
from json import JSONDecodeError, JSONDecoder

from pydantic_core import from_json

__all__ = ["json_of"]

_THOUGHTS = re.compile(r"<think(?:ing)?>.*?</think(?:ing)?>", re.DOTALL)
_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)\n?[ \t]*```", re.DOTALL | re.IGNORECASE)
_decoder = JSONDecoder()


def json_of(text: str) -> str | None:
    """The JSON text inside thoughts, a fence and words around it; None: there is none that can be read."""
    if _readable(text):
        return text.strip()
    said = _THOUGHTS.sub("", text).strip()
    candidates = [said, *(found.group(1) for found in _FENCE.finditer(said)), *_embedded(said)]
    return next((each.strip() for each in candidates if _readable(each)), None)


def _embedded(text: str) -> list[str]:
    """The first object in the text; the first list, where there is no object."""
    for opening in "{[":
        start = text.find(opening)
        while start >= 0:
            try:
                _, end = _decoder.raw_decode(text, start)
            except (JSONDecodeError, RecursionError):
                start = text.find(opening, start + 1)
            else:
                return [text[start:end]]
    return []


def _readable(text: str) -> bool:
    try:
        from_json(text)
    except (TypeError, ValueError):  # the former for half a surrogate pair, which is no text that JSON could be in
        return False
    return True
