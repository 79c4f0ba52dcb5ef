"""The door itself (`site.app.Door`): its paths, and how clients find them.

It neither listens nor mounts its routes; `site` does. The handlers are below.
"""

from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from http import HTTPStatus
from typing import Final

from starlette.responses import Response
from starlette.routing import Route

from goalport.server.auth import Access
from goalport.server.doors.openai.errors import refusal
from goalport.server.doors.openai.handlers import ChatHandlers
from goalport.server.doors.openai.identity import CONVERSATION
from goalport.server.doors.openai.models import ModelHandlers, Models
from goalport.server.doors.openai.stored_responses import StoredResponses
from goalport.server.publish.publisher import Publisher
from goalport.server.web import Endpoint, Handler, HttpDoor, Problem, StartEndpoint

_ROOT: Final = "/v1"
_PATHS: Final = "Below {root}/v1 there are models, chat/completions and responses."


class OpenAiDoor:
    """Conversations as OpenAI's API has them."""

    exposed_headers: Sequence[str] = (CONVERSATION, "Retry-After", "x-should-retry")
    """The response headers that a web page needs as a client."""

    def __init__(self, publisher: Publisher, access: Access) -> None:
        door = HttpDoor("openai", _ROOT, publisher, access, refusal, _PATHS)
        models = Models(door)
        listing, chats, stored = ModelHandlers(models), ChatHandlers(door, models), StoredResponses(door, models)

        def at(path: str, kind: type[Endpoint] = Endpoint, **handlers: Handler) -> Route:
            return Route(f"{_ROOT}{path}", kind(door, f"{_ROOT}{path}", **handlers))

        self.routes: Sequence[Route] = [
            at("/chat/completions", StartEndpoint, POST=chats.complete),
            at("/responses", StartEndpoint, POST=chats.respond),
            at("/responses/{id:path}/cancel", POST=stored.cancel),
            at("/responses/{id:path}/input_items", GET=stored.input_items),
            at("/responses/{id:path}", GET=stored.show, DELETE=stored.delete),
            at("/models", GET=listing.list),
            at("/models/{id:path}", GET=listing.show),
            at("/{unknown:path}"),
        ]

    def report(self, address: str) -> Iterator[str]:
        """How clients connect, in lines; `address` is the URL of the server."""
        yield f"OpenAI's API, for chats: {address}{_ROOT}"

    def refusal(self, status: HTTPStatus, kind: str, detail: str, /) -> Response:
        """A refusal by the site, as an error of OpenAI's API."""
        return refusal(Problem(status, kind, detail))

    def running(self) -> AbstractAsyncContextManager[None]:
        """A context that does nothing: a request needs nothing beside the platform."""
        return nullcontext()

    def close(self) -> None:
        """Do nothing: a reply that is sent as a stream ends with the platform or the listener."""
