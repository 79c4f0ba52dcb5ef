"""JSON-RPC messages: what makes one valid, before its method and parameters are read.

The SDK treats a request with an invalid id as a notification, so its sender would never get an answer. Pure functions;
the transports are above.
"""

import json
from collections.abc import Mapping
from typing import Final, cast

from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError
from pydantic_core import from_json

from goalport.words import first_line

__all__ = ["id_of", "is_request", "read_message", "refusal"]

_LONGEST: Final = 80


def read_message(data: bytes) -> tuple[object, JSONRPCError | None]:
    """The JSON value of a message, and the error response if it is not a valid message, else None."""
    try:
        message = from_json(data)
    except ValueError as error:
        return None, refusal(None, f"A message should be JSON: {first_line(str(error))}.", PARSE_ERROR)
    reason = _problem_in(message)
    return message, None if reason is None else refusal(id_of(message), reason)


def _problem_in(message: object) -> str | None:
    """Why a JSON value is not a valid message; None if it is."""
    if not isinstance(message, dict):
        return f"A message should be a JSON object; came {_shown(message)}. Send each message by itself."
    fields = cast("Mapping[str, object]", message)
    if fields.get("jsonrpc") != "2.0":
        return f'"jsonrpc" should be "2.0"; came {_shown(fields.get("jsonrpc"))}.'
    if "method" not in fields:
        return _problem_in_answer(fields)
    if not isinstance(fields["method"], str):
        return f'"method" should be a text; came {_shown(fields["method"])}.'
    if "id" in fields and not _is_id(fields["id"]):
        return f'"id" should be a text or an integer; came {_shown(fields["id"])}. A notification has none.'
    if not isinstance(fields.get("params"), dict | None):
        return f'"params" should be an object; came {_shown(fields["params"])}.'
    return None


def _problem_in_answer(fields: Mapping[str, object]) -> str | None:
    if not isinstance(fields.get("result", fields.get("error")), dict):
        return 'A message should have a "method", or the "result" or "error" of an answer, which is an object.'
    if _is_id(fields.get("id")) or (fields.get("id") is None and "error" in fields):
        return None
    return f'"id" should be that of the request; came {_shown(fields.get("id"))}.'


def is_request(message: object) -> bool:
    """Whether a message is a request, so that its sender waits for a response."""
    return isinstance(message, dict) and "method" in message and id_of(cast("object", message)) is not None


def id_of(message: object) -> str | int | None:
    """The id of a message; None if it has no valid one."""
    found = cast("Mapping[str, object]", message).get("id") if isinstance(message, dict) else None
    return cast("str | int", found) if _is_id(found) else None


def refusal(identity: str | int | None, reason: str, code: int = INVALID_REQUEST) -> JSONRPCError:
    """The error response that refuses a message; `identity` is the id of the request, or None."""
    return JSONRPCError(jsonrpc="2.0", id=identity, error=ErrorData(code=code, message=reason))


def _is_id(found: object) -> bool:
    return isinstance(found, str | int) and not isinstance(found, bool)


def _shown(value: object) -> str:
    match value:
        case dict():
            return "an object"
        case list():
            return "a list"
        case _:
            return first_line(json.dumps(value, ensure_ascii=False), _LONGEST)
