"""JSON that has one meaning for every reader: what tokens, and the documents of identity providers, have to be.

A name that is there twice, a number that is none, and text that is no Unicode are refused, since another program may
have read something else and decided by it. Below all that reads tokens.
"""

import json
from collections.abc import Sequence
from typing import Any, NoReturn, cast

__all__ = ["read_object"]


def read_object(data: bytes) -> dict[str, Any]:
    """The JSON object in these bytes. Raises `ValueError`."""
    text = data.decode("utf-8")
    try:
        found = json.loads(text, object_pairs_hook=_unique, parse_constant=_refuse)
    except RecursionError:
        raise ValueError("expected JSON that is not nested as deeply") from None
    if not isinstance(found, dict):
        raise ValueError(  # noqa: TRY004 - the text is wrong
            f"expected a JSON object, but got {type(found).__name__}"
        )
    if "\\u" in text:
        # Half of a surrogate pair can only be written as an escape; encoding it raises a `UnicodeEncodeError`.
        json.dumps(found, ensure_ascii=False).encode("utf-8")
    return cast("dict[str, Any]", found)


def _unique(members: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(members)
    if len(found) != len(members):
        raise ValueError("expected each name once in a JSON object")
    return found


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"expected JSON, but got {constant}")
