"""The dialects: the APIs that providers speak. Each is a record of all that differs from other APIs.

An endpoint is a provider that is ready to be asked: its address, its key, its settings and its dialect. A provider with
an API of its own is added by a `Dialect` here, and by its entry in `PROVIDERS`. The libraries take seconds to import,
so each function imports what it needs. Above: `providers` makes an endpoint, `adapter` its client.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr

if TYPE_CHECKING:
    import httpx2
    from anthropic import AsyncAnthropic
    from openai import AsyncOpenAI
    from pydantic_ai.embeddings.base import EmbeddingModel
    from pydantic_ai.models import Model

SDK = TypeVar("SDK", "AsyncOpenAI", "AsyncAnthropic")
NO_KEY = "none"
"""Stands for a key in libraries that insist on one, where none is needed; it is not sent."""
_OPENAIS_OWN = frozenset({"openai", "openai-responses"})
_Millis = Annotated[int, Field(ge=0)]
_USER_INFO = re.compile("//[^/]*@")


class ProviderSettings(BaseModel):
    """The address, the key and the retries of one provider."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)

    base_url: str = ""
    """The address of its API; empty: as its environment variable says, else its public address."""
    api_key: SecretStr | None = None
    """None: as its environment variable says."""
    project: str = ""
    """The name of the Google Cloud project, for Gemini through Vertex AI."""
    location: str = ""
    """The region of Google Cloud or Amazon."""
    api_version: str = ""
    """The version of Azure's API."""
    completions_path: str = ""
    """The path for chat completions, where it is not the usual one, `/v1/chat/completions`."""
    embeddings_path: str = ""
    """The path for embeddings, where it is not the usual one, `/v1/embeddings`."""
    max_attempts: Annotated[int, Field(ge=1)] = 10
    """How many attempts are made at most when the provider is busy, fails or cannot be reached."""
    backoff_millis: _Millis = 5_000
    """Milliseconds between the first attempt and the second."""
    backoff_multiplier: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        default=5.0, validation_alias=AliasChoices("backoff_multiplier", "multiplier")
    )
    """The factor by which each wait is longer than the one before."""
    backoff_max_interval: _Millis = Field(
        default=180_000, validation_alias=AliasChoices("backoff_max_interval", "max_interval")
    )
    """Milliseconds that a wait lasts at most. A provider that asks for a longer one is not asked again."""
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds that one attempt may take when the call does not say; None: as `[llm_operations]` says."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Dialect:
    """The API of a provider: all that differs between one API and another.

    A field without a default has no value that fits most APIs: each dialect sets it.
    """

    model: "Callable[[Endpoint, str, httpx2.AsyncClient], Model]"
    """Makes a model of this name, which sends its requests through this client. Imports its library when called."""
    embeddings: "Callable[[Endpoint, str, httpx2.AsyncClient], EmbeddingModel] | None"
    """Makes an embedding model in the same way; None: the API has none."""
    imports: tuple[str, ...]
    """The modules that the creation and the first request of a model import. They are imported earlier, in a worker
    thread: on the event loop, the import would keep the server from answering others."""
    stream_end: re.Pattern[bytes] | None
    """A pattern for what only a complete stream contains, within 100 bytes; None: the library itself looks for the end.

    A stream without it was cut off: that is an error, and no answer.
    """
    to_base_url: Callable[[str], str]
    """Turns the configured address, which is not empty, into the form that the library expects."""
    needs_address: bool = True
    """False: its library knows the public address."""
    needs_key: Callable[[ProviderSettings], bool] = lambda _: True
    """Whether a provider with these settings needs a key; False: its library finds credentials."""
    key_alternative: str = ""
    """What can be set in place of a key, in words."""
    missing: Callable[[ProviderSettings, str], str] = lambda _, __: ""
    """What else these settings and this address lack, in a sentence that says what to set; empty: nothing."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A provider that is ready to be asked: its address, its key and its settings."""

    provider: str
    dialect: Dialect = field(repr=False)
    base_url: str
    api_key: SecretStr | None = field(default=None, repr=False)
    settings: ProviderSettings
    own: bool = False
    """Whether the address belongs to one model alone: nothing that belongs to the provider is sent there."""

    @property
    def key(self) -> str:
        """The key, or the text that stands for one (`NO_KEY`)."""
        return self.api_key.get_secret_value() if self.api_key else NO_KEY

    @property
    def address(self) -> str:
        """The base URL without the user name and password that may be in it, for messages."""
        return _USER_INFO.sub("//", self.base_url)


def _without_environment(sdk: SDK) -> SDK:
    """Remove what else a client read from the environment: like a key, it is for its provider's address only."""
    known = vars(sdk)
    known.update({name: None for name in ("organization", "project", "admin_api_key") if name in known})
    known["_custom_headers"] = {}
    return sdk


_COMPATIBLE = "openai_compatible.OpenAICompatibleProvider"


