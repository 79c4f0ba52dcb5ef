"""The A2A door (`site.app.Door`): its paths, and how other agents find them.

It neither listens nor mounts its routes; `site` does. The handlers, and with them the SDK, are imported with the first
request, because importing them takes long. Below: `requests`.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from importlib.util import find_spec
from typing import Any, Final

from anyio import to_thread
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from goalport.base.errors import SettingsError
from goalport.base.secrecy import hide_known
from goalport.base.words import cleaned
from goalport.server.auth import Access
from goalport.server.doors.a2a.signing import CardKey
from goalport.server.publish.publisher import Publisher
from goalport.server.web.endpoint import Endpoint, HttpDoor, OpenStreams
from goalport.server.web.problems import Problem

A2A: Final = "/a2a"
CARD: Final = "/.well-known/agent-card.json"
KEYS: Final = "/.well-known/a2a-keys.json"
_AGENT: Final = f"{A2A}/agents/{{agent}}"
_BUG: Final = -32603
_CODES: Final = {
    HTTPStatus.UNSUPPORTED_MEDIA_TYPE: -32005,
    HTTPStatus.BAD_REQUEST: -32600,
    HTTPStatus.NOT_FOUND: -32601,
}
"""The codes of JSON-RPC for refusals over HTTP."""


class _OpenEndpoint(Endpoint):
    """A path for everybody, or whose handler asks for scopes itself."""

    checked_by_handler = ("GET", "HEAD", "POST", "DELETE")


class A2aDoor:
    """Goals and chatbots as agents for other agents. Raises `SettingsError` without the SDK, or for an unusable key."""

    exposed_headers: Sequence[str] = ("Retry-After", "ETag")
    """The response headers that a web page needs as a client."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        if find_spec("a2a") is None:
            raise SettingsError("a2a = true needs a library that is not installed. Run pip install 'goalport[a2a]'.")
        self._publisher, self._access = publisher, access
        self._streams = OpenStreams(publisher.settings)
        self._key = CardKey.of(publisher.settings)
        self._requests: Any = None
        here = "The agent card at {root}" + CARD + " says which interfaces there are."
        rest, rpc = (HttpDoor("a2a", A2A, publisher, access, refusal, here) for refusal in (_refused, _refused_rpc))
        self._door = rest
        self.routes: Sequence[Route] = [
            Route(CARD, _OpenEndpoint(rest, CARD, GET=self._card)),
            Route(KEYS, _OpenEndpoint(rest, KEYS, GET=self._keys)),
            *(Route(f"{each}{CARD}", Endpoint(rest, f"{each}{CARD}", GET=self._card)) for each in (A2A, _AGENT)),
            *(Route(each, _OpenEndpoint(rpc, each, POST=self._rpc)) for each in (A2A, _AGENT)),
            *(
                Route(path, _OpenEndpoint(rest, path, GET=self._rest, POST=self._rest, DELETE=self._rest))
                for path in (f"{_AGENT}/{{rest:path}}", f"{A2A}/{{rest:path}}")
            ),
        ]

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"A2A: {address}{A2A} (agent card at {address}{CARD})"

    def refusal(self, status: HTTPStatus, kind: str, detail: str, /) -> Response:
        """A refusal by the site, as the protocol has errors over HTTP."""
        return _refused(Problem(status, kind, detail))

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context that does nothing: a request needs nothing beside the platform."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: a stream ends with its task, with the platform or with the listener."""

    async def _handlers(self) -> Any:
        if self._requests is None:
            self._requests = await to_thread.run_sync(self._made)
        return self._requests

    def _made(self) -> Any:
        from goalport.server.doors.a2a.requests import A2aRequests

        return A2aRequests(self._door, self._streams, self._key)

    async def _card(self, request: Request) -> Response:
        return await (await self._handlers()).card(request)

    async def _keys(self, request: Request) -> Response:
        return JSONResponse({"keys": [] if self._key is None else [self._key.public]})

    async def _rpc(self, request: Request) -> Response:
        return await (await self._handlers()).rpc(request)

    async def _rest(self, request: Request) -> Response:
        return await (await self._handlers()).rest(request)


def _refused(problem: Problem) -> Response:
    """A refusal as HTTP+JSON has errors: the status of Google's APIs."""
    status = problem.status
    content = {
        "code": int(status),
        "status": problem.kind.upper().replace("-", "_"),
        "message": cleaned(hide_known(problem.detail)),
    }
    return JSONResponse({"error": content}, status, problem.headers)


def _refused_rpc(problem: Problem) -> Response:
    """A refusal as JSON-RPC has errors."""
    error = {"code": _CODES.get(problem.status, _BUG), "message": cleaned(hide_known(problem.detail))}
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": error}, problem.status, problem.headers)
