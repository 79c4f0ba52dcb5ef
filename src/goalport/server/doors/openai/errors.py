"""Refusals in the shape of OpenAI's API, with the statuses by which its clients know whether to try again.

Below: problems, which `web.endpoint` makes of exceptions. Above: the door.
"""

from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import JSONResponse

from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.server.web import Problem

_KINDS: Final = {
    HTTPStatus.UNAUTHORIZED: "authentication_error",
    HTTPStatus.FORBIDDEN: "permission_error",
    HTTPStatus.TOO_MANY_REQUESTS: "rate_limit_error",
}
_RETRY: Final = "x-should-retry"
"""The header by which OpenAI's clients are told whether to send a request again; without it they go by the status."""


def refusal(problem: Problem) -> JSONResponse:
    """A refused request. It may be sent again only if it has begun nothing: after a bug, a message may be stored."""
    # What is wrong in a request has status 400 there, whatever it is.
    invalid = problem.status is HTTPStatus.UNPROCESSABLE_ENTITY
    status = HTTPStatus.BAD_REQUEST if invalid else problem.status
    errors: Sequence[Mapping[str, str]] = problem.members.get("errors", ())
    param = errors[0]["field"] if errors else ""
    body = error_body(status, problem.kind.replace("-", "_"), problem.detail, param or None)
    headers = dict(problem.headers or {})
    headers[_RETRY] = "true" if "Retry-After" in headers else "false"
    return JSONResponse({"error": body}, status, headers)


def error_body(status: HTTPStatus, code: str, message: str, param: str | None = None) -> dict[str, Any]:
    """What stands under `error`; `code` is what programs compare."""
    usual = "server_error" if status >= HTTPStatus.INTERNAL_SERVER_ERROR else "invalid_request_error"
    kind = _KINDS.get(status, usual)
    return {"message": cleaned(hide_known(message)), "type": kind, "param": param, "code": code}


def unsupported(name: str, reason: str) -> Problem:
    """The refusal of a parameter that would not be honoured."""
    errors = [{"field": name, "detail": reason}]
    return Problem(HTTPStatus.BAD_REQUEST, "unsupported-parameter", f"{name}: {reason}", errors=errors)
