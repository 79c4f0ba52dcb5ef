"""JSON that every program reads alike: for tokens, providers' documents, and files that are rewritten.

Duplicate keys, NaN and infinities, and lone surrogates are refused, since another program may read such a text in
another way, and have decided by that.
"""

import json
from collections.abc import Sequence
from typing import Any, NoReturn, cast


def read_json(text: str) -> object:
    """Parse a JSON text. Raises `ValueError`."""
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("expected JSON that is not nested as deeply") from None
    if "\\u" in text:
        # Half of a surrogate pair can only be written as an escape; encoding it raises a `UnicodeEncodeError`.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return found


def read_object(data: bytes) -> dict[str, Any]:
    """Parse a JSON object in UTF-8. Raises `ValueError`."""
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
