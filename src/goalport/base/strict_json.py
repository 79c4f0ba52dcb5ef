"""JSON that has one meaning for every reader: what tokens, providers' documents and files to be rewritten have to be.

A name that is there twice, a number that is none, and text that is no Unicode are refused, since another program may
have read something else and decided by it.
"""

import json
from collections.abc import Sequence
from typing import Any, NoReturn, cast


def read_json(text: str) -> object:
    """The value that a text is. Raises `ValueError`."""
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("expected JSON that is not nested as deeply") from None
    if "\\u" in text:
        # Half of a surrogate pair can only be written as an escape; encoding it raises a `UnicodeEncodeError`.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in these bytes. Raises `ValueError`."""
    found = read_json(data.decode("utf-8"))
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 - the text is wrong
            f"expected a JSON object, but got {type(found).__name__}"
        )
    return cast("dict[str, Any]", found)


def _unique(members: Sequence[tuple[str, object]]) -> dict[str, object]:
    found = dict(members)
    if len(found) != len(members):
        names = [name for name, _ in members]
        raise ValueError(f"a key is there twice: {next(each for each in names if names.count(each) > 1)!r}")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON number")
