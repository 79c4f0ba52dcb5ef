"""The dialects: the APIs that providers speak, each one record with all that is particular to it.

A provider with an API of its own is added by a `Dialect` here, and by its entry in `PROVIDERS`. The libraries take
seconds to import, so each function imports what it needs. Above: `providers` names the dialect of each provider,
`provider_clients` uses what it says; below: `endpoints` has the record.
"""

import re
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

from goalport.models.llm.endpoints import Dialect, Endpoint, ProviderSettings

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic_ai.providers import Provider

SDK = TypeVar("SDK", "AsyncOpenAI", "AsyncAnthropic")
NO_KEY = "none"
"""Stands for a key in libraries that insist on one, where none is needed; it is not sent."""
_OPENAIS_OWN = frozenset({"openai", "openai-responses"})


def _key(endpoint: Endpoint) -> str:
    return endpoint.api_key.get_secret_value() if endpoint.api_key else NO_KEY


def _without_environment(sdk: SDK) -> SDK:
    """Remove what a client read from the environment besides the key: it is meant for its provider's address only."""
    known = vars(sdk)
    known.update({name: None for name in ("organization", "project", "admin_api_key") if name in known})
    known["_custom_headers"] = {}
    return sdk


def _openai_client(endpoint: Endpoint, client: "httpx2.AsyncClient") -> "AsyncOpenAI":
    from openai import AsyncOpenAI

    sdk = AsyncOpenAI(api_key=_key(endpoint), base_url=endpoint.base_url, http_client=client, max_retries=0)
    return sdk if endpoint.provider in _OPENAIS_OWN and not endpoint.own else _without_environment(sdk)


def _openai_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> "Provider[AsyncOpenAI]":
    from pydantic_ai.providers.openai import OpenAIProvider
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    sdk = _openai_client(endpoint, client)
    if endpoint.provider in _OPENAIS_OWN:
        return OpenAIProvider(openai_client=sdk)
    return OpenAICompatibleProvider(endpoint.provider, openai_client=sdk)


def _azure_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> "Provider[AsyncOpenAI]":
    from pydantic_ai.providers.azure import AzureProvider

    provider = AzureProvider(
        azure_endpoint=endpoint.base_url,
        api_version=endpoint.settings.api_version or None,
        api_key=_key(endpoint),
        http_client=client,
    )
    _without_environment(provider.client).max_retries = 0
    return provider


def _deepseek_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> "Provider[AsyncOpenAI]":
    from pydantic_ai.providers.deepseek import DeepSeekProvider

    return DeepSeekProvider(openai_client=_openai_client(endpoint, client))


def _ollama_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> "Provider[AsyncOpenAI]":
    from pydantic_ai.providers.ollama import OllamaProvider

    return OllamaProvider(openai_client=_openai_client(endpoint, client))


def _anthropic_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
    from anthropic import AsyncAnthropic
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(api_key=_key(endpoint), base_url=endpoint.base_url, http_client=client, max_retries=0)
    return AnthropicProvider(anthropic_client=_without_environment(sdk) if endpoint.own else sdk)


def _google_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
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


def _mistral_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
    from pydantic_ai.providers.mistral import MistralProvider

    return MistralProvider(api_key=_key(endpoint), base_url=endpoint.base_url or None, http_client=client)


def _bedrock_provider(endpoint: Endpoint, _: "httpx2.AsyncClient") -> Any:
    from pydantic_ai.providers.bedrock import BedrockProvider

    settings = endpoint.settings
    places: dict[str, Any] = {"region_name": settings.location or None, "base_url": endpoint.base_url or None}
    if endpoint.api_key or endpoint.own:  # without a key, Amazon's library takes the credentials of this machine
        places["api_key"] = _key(endpoint)
    provider: Any = BedrockProvider(**places)
    # How botocore is told not to retry.
    provider.client.meta.events.unregister("needs-retry.bedrock-runtime", unique_id="retry-config-bedrock-runtime")
    return provider


def _made_by(name: str, provider: Callable[[Endpoint, "httpx2.AsyncClient"], Any]) -> Callable[..., Any]:
    """What makes a model, or an embedding model, of the class of that name in pydantic-ai."""
    module, _, cls = name.rpartition(".")

    def make(endpoint: Endpoint, model: str, client: "httpx2.AsyncClient") -> Any:
        return getattr(import_module(f"pydantic_ai.{module}"), cls)(model, provider=provider(endpoint, client))

    return make


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"https://{url}"


def _without_chat_path(url: str) -> str:
    if "://" not in url:
        url = f"{'http' if url.startswith(('localhost', '127.')) else 'https'}://{url}"
    return url.removesuffix("/chat/completions")


def _with_version(url: str) -> str:
    url = _without_chat_path(url)
    return url.rstrip("/") + "/v1" if re.fullmatch(r"\w+://[^/]+(/openai|/engines)?/?", url) else url


