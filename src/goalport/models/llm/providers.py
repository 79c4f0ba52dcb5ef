"""The known providers: which provider a model's name means, and at which endpoint it is asked.

A provider is added by one entry in `PROVIDERS`; one with an API of its own also by a record in `dialects`. An endpoint
is made from the entry, the settings and the environment. An error names what is missing before any request is sent. No
library is imported. Above: `catalogue`. User guide, sections 2.2.2 and "Model Provider Configuration".
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any
from urllib.parse import urlsplit

from pydantic import SecretStr

from goalport.base.errors import ModelNotReady
from goalport.base.words import listed
from goalport.models.llm.dialects import (
    ANTHROPIC,
    AZURE,
    BEDROCK,
    DEEPSEEK,
    GOOGLE,
    MISTRAL,
    OLLAMA,
    OPENAI,
    OPENAI_RESPONSES,
    Dialect,
    Endpoint,
    ProviderSettings,
)


@dataclass(frozen=True, kw_only=True, slots=True)
class KnownProvider:
    """What is known of a provider without asking it."""

    name: str
    dialect: Dialect = OPENAI
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


_OPENAI_URL = "https://api.openai.com/v1"
_BEDROCK = r"((us|eu|apac|global|jp|au|us-gov)\.)?(anthropic|amazon|meta|mistral|cohere|ai21|deepseek|openai|qwen)\."


def _named(name: str, **known: Any) -> KnownProvider:
    """A provider whose environment variables begin with its name, unless they are given."""
    variables: dict[str, Any] = {"key": f"{name.upper()}_API_KEY", "address": f"{name.upper()}_BASE_URL"}
    return KnownProvider(name=name, **{**variables, **known})


PROVIDERS: Mapping[str, KnownProvider] = {
    each.name: each
    for each in (
        _named(
            "openai",
            base_url=_OPENAI_URL,
            models=r"(gpt|chatgpt|text-embedding|codex|computer-use)-|o\d",
            variables={
                "completions_path": ("OPENAI_COMPLETIONS_PATH",),
                "embeddings_path": ("OPENAI_EMBEDDINGS_PATH",),
            },
        ),
        KnownProvider(
            name="openai-responses",
            dialect=OPENAI_RESPONSES,
            settings="openai",
            key="OPENAI_API_KEY",
            base_url=_OPENAI_URL,
            address="OPENAI_BASE_URL",
        ),
        KnownProvider(
            name="azure",
            dialect=AZURE,
            key="AZURE_OPENAI_API_KEY",
            address="AZURE_OPENAI_ENDPOINT",
            variables={"api_version": ("OPENAI_API_VERSION",)},
        ),
        _named("anthropic", dialect=ANTHROPIC, base_url="https://api.anthropic.com", models=r"claude-"),
        _named("deepseek", dialect=DEEPSEEK, base_url="https://api.deepseek.com", models=r"deepseek-"),
        _named("gemini", base_url="https://generativelanguage.googleapis.com/v1beta/openai/", models=r"gemini-"),
        _named(
            "google",
            dialect=GOOGLE,
            extra="google",
            library="google.genai",
            variables={"project": ("GOOGLE_PROJECT_ID",), "location": ("GOOGLE_LOCATION",)},
        ),
        _named(
            "mistral",
            dialect=MISTRAL,
            base_url="https://api.mistral.ai",
            models=r"(mistral|ministral|codestral|magistral|devstral|pixtral|open-mi[sx]tral)-",
            extra="mistral",
            library="mistralai",
        ),
        KnownProvider(
            name="bedrock",
            dialect=BEDROCK,
            key="AWS_BEARER_TOKEN_BEDROCK",
            address="AWS_ENDPOINT_URL_BEDROCK_RUNTIME",
            models=_BEDROCK,
            extra="bedrock",
            library="boto3",
            variables={"location": ("AWS_REGION", "AWS_DEFAULT_REGION")},
        ),
        _named("ollama", dialect=OLLAMA, key="", base_url="http://localhost:11434/v1"),
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

Settings = Mapping[str, ProviderSettings]
"""The settings of providers by their names."""


def provider_of(name: str, providers: Settings, environment: Mapping[str, str]) -> tuple[str, str]:
    """The provider of a model, and the model's name without it; the provider is empty when it cannot be told.

    A name that fits no provider belongs to the OpenAI-compatible server whose address is set, if there is one.
    """

    def has_key(provider: str) -> bool:
        given = providers.get(provider)
        return bool((given and (given.api_key or given.project)) or environment.get(PROVIDERS[provider].key))

    def has_address(provider: str) -> bool:
        given = providers.get(provider)
        return bool((given and given.base_url) or environment.get(PROVIDERS[provider].address))

    first, colon, rest = name.partition(":")
    first = ALIASES.get(first, first)
    if colon and (first in PROVIDERS or first in providers):
        return first, rest
    found = next((each.name for each in PROVIDERS.values() if re.match(each.models, name)), "")
    if found == "gemini" and not has_key("gemini") and (has_key("google") or environment.get("GOOGLE_PROJECT_ID")):
        return "google", name  # Google has two APIs, one of them like OpenAI's; the one with a key is chosen
    if not found and colon and has_address("ollama"):
        found = "ollama"
    return found or ("openai" if has_address("openai") else ""), name


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
    known = PROVIDERS.get(provider)
    if known is None:
        variable = re.sub(r"\W+", "_", provider).upper() + "_API_KEY"
        is_anothers = any(each.key == variable for each in PROVIDERS.values())
        known = KnownProvider(name=provider, key="" if is_anothers else variable)
    _require_library(known)
    own = bool(base_url.strip())
    settings = settings or ProviderSettings(backoff_millis=known.backoff_millis)
    url = (base_url or settings.base_url or environment.get(known.address, "")).strip() or known.base_url
    found: dict[str, str | None] = {
        name: value
        for name, variables in known.variables.items()
        if not getattr(settings, name)
        if (value := next(filter(None, map(environment.get, variables)), None))
    }
    if own:  # a Google project would bring the credentials of this machine, and a path belongs to the address
        found |= {"api_key": None, "project": "", "completions_path": "", "embeddings_path": ""}
    settings = settings.model_copy(update=found)
    given = api_key if own else api_key or settings.api_key or environment.get(known.key)
    # Files and shells add a line break.
    key = (given.get_secret_value() if isinstance(given, SecretStr) else given or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelNotReady(
            f"The key of {known.name} has characters that no key has. Set {known.key_setting} as the provider shows it."
        )
    if not (key or own):
        _allow_no_key(known, settings, environment)
    return Endpoint(
        provider=provider,
        dialect=known.dialect,
        base_url=_checked_address(known, settings, url),
        api_key=SecretStr(key) if key else None,
        settings=settings,
        own=own,
    )


def _require_library(known: KnownProvider) -> None:
    try:
        is_installed = not known.library or find_spec(known.library) is not None
    except ModuleNotFoundError:
        is_installed = False
    if not is_installed:
        raise ModelNotReady(f"Models of {known.name} need a library: pip install 'goalport[{known.extra}]'.")


def _allow_no_key(known: KnownProvider, settings: ProviderSettings, environment: Mapping[str, str]) -> None:
    """Raise `ModelNotReady` where a key is needed; a server of your own may need none."""
    if not known.key or not known.dialect.needs_key(settings) or (known.name not in PROVIDERS and settings.base_url):
        return
    besides = f", or {known.dialect.key_alternative}" if known.dialect.key_alternative else ""
    others = {each.key: each.name for each in PROVIDERS.values() if each.key != known.key and environment.get(each.key)}
    hint = f" There are keys for: {listed(others.values())}. To use one, name a model of that provider in [models]."
    raise ModelNotReady(
        f"{known.name} has no key. Set {known.key} in the environment or in .env{besides}, or api_key in {known.table}."
        f"{hint if others else ''}"
    )


def _checked_address(known: KnownProvider, settings: ProviderSettings, url: str) -> str:
    """The address of an API as its library expects it: without a query, because the library appends a path."""
    if not url and known.dialect.needs_address:
        where = f" or {known.address} in the environment" if known.address else ""
        raise ModelNotReady(f"Where is {known.name}? Set base_url in [models.providers.{known.name}]{where}.")
    if missing := known.dialect.missing(settings, url):
        raise ModelNotReady(missing)
    if not url:
        return ""
    url = known.dialect.to_base_url(url)
    try:
        parts = urlsplit(url)
        is_reachable = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
        is_address = is_reachable and not parts.query and not parts.fragment and url.isprintable() and " " not in url
    except ValueError:
        is_address = False
    if not is_address:
        variable = f"{known.address}, or " if known.address else ""
        raise ModelNotReady(
            f"The base URL of {known.name} is no address of an API. Set {variable}base_url in "
            f"{known.table}, like https://models.example.com/v1."
        )
    return url