def _openai_provider(name: str, endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
    """A provider of pydantic-ai that takes a client of OpenAI's library; `name` is that of its class."""
    from openai import AsyncOpenAI

    sdk = AsyncOpenAI(api_key=endpoint.key, base_url=endpoint.base_url, http_client=client, max_retries=0)
    if endpoint.provider not in _OPENAIS_OWN or endpoint.own:
        _without_environment(sdk)
    provider = getattr(import_module(f"pydantic_ai.providers.{name.partition('.')[0]}"), name.partition(".")[2])
    return provider(*([endpoint.provider] if name == _COMPATIBLE else []), openai_client=sdk)


def _openai_or_compatible(endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
    name = "openai.OpenAIProvider" if endpoint.provider in _OPENAIS_OWN else _COMPATIBLE
    return _openai_provider(name, endpoint, client)


def _azure_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
    from pydantic_ai.providers.azure import AzureProvider

    version = endpoint.settings.api_version or None
    provider = AzureProvider(
        azure_endpoint=endpoint.base_url, api_version=version, api_key=endpoint.key, http_client=client
    )
    _without_environment(provider.client).max_retries = 0
    return provider


def _anthropic_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
    from anthropic import AsyncAnthropic
    from pydantic_ai.providers.anthropic import AnthropicProvider

    sdk = AsyncAnthropic(api_key=endpoint.key, base_url=endpoint.base_url, http_client=client, max_retries=0)
    return AnthropicProvider(anthropic_client=_without_environment(sdk) if endpoint.own else sdk)


def _google_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
    settings, url = endpoint.settings, endpoint.base_url or None
    if settings.project:
        from pydantic_ai.providers.google_cloud import GoogleCloudProvider

        project, location = settings.project, settings.location
        return GoogleCloudProvider(project=project, location=location, http_client=client, base_url=url)
    from pydantic_ai.providers.google import GoogleProvider

    return GoogleProvider(api_key=endpoint.key, http_client=client, base_url=url)


def _mistral_provider(endpoint: Endpoint, client: "httpx2.AsyncClient") -> Any:
    from pydantic_ai.providers.mistral import MistralProvider

    return MistralProvider(api_key=endpoint.key, base_url=endpoint.base_url or None, http_client=client)


def _bedrock_provider(endpoint: Endpoint, _: "httpx2.AsyncClient") -> Any:
    from pydantic_ai.providers.bedrock import BedrockProvider

    places: dict[str, Any] = {"region_name": endpoint.settings.location or None, "base_url": endpoint.base_url or None}
    if endpoint.api_key or endpoint.own:  # without a key, Amazon's library takes the credentials of this machine
        places["api_key"] = endpoint.key
    provider: Any = BedrockProvider(**places)
    # How botocore is told not to retry.
    provider.client.meta.events.unregister("needs-retry.bedrock-runtime", unique_id="retry-config-bedrock-runtime")
    return provider


def _made_by(name: str, provider: Callable[[Endpoint, "httpx2.AsyncClient"], Any]) -> Callable[..., Any]:
    """A function that makes a model, or an embedding model, of the class of that name in pydantic-ai."""
    module, _, cls = name.rpartition(".")

    def make(endpoint: Endpoint, model: str, client: "httpx2.AsyncClient") -> Any:
        return getattr(import_module(f"pydantic_ai.{module}"), cls)(model, provider=provider(endpoint, client))

    return make


def _with_scheme(url: str) -> str:
    return url if "://" in url else f"https://{url}"


def _without_chat_path(url: str) -> str:
    local = url.startswith(("localhost", "127."))
    return (f"http://{url}" if local and "://" not in url else _with_scheme(url)).removesuffix("/chat/completions")


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

_OPENAI_EMBEDDINGS = _made_by("embeddings.openai.OpenAIEmbeddingModel", _openai_or_compatible)
OPENAI = Dialect(
    model=_made_by("models.openai.OpenAIChatModel", _openai_or_compatible),
    embeddings=_OPENAI_EMBEDDINGS,
    imports=_CHAT,
    stream_end=_CHAT_END,
    to_base_url=_with_version,
)
"""Chat completions, the API that most providers speak."""
OPENAI_RESPONSES = Dialect(
    model=_made_by("models.openai.OpenAIResponsesModel", _openai_or_compatible),
    embeddings=_OPENAI_EMBEDDINGS,
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
    model=_made_by("models.openai.OpenAIChatModel", partial(_openai_provider, "deepseek.DeepSeekProvider")),
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
    imports=("pydantic_ai.embeddings.bedrock", "pydantic_ai.models.bedrock", "pydantic_ai.providers.bedrock"),
    stream_end=None,
    to_base_url=_with_scheme,
    needs_address=False,
    needs_key=lambda _: False,
)
OLLAMA = Dialect(
    model=_made_by("models.ollama.OllamaModel", partial(_openai_provider, "ollama.OllamaProvider")),
    embeddings=_OPENAI_EMBEDDINGS,
    imports=(*_CHAT, "pydantic_ai.models.ollama", "pydantic_ai.providers.ollama"),
    stream_end=_CHAT_END,
    to_base_url=_with_version,
)