def _azure_version(settings: ProviderSettings, url: str) -> str:
    if settings.api_version or url.rstrip("/").endswith("/v1"):
        return ""
    return (
        "Azure wants a version of its API. Set OPENAI_API_VERSION in the environment or in .env, "
        "or api_version in [models.providers.azure]; or let base_url end with /openai/v1."
    )


# Quotes inside of texts are escaped in JSON, so that no text of a model looks like one of these.
_CHAT_END = re.compile(rb'"finish_reason"\s*:\s*"\w|[\r\n]data:\s*\[DONE\]')
_CHAT = (
    "openai.resources.chat.chat",
    "openai.resources.chat.completions.completions",
    "openai.resources.chat.completions.messages",
    "openai.resources.embeddings",
    "openai.lib.streaming.chat",
    "pydantic_ai.embeddings.openai",
    "pydantic_ai.models.openai",
    "pydantic_ai.providers.openai",
    "pydantic_ai.providers.openai_compatible",
)

OPENAI = Dialect(
    model=_made_by("models.openai.OpenAIChatModel", _openai_provider),
    embeddings=_made_by("embeddings.openai.OpenAIEmbeddingModel", _openai_provider),
    imports=_CHAT,
    stream_end=_CHAT_END,
    to_base_url=_with_version,
)
"""Chat completions, the API that most providers speak."""
OPENAI_RESPONSES = Dialect(
    model=_made_by("models.openai.OpenAIResponsesModel", _openai_provider),
    embeddings=_made_by("embeddings.openai.OpenAIEmbeddingModel", _openai_provider),
    imports=(
        *_CHAT,
        "openai.resources.responses.input_items",
        "openai.resources.responses.input_tokens",
        "openai.resources.responses.responses",
    ),
    stream_end=re.compile(rb'"type"\s*:\s*"response\.(?:completed|incomplete|failed)"'),
    to_base_url=_with_version,
)
AZURE = Dialect(
    model=_made_by("models.openai.OpenAIChatModel", _azure_provider),
    embeddings=_made_by("embeddings.openai.OpenAIEmbeddingModel", _azure_provider),
    imports=(*_CHAT, "pydantic_ai.providers.azure"),
    stream_end=_CHAT_END,
    to_base_url=_with_scheme,
    missing=_azure_version,
)
ANTHROPIC = Dialect(
    model=_made_by("models.anthropic.AnthropicModel", _anthropic_provider),
    embeddings=None,
    imports=("anthropic.resources.beta.messages", "pydantic_ai.models.anthropic", "pydantic_ai.providers.anthropic"),
    stream_end=re.compile(rb'[\r\n]event:\s*message_stop|"type"\s*:\s*"message_stop"'),
    to_base_url=_without_chat_path,
)
DEEPSEEK = Dialect(
    model=_made_by("models.openai.OpenAIChatModel", _deepseek_provider),
    embeddings=None,
    imports=(*_CHAT, "pydantic_ai.providers.deepseek"),
    stream_end=_CHAT_END,
    to_base_url=_without_chat_path,
)
GOOGLE = Dialect(
    model=_made_by("models.google.GoogleModel", _google_provider),
    embeddings=_made_by("embeddings.google.GoogleEmbeddingModel", _google_provider),
    imports=(
        "pydantic_ai.embeddings.google",
        "pydantic_ai.models.google",
        "pydantic_ai.providers.google",
        "pydantic_ai.providers.google_cloud",
    ),
    stream_end=None,
    to_base_url=_with_scheme,
    needs_address=False,
    needs_key=lambda settings: not (settings.project and settings.location),
    key_alternative="GOOGLE_PROJECT_ID and GOOGLE_LOCATION for Vertex",
)
MISTRAL = Dialect(
    model=_made_by("models.mistral.MistralModel", _mistral_provider),
    embeddings=None,
    imports=("pydantic_ai.models.mistral", "pydantic_ai.providers.mistral"),
    stream_end=None,
    to_base_url=_without_chat_path,
)
BEDROCK = Dialect(
    model=_made_by("models.bedrock.BedrockConverseModel", _bedrock_provider),
    embeddings=_made_by("embeddings.bedrock.BedrockEmbeddingModel", _bedrock_provider),
    imports=(
        "pydantic_ai.embeddings.bedrock",
        "pydantic_ai.models.bedrock",
        "pydantic_ai.providers.bedrock",
    ),
    stream_end=None,
    to_base_url=_with_scheme,
    needs_address=False,
    needs_key=lambda _: False,
)
OLLAMA = Dialect(
    model=_made_by("models.ollama.OllamaModel", _ollama_provider),
    embeddings=_made_by("embeddings.openai.OpenAIEmbeddingModel", _openai_provider),
    imports=(*_CHAT, "pydantic_ai.models.ollama", "pydantic_ai.providers.ollama"),
    stream_end=_CHAT_END,
    to_base_url=_with_version,
)
