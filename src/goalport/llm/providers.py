"""The known providers and their settings, and how an endpoint is made of one: its address, its key, its API.

`PROVIDERS` is the table: a provider with the API of OpenAI is added by one entry. No library is imported here. Above:
`catalogue` finds a model's provider here, `provider_clients` makes the client. User guide, sections 2.2.2 and "Model
Provider Configuration".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr

from goalport.errors import ModelNotReady

__all__ = [
    "ALIASES",
    "PROVIDERS",
    "Dialect",
    "Endpoint",
    "KnownProvider",
    "ProviderSettings",
    "endpoint",
    "provider_of",
]

_Millis = Annotated[int, Field(ge=0)]
Dialect = Literal[
    "openai", "openai-responses", "azure", "anthropic", "deepseek", "google", "mistral", "bedrock", "ollama"
]
"""The API of a provider; most have the one of OpenAI."""


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
class KnownProvider:
    """What is known of a provider without asking it."""

    name: str
    dialect: Dialect = "openai"
    settings: str = ""
    """The provider whose settings it shares; empty: it has its own."""
    key: str = ""
    """The environment variable with its key; empty: it needs none, or its library finds one."""
    base_url: str = ""
    """Its public address; empty: it has none, or its library knows it."""
    address: str = ""
    """The environment variable with its base URL."""
    models: str = r"(?!)"
    """A regular expression for the beginning of its models' names."""
    extra: str = ""
    """The extra of goalport that installs its library; empty: none is needed."""
    library: str = ""
    """The module that the extra installs."""
    has_embeddings: bool = True
    """Whether it has embedding models."""
    variables: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """The environment variables for further settings of the provider, by the name of the setting."""
    backoff_millis: int = 5_000
    """Milliseconds between the first attempt and the second, where the settings say nothing of the provider."""

    @property
    def table(self) -> str:
        """The table of the settings that is about it."""
        return f"[models.providers.{self.settings or self.name}]"

    @property
    def key_setting(self) -> str:
        """Where its key is set, in words."""
        return f"{f'{self.key}, or ' if self.key else ''}api_key in {self.table}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Endpoint:
    """A provider that is ready to be asked: its address, its key and its settings."""

    provider: str
    dialect: Dialect
    base_url: str
    api_key: SecretStr | None = field(default=None, repr=False)
    settings: ProviderSettings
    own: bool = False
    """Whether the address belongs to one model alone: nothing that belongs to the provider is sent there."""

    @property
    def address(self) -> str:
        """The base URL without the user name and password that may be in it, for messages."""
        return _USER_INFO.sub("//", self.base_url)


