"""What HTTP takes for a good answer and is none: one that was cut off, and an error with the status 200.

The providers' libraries take what came for all of it, as a proxy ends what it could not read to its end like any other
body. Above: `wiring` has each client checked; the libraries below read through it, and `failures` words what is raised.
"""

import re
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing
from functools import partial
from typing import Any, cast

import httpx2
from pydantic_core import from_json

from goalport.llm.providers import Dialect

__all__ = ["ErrorAnswer", "check_answers"]

# Quotes inside of texts are escaped in JSON, so that no text of a model looks like one of these.
_OPENAI = re.compile(rb'"finish_reason"\s*:\s*"\w|[\r\n]data:\s*\[DONE\]')
_RESPONSES = re.compile(rb'"type"\s*:\s*"response\.(?:completed|incomplete|failed)"')
_CLAUDE = re.compile(rb'[\r\n]event:\s*message_stop|"type"\s*:\s*"message_stop"')
_ENDS: Mapping[Dialect, re.Pattern[bytes]] = {
    "openai": _OPENAI,
    "openai-responses": _RESPONSES,
    "azure": _OPENAI,
    "anthropic": _CLAUDE,
    "deepseek": _OPENAI,
    "ollama": _OPENAI,
}
"""How each dialect says that a stream is at its end; the libraries of the others look for it themselves."""
_OVERLAP = 100
"""Bytes of a piece that are looked at with the next one: the longest word above, and spaces."""
_LONGEST_ERROR = 20_000
_ANSWERS = frozenset({"choices", "content", "output", "data"})
"""What is in the answers of models; beside one of these, an error is a detail."""
_PASSING = frozenset({"408", "425", "429", "overloaded_error", "rate_limit_error", "api_error", "server_error"})


class ErrorAnswer(Exception):
    """The answer is an error, with a status that says otherwise."""

    def __init__(self, error: object) -> None:
        self.body = {"error": error}
        super().__init__("an error with the status of an answer")

    @property
    def passes(self) -> bool:
        """Whether the same request may be answered later."""
        error = self.body["error"]
        known = cast("dict[str, object]", error) if isinstance(error, dict) else {}
        said = [str(known.get(name)) for name in ("code", "status", "type")]
        return any(each in _PASSING or re.fullmatch(r"5\d\d", each) for each in said)


def check_answers(client: httpx2.AsyncClient, dialect: Dialect) -> None:
    """Have a stream that ends too early fail as a broken connection does, and raise `ErrorAnswer`."""
    end = _ENDS.get(dialect)

    async def check(response: httpx2.Response) -> None:
        kind = response.headers.get("content-type", "").lower()
        if end and _is_stream(kind, response.request):
            response.aiter_bytes = partial(_until, end, response.aiter_bytes, response.request)
        elif response.is_success and "json" in kind:
            _refuse_error(await response.aread())

    client.event_hooks["response"].append(check)


def _is_stream(kind: str, request: httpx2.Request) -> bool:
    """Whether a stream comes; a server may forget to say so, and then what was wanted counts."""
    if "json" in kind or "html" in kind:
        return False
    return kind.startswith("text/event-stream") or b'"stream":true' in request.content


async def _until(
    end: re.Pattern[bytes],
    read: Callable[[int | None], AsyncGenerator[bytes]],
    request: httpx2.Request,
    chunk_size: int | None = None,
) -> AsyncGenerator[bytes]:
    last, ended = b"\n", False
    async with aclosing(read(chunk_size)) as pieces:
        async for piece in pieces:
            ended = ended or end.search(last + piece) is not None
            last = (last + piece)[-_OVERLAP:]
            yield piece
    if not ended:
        raise httpx2.RemoteProtocolError("the answer ended before it said that it was at its end", request=request)


def _refuse_error(body: bytes) -> None:
    if b'"error"' not in body[:_LONGEST_ERROR] or len(body) > _LONGEST_ERROR:
        return
    try:
        found: Any = from_json(body)
    except ValueError:
        return
    match found:
        case {"error": error} if error and not any(map(found.get, _ANSWERS)):
            raise ErrorAnswer(error)
        case {"choices": [{"error": error}, *_]} if error:
            raise ErrorAnswer(error)
        case _:
            pass
