"""The clients of providers: from an endpoint to a model or an embedding service that can be asked.

This is where the providers' libraries are imported; `catalogue` imports this module when a model is first asked. A
provider with an API of its own is added here, by a function and an entry in `_MODELS`, and to the table in `providers`.
"""

from collections.abc import Callable, Mapping
from functools import partial
from importlib import import_module
from typing import Any, TypeVar

import httpx2
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI
from pydantic_ai.embeddings.base import EmbeddingModel
from pydantic_ai.embeddings.openai import OpenAIEmbeddingModel
from pydantic_ai.models import Model, create_async_httpx2_client
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers import Provider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

from goalport.llm.adapter import ClientPerLoop, PydanticAiEmbeddings, PydanticAiModel
from goalport.llm.model import ModelCard
from goalport.llm.provider_errors import check_responses
from goalport.llm.providers import Dialect, Endpoint
from goalport.llm.retries import RetryingEmbeddings, RetryingModel

__all__ = ["embedding_service", "language_model"]

SDK = TypeVar("SDK", AsyncOpenAI, AsyncAnthropic)
_CONNECT_SECONDS = 5.0
_NO_KEY = "none"
"""Stands for a key in libraries that insist on one, where none is needed; it is not sent."""
_KEY_HEADERS = ("authorization", "x-api-key", "api-key", "x-goog-api-key")
_OPENAIS_OWN = frozenset({"openai", "openai-responses"})


def language_model(card: ModelCard, model: str, endpoint: Endpoint) -> RetryingModel:
    """A model at an endpoint, with retries; `model` is the name that the provider gives it."""
    _import_all(endpoint.dialect)
    clients = ClientPerLoop(partial(_client, endpoint), partial(_MODELS[endpoint.dialect], endpoint, model))
    return RetryingModel(PydanticAiModel(card, clients, endpoint, model), endpoint.settings)


def embedding_service(card: ModelCard, name: str, model: str, endpoint: Endpoint) -> RetryingEmbeddings:
    """An embedding service at an endpoint, with retries; its provider has embedding models."""
    _import_all(endpoint.dialect)
    clients = ClientPerLoop(partial(_client, endpoint), partial(_EMBEDDINGS[endpoint.dialect], endpoint, model))
    return RetryingEmbeddings(PydanticAiEmbeddings(name, clients, endpoint, model, card.prices), endpoint.settings)


def _import_all(dialect: Dialect) -> None:
    """Import now what the libraries would import at the first request, which is made on the event loop."""
    for name in (*_PRICE_DATA, *_LATE_IMPORTS[dialect]):
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
    client.event_hooks["request"] += hooks
    check_responses(client, endpoint.dialect)
    return client


async def _without_key(request: httpx2.Request) -> None:
    """Remove the stand-in for a key: a server might refuse one that it does not know."""
    for name in _KEY_HEADERS:
        if request.headers.get(name, "").removeprefix("Bearer ") == _NO_KEY:
            del request.headers[name]


def _key(endpoint: Endpoint) -> str:
    return endpoint.api_key.get_secret_value() if endpoint.api_key else _NO_KEY


def _without_environment(sdk: SDK) -> SDK:
    """Remove what a client read from the environment besides the key: it is meant for its provider's address only."""
    known = vars(sdk)
    known.update({name: None for name in ("organization", "project", "admin_api_key") if name in known})
    known["_custom_headers"] = {}
    return sdk


def _openai_client(endpoint: Endpoint, client: httpx2.AsyncClient) -> AsyncOpenAI:
    sdk = AsyncOpenAI(api_key=_key(endpoint), base_url=endpoint.base_url, http_client=client, max_retries=0)
    return sdk if endpoint.provider in _OPENAIS_OWN and not endpoint.own else _without_environment(sdk)


def _openai_provider(endpoint: Endpoint, client: httpx2.AsyncClient) -> Provider[AsyncOpenAI]:
    sdk = _openai_client(endpoint, client)
    if endpoint.provider in _OPENAIS_OWN:
        return OpenAIProvider(openai_client=sdk)
    return OpenAICompatibleProvider(endpoint.provider, openai_client=sdk)


def _azure_provider(endpoint: Endpoint, client: httpx2.AsyncClient) -> Provider[AsyncOpenAI]:
    from pydantic_ai.providers.azure import AzureProvider

    provider = AzureProvider(
        azure_endpoint=endpoint.base_url,
        api_version=endpoint.settings.api_version or None,
        api_key=_key(endpoint),
        http_client=client,
    )
    _without_environment(provider.client).max_retries = 0
    return provider