_USER_INFO = re.compile("//[^/]*@")
_OPENAI = r"(gpt|chatgpt|text-embedding|codex|computer-use)-|o\d"
_OPENAI_URL = "https://api.openai.com/v1"
_BEDROCK = r"((us|eu|apac|global|jp|au|us-gov)\.)?(anthropic|amazon|meta|mistral|cohere|ai21|deepseek|openai|qwen)\."
PROVIDERS: Mapping[str, KnownProvider] = {
    each.name: each
    for each in (
        KnownProvider(
            name="openai",
            key="OPENAI_API_KEY",
            base_url=_OPENAI_URL,
            address="OPENAI_BASE_URL",
            models=_OPENAI,
            variables={
                "completions_path": ("OPENAI_COMPLETIONS_PATH",),
                "embeddings_path": ("OPENAI_EMBEDDINGS_PATH",),
            },
        ),
        KnownProvider(
            name="openai-responses",
            dialect="openai-responses",
            settings="openai",
            key="OPENAI_API_KEY",
            base_url=_OPENAI_URL,
            address="OPENAI_BASE_URL",
        ),
        KnownProvider(
            name="azure",
            dialect="azure",
            key="AZURE_OPENAI_API_KEY",
            address="AZURE_OPENAI_ENDPOINT",
            variables={"api_version": ("OPENAI_API_VERSION",)},
        ),
        KnownProvider(
            name="anthropic",
            dialect="anthropic",
            key="ANTHROPIC_API_KEY",
            base_url="https://api.anthropic.com",
            address="ANTHROPIC_BASE_URL",
            models=r"claude-",
            has_embeddings=False,
        ),
        KnownProvider(
            name="deepseek",
            dialect="deepseek",
            key="DEEPSEEK_API_KEY",
            base_url="https://api.deepseek.com",
            address="DEEPSEEK_BASE_URL",
            models=r"deepseek-",
            has_embeddings=False,
        ),
        KnownProvider(
            name="gemini",
            key="GEMINI_API_KEY",
            base_url="https://generativelanguage.googleapis.com/v1beta/openai/",
            address="GEMINI_BASE_URL",
            models=r"gemini-",
        ),
        KnownProvider(
            name="google",
            dialect="google",
            key="GOOGLE_API_KEY",
            address="GOOGLE_BASE_URL",
            extra="google",
            library="google.genai",
            variables={"project": ("GOOGLE_PROJECT_ID",), "location": ("GOOGLE_LOCATION",)},
        ),
        KnownProvider(
            name="mistral",
            dialect="mistral",
            key="MISTRAL_API_KEY",
            base_url="https://api.mistral.ai",
            address="MISTRAL_BASE_URL",
            models=r"(mistral|ministral|codestral|magistral|devstral|pixtral|open-mi[sx]tral)-",
            extra="mistral",
            library="mistralai",
            has_embeddings=False,
        ),
        KnownProvider(
            name="bedrock",
            dialect="bedrock",
            key="AWS_BEARER_TOKEN_BEDROCK",
            address="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            models=_BEDROCK,
            extra="bedrock",
            library="boto3",
            variables={"location": ("AWS_REGION", "AWS_DEFAULT_REGION")},
        ),
        KnownProvider(name="ollama", dialect="ollama", base_url="http://localhost:11434/v1", address="OLLAMA_BASE_URL"),
        KnownProvider(
            name="docker",
            base_url="http://localhost:12434/engines/v1",
            address="DOCKER_MODELS_BASE_URL",
            models=r"ai/",
            backoff_millis=2_000,
        ),
    )
}
"""The known providers by name."""
ALIASES: Mapping[str, str] = {"googlegenai": "google", "vertex": "google"}
"""Other names of providers, those of the guide among them."""


def provider_of(
    name: str, providers: Mapping[str, ProviderSettings], environment: Mapping[str, str]
) -> tuple[str, str]:
    """The provider of a model, and the model's name without it; the provider is empty when it cannot be told.

    A name that fits no provider belongs to the OpenAI-compatible server whose address is set, if there is one.
    """
    first, colon, rest = name.partition(":")
    first = ALIASES.get(first, first)
    if colon and (first in PROVIDERS or first in providers):
        return first, rest
    for each in PROVIDERS.values():
        if re.match(each.models, name):
            return _google_api(each.name, providers, environment), name
    if colon and _address("ollama", providers, environment):
        return "ollama", name
    return ("openai" if _address("openai", providers, environment) else ""), name


def _google_api(provider: str, providers: Mapping[str, ProviderSettings], environment: Mapping[str, str]) -> str:
    """Google has two APIs, one of them like OpenAI's; the one with a key is chosen."""
    if provider != "gemini" or _has_key("gemini", providers, environment):
        return provider
    native = _has_key("google", providers, environment) or environment.get("GOOGLE_PROJECT_ID")
    return "google" if native else provider


def _has_key(name: str, providers: Mapping[str, ProviderSettings], environment: Mapping[str, str]) -> bool:
    given = providers.get(name)
    return bool((given and (given.api_key or given.project)) or environment.get(PROVIDERS[name].key))


def _address(name: str, providers: Mapping[str, ProviderSettings], environment: Mapping[str, str]) -> str:
    given = providers.get(name)
    return (given.base_url if given else "") or environment.get(PROVIDERS[name].address, "")


def endpoint(
    provider: str,
    settings: ProviderSettings | None,
    environment: Mapping[str, str],
    *,
    base_url: str = "",
    api_key: SecretStr | None = None,
) -> Endpoint:
    """The endpoint of a provider. `base_url` and `api_key` belong to one model and take precedence.

    A key is sent to its own address only: a model with its own `base_url` gets its own key or none. Raises
    `ModelNotReady` when a key, an address or a library is missing, and says which.
    """
    known = PROVIDERS.get(provider) or KnownProvider(name=provider, key=_variable(provider))
    own = bool(base_url.strip())
    if settings is None:
        settings = ProviderSettings(backoff_millis=known.backoff_millis)
    url = (base_url or settings.base_url or environment.get(known.address, "")).strip() or known.base_url
    _require_library(known)
    found = {
        name: next((value for each in variables if (value := environment.get(each))), "")
        for name, variables in known.variables.items()
        if not getattr(settings, name)
    }
    settings = settings.model_copy(update={name: value for name, value in found.items() if value})
    if own:  # a Google project would bring the credentials of this machine, and a path belongs to the address
        elsewhere = {"api_key": None, "project": "", "completions_path": "", "embeddings_path": ""}
        settings = settings.model_copy(update=elsewhere)
    key = _secret(api_key if own else api_key or settings.api_key or environment.get(known.key))
    _check_key(known, key)
    if not own:
        _require_key(known, settings, key)
    _require_address(known, settings, url)
    url = _complete(url, known)
    _check_address(known, url)
    return Endpoint(provider=provider, dialect=known.dialect, base_url=url, api_key=key, settings=settings, own=own)


