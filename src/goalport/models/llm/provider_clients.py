"""The clients of providers: from an endpoint to a model or an embedding service that can be asked.

`catalogue` imports this module when a model is first asked, since what it imports takes seconds. The HTTP client is
made here; what differs between APIs is in `dialects`.
"""

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

import httpx2
from pydantic_ai.models import create_async_httpx2_client

from goalport.base.observe.spans import send_trace
from goalport.models.llm.adapter import ClientPerLoop, PydanticAiEmbeddings, PydanticAiModel
from goalport.models.llm.dialects import NO_KEY
from goalport.models.llm.endpoints import Dialect, Endpoint
from goalport.models.llm.model import ModelCard
from goalport.models.llm.provider_errors import check_responses
from goalport.models.llm.retries import RetryingEmbeddings, RetryingModel

_CONNECT_SECONDS = 5.0
_KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_PRICE_DATA = ("genai_prices.data", "genai_prices.data_units", "genai_prices.validation", "genai_prices.decompose")


def language_model(card: ModelCard, model: str, endpoint: Endpoint) -> RetryingModel:
    """A model at an endpoint, with retries; `model` is the name that the provider gives it."""
    _import_all(endpoint.dialect)
    clients = ClientPerLoop(partial(_client, endpoint), partial(endpoint.dialect.model, endpoint, model))
    return RetryingModel(PydanticAiModel(card, clients, endpoint, model), endpoint.settings)


def embedding_service(card: ModelCard, name: str, model: str, endpoint: Endpoint) -> RetryingEmbeddings:
    """An embedding service at an endpoint, with retries."""
    make = endpoint.dialect.embeddings
    assert make is not None, "the catalogue refuses providers without embedding models"
    _import_all(endpoint.dialect)
    clients = ClientPerLoop(partial(_client, endpoint), partial(make, endpoint, model))
    return RetryingEmbeddings(PydanticAiEmbeddings(name, clients, endpoint, model, card.prices), endpoint.settings)


def _import_all(dialect: Dialect) -> None:
    """Import now what the libraries would import at the first request, which is made on the event loop."""
    for name in (*_PRICE_DATA, *dialect.imports):
        import_module(name)


def _client(endpoint: Endpoint) -> httpx2.AsyncClient:
    # The time-out of a request is set in `adapter`; nothing below may give up earlier.
    client = create_async_httpx2_client(timeout=httpx2.Timeout(None, connect=_CONNECT_SECONDS))
    paths = {
        "/chat/completions": endpoint.settings.completions_path,
        "/embeddings": endpoint.settings.embeddings_path,
    }

    async def to_configured_path(request: httpx2.Request) -> None:
        for usual, own in paths.items():
            if own and request.url.path.endswith(usual):
                request.url = request.url.copy_with(path=f"/{own.lstrip('/')}")

    hooks: list[Callable[[httpx2.Request], Any]] = [] if endpoint.api_key else [_without_key]
    if any(paths.values()):
        hooks.append(to_configured_path)
    client.event_hooks["request"] += [*hooks, send_trace]
    check_responses(client, endpoint.dialect.stream_end)
    return client


async def _without_key(request: httpx2.Request) -> None:
    """Remove the stand-in for a key: a server might refuse one that it does not know."""
    for name in _KEY_HEADERS:
        if request.headers.get(name, "").removeprefix("Bearer ") == NO_KEY:
            del request.headers[name]