def _deepseek(endpoint: Endpoint, model: str, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.providers.deepseek import DeepSeekProvider

    return OpenAIChatModel(model, provider=DeepSeekProvider(openai_client=_openai_client(endpoint, client)))


def _ollama(endpoint: Endpoint, model: str, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.ollama import OllamaModel
    from pydantic_ai.providers.ollama import OllamaProvider

    return OllamaModel(model, provider=OllamaProvider(openai_client=_openai_client(endpoint, client)))


def _anthropic(endpoint: Endpoint, model: str, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(api_key=_key(endpoint), base_url=endpoint.base_url, http_client=client, max_retries=0)
    sdk = _without_environment(sdk) if endpoint.own else sdk
    return AnthropicModel(model, provider=AnthropicProvider(anthropic_client=sdk))


def _google_provider(endpoint: Endpoint, client: httpx2.AsyncClient) -> Any:
    settings = endpoint.settings
    if settings.project:
        from pydantic_ai.providers.google_cloud import GoogleCloudProvider

        return GoogleCloudProvider(
            project=settings.project,
            location=settings.location,
            http_client=client,
            base_url=endpoint.base_url or None,
        )
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleProvider(api_key=_key(endpoint), http_client=client, base_url=endpoint.base_url or None)


def _google(endpoint: Endpoint, model: str, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.google import GoogleModel

    return GoogleModel(model, provider=_google_provider(endpoint, client))


def _mistral(endpoint: Endpoint, model: str, client: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.mistral import MistralModel
    from pydantic_ai.providers.mistral import MistralProvider

    provider = MistralProvider(api_key=_key(endpoint), base_url=endpoint.base_url or None, http_client=client)
    return MistralModel(model, provider=provider)


def _bedrock_provider(endpoint: Endpoint) -> Any:
    from pydantic_ai.providers.bedrock import BedrockProvider

    settings = endpoint.settings
    places: dict[str, Any] = {"region_name": settings.location or None, "base_url": endpoint.base_url or None}
    if endpoint.api_key or endpoint.own:  # without a key, Amazon's library takes the credentials of this machine
        places["api_key"] = _key(endpoint)
    provider: Any = BedrockProvider(**places)
    # How botocore is told not to retry.
    provider.client.meta.events.unregister("needs-retry.bedrock-runtime", unique_id="retry-config-bedrock-runtime")
    return provider


def _bedrock(endpoint: Endpoint, model: str, _: httpx2.AsyncClient) -> Model:
    from pydantic_ai.models.bedrock import BedrockConverseModel

    return BedrockConverseModel(model, provider=_bedrock_provider(endpoint))


def _openai_embeddings(endpoint: Endpoint, model: str, client: httpx2.AsyncClient) -> EmbeddingModel:
    return OpenAIEmbeddingModel(model, provider=_openai_provider(endpoint, client))


def _google_embeddings(endpoint: Endpoint, model: str, client: httpx2.AsyncClient) -> EmbeddingModel:
    from pydantic_ai.embeddings.google import GoogleEmbeddingModel

    return GoogleEmbeddingModel(model, provider=_google_provider(endpoint, client))


def _bedrock_embeddings(endpoint: Endpoint, model: str, _: httpx2.AsyncClient) -> EmbeddingModel:
    from pydantic_ai.embeddings.bedrock import BedrockEmbeddingModel

    return BedrockEmbeddingModel(model, provider=_bedrock_provider(endpoint))


_MODELS: Mapping[Dialect, Callable[[Endpoint, str, httpx2.AsyncClient], Model]] = {
    "openai": lambda endpoint, model, client: OpenAIChatModel(model, provider=_openai_provider(endpoint, client)),
    "openai-responses": lambda endpoint, model, client: OpenAIResponsesModel(
        model, provider=_openai_provider(endpoint, client)
    ),
    "azure": lambda endpoint, model, client: OpenAIChatModel(model, provider=_azure_provider(endpoint, client)),
    "anthropic": _anthropic,
    "deepseek": _deepseek,
    "google": _google,
    "mistral": _mistral,
    "bedrock": _bedrock,
    "ollama": _ollama,
}
_EMBEDDINGS: Mapping[Dialect, Callable[[Endpoint, str, httpx2.AsyncClient], EmbeddingModel]] = {
    "openai": _openai_embeddings,
    "openai-responses": _openai_embeddings,
    "azure": lambda endpoint, model, client: OpenAIEmbeddingModel(model, provider=_azure_provider(endpoint, client)),
    "ollama": _openai_embeddings,
    "google": _google_embeddings,
    "bedrock": _bedrock_embeddings,
}
_PRICE_DATA = ("genai_prices.data", "genai_prices.data_units", "genai_prices.validation", "genai_prices.decompose")
_CHAT = (
    "openai.resources.chat.chat",
    "openai.resources.chat.completions.completions",
    "openai.resources.chat.completions.messages",
    "openai.resources.embeddings",
    "openai.lib.streaming.chat",
)
_LATE_IMPORTS: Mapping[Dialect, tuple[str, ...]] = {
    "openai": _CHAT,
    "openai-responses": ("openai.resources.responses",),
    "azure": (*_CHAT, "pydantic_ai.providers.azure"),
    "anthropic": (
        "anthropic.resources.beta.messages",
        "pydantic_ai.models.anthropic",
        "pydantic_ai.providers.anthropic",
    ),
    "deepseek": (*_CHAT, "pydantic_ai.providers.deepseek"),
    "google": ("pydantic_ai.models.google", "pydantic_ai.providers.google", "pydantic_ai.providers.google_cloud"),
    "mistral": ("pydantic_ai.models.mistral", "pydantic_ai.providers.mistral"),
    "bedrock": ("pydantic_ai.models.bedrock", "pydantic_ai.providers.bedrock"),
    "ollama": (*_CHAT, "pydantic_ai.models.ollama", "pydantic_ai.providers.ollama"),
}