def _variable(provider: str) -> str:
    """The environment variable with the key of a provider of your own; empty where that is a known provider's."""
    variable = re.sub(r"\W+", "_", provider).upper() + "_API_KEY"
    return "" if any(each.key == variable for each in PROVIDERS.values()) else variable


def _secret(value: SecretStr | str | None) -> SecretStr | None:
    """A key without the line break that files and shells add; None where there is none."""
    plain = (value.get_secret_value() if isinstance(value, SecretStr) else value or "").strip()
    return SecretStr(plain) if plain else None


def _require_library(known: KnownProvider) -> None:
    try:
        is_installed = not known.library or find_spec(known.library) is not None
    except ModuleNotFoundError:
        is_installed = False
    if not is_installed:
        raise ModelNotReady(f"Models of {known.name} need a library: pip install 'goalport[{known.extra}]'.")


def _check_key(known: KnownProvider, key: SecretStr | None) -> None:
    if key and not (key.get_secret_value().isascii() and key.get_secret_value().isprintable()):
        raise ModelNotReady(
            f"The key of {known.name} has characters that no key has. Set {known.key_setting} as the provider shows it."
        )


def _require_key(known: KnownProvider, settings: ProviderSettings, key: SecretStr | None) -> None:
    """Require a key, except of a server of your own (it may need none) and Amazon (its library finds credentials)."""
    if key or not known.key or known.dialect == "bedrock" or (known.name not in PROVIDERS and settings.base_url):
        return
    if known.dialect == "google" and settings.project and settings.location:
        return
    besides = ", or GOOGLE_PROJECT_ID and GOOGLE_LOCATION for Vertex" if known.dialect == "google" else ""
    raise ModelNotReady(
        f"{known.name} has no key. Set {known.key} in the environment or in .env{besides}, or api_key in {known.table}."
    )


def _require_address(known: KnownProvider, settings: ProviderSettings, url: str) -> None:
    if not url and known.dialect not in {"google", "bedrock"}:
        where = f" or {known.address} in the environment" if known.address else ""
        raise ModelNotReady(f"Where is {known.name}? Set base_url in [models.providers.{known.name}]{where}.")
    if known.dialect == "azure" and not settings.api_version and not url.rstrip("/").endswith("/v1"):
        raise ModelNotReady(
            "Azure wants a version of its API. Set OPENAI_API_VERSION in the environment or in .env, "
            "or api_version in [models.providers.azure]; or let base_url end with /openai/v1."
        )


def _check_address(known: KnownProvider, url: str) -> None:
    """Refuse what is no address of an API. The libraries append a path to it, so it can have no query."""
    try:
        parts = urlsplit(url)
        is_reachable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        is_address = is_reachable and not parts.query and not parts.fragment and url.isprintable() and " " not in url
    except ValueError:
        is_address = False
    if url and not is_address:
        variable = f"{known.address}, or " if known.address else ""
        raise ModelNotReady(
            f"The base URL of {known.name} is no address of an API. Set {variable}base_url in "
            f"{known.table}, like https://models.example.com/v1."
        )


def _complete(url: str, known: KnownProvider) -> str:
    """The address as the libraries expect it: with scheme and version, without the path of chat completions."""
    if not url or known.dialect in {"azure", "google", "bedrock"}:
        return url if "://" in url or not url else f"https://{url}"
    if "://" not in url:
        url = f"{'http' if url.startswith(('localhost', '127.')) else 'https'}://{url}"
    url = url.removesuffix("/chat/completions")
    if known.dialect in {"openai", "openai-responses", "ollama"} and re.fullmatch(
        r"\w+://[^/]+(/openai|/engines)?/?", url
    ):
        return url.rstrip("/") + "/v1"
    return url
