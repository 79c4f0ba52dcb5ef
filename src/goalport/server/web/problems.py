"""Problems: why a request is refused, as data. Each door has a shape for it; RFC 9457 is the usual one.

`endpoint` makes problems of exceptions; the handlers of doors raise a `Problem` where no exception says enough.
"""

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import Any, Final

from starlette.responses import JSONResponse

from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned

MEDIA_TYPE: Final = "application/problem+json"
_RETRY_SECONDS: Final = 5


class Problem(Exception):
    """A request that is refused: the status, the end of the problem's type, and what to do about it in a sentence."""

    def __init__(
        self, status: HTTPStatus, kind: str, detail: str, headers: Mapping[str, str] | None = None, **members: Any
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.kind = kind
        self.detail = detail
        self.headers = headers
        self.members: Mapping[str, Any] = members
        """What problem details say besides."""

    def response(self) -> JSONResponse:
        """The refusal as problem details."""
        return problem(self.status, self.kind, self.detail, self.headers, **self.members)


def problem(
    status: HTTPStatus, kind: str, detail: str, headers: Mapping[str, str] | None = None, **members: Any
) -> JSONResponse:
    """A response with problem details (RFC 9457); `kind` is the end of their `type`, which programs compare."""
    content = {
        "type": f"urn:goalport:problem:{kind}",
        "title": status.phrase,
        "status": int(status),
        "detail": cleaned(hide_known(detail)),
        **members,
    }
    return JSONResponse(content, status, headers, media_type=MEDIA_TYPE)


def invalid(problems: Iterable[str], detail: str, *, within: str = "") -> Problem:
    """The refusal of values; each problem is a line that begins with the field, `within` is the field around them."""
    errors: list[dict[str, str]] = []
    for line in problems:
        field, colon, reason = line.partition(": ")
        if not colon or "; came " in field:  # a line about the whole, which may end with the value that came
            field, reason = "", line
        errors.append({"field": ".".join(filter(None, (within, field))), "detail": cleaned(hide_known(reason))})
    return Problem(HTTPStatus.UNPROCESSABLE_ENTITY, "invalid-value", detail, errors=errors)


def unavailable(detail: str, status: HTTPStatus = HTTPStatus.SERVICE_UNAVAILABLE) -> Problem:
    """The refusal of what may succeed a little later."""
    return Problem(status, "unavailable", detail, {"Retry-After": str(_RETRY_SECONDS)})
