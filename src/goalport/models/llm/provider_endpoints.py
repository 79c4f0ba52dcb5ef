"""How a provider is found and made ready: which one a model's name means, and the endpoint at which it is asked.

An endpoint comes of the provider's entry in `PROVIDERS`, the settings and the environment; what is missing is said
here, before anything is asked. No library is imported. Above: `catalogue`; below: `providers` and `endpoints`.
"""

import re
from collections.abc import Mapping
from importlib.util import find_spec
from urllib.parse import urlsplit

from pydantic import SecretStr

from goalport.base.errors import ModelNotReady
from goalport.base.words import listed
from goalport.models.llm.endpoints import Endpoint, ProviderSettings
from goalport.models.llm.providers import ALIASES, PROVIDERS, KnownProvider


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
    key = _key(known, api_key if own else api_key or settings.api_key or environment.get(known.key))
    if not own:
        _require_key(known, settings, key, environment)
    url = _checked_address(known, settings, url)
    return Endpoint(provider=provider, dialect=known.dialect, base_url=url, api_key=key, settings=settings, own=own)


def _variable(provider: str) -> str:
    """The environment variable with the key of a provider of your own; empty where that is a known provider's."""
    variable = re.sub(r"\W+", "_", provider).upper() + "_API_KEY"
    return "" if any(each.key == variable for each in PROVIDERS.values()) else variable


def _key(known: KnownProvider, given: SecretStr | str | None) -> SecretStr | None:
    """A key without the line break that files and shells add; None where there is none."""
    key = (given.get_secret_value() if isinstance(given, SecretStr) else given or "").strip()
    if not (key.isascii() and key.isprintable()):
        raise ModelNotReady(
            f"The key of {known.name} has characters that no key has. Set {known.key_setting} as the provider shows it."
        )
    return SecretStr(key) if key else None


def _require_library(known: KnownProvider) -> None:
    try:
        is_installed = not known.library or find_spec(known.library) is not None
    except ModuleNotFoundError:
        is_installed = False
    if not is_installed:
        raise ModelNotReady(f"Models of {known.name} need a library: pip install 'goalport[{known.extra}]'.")


def _require_key(
    known: KnownProvider, settings: ProviderSettings, key: SecretStr | None, environment: Mapping[str, str]
) -> None:
    """Require a key, except of a server of your own, which may need none."""
    if key or not known.key or not known.dialect.needs_key(settings):
        return
    if known.name not in PROVIDERS and settings.base_url:
        return
    besides = f", or {known.dialect.key_alternative}" if known.dialect.key_alternative else ""
    others = {each.key: each.name for each in PROVIDERS.values() if each.key != known.key and environment.get(each.key)}
    hint = f" There are keys for: {listed(others.values())}. To use one, name a model of that provider in [models]."
    raise ModelNotReady(
        f"{known.name} has no key. Set {known.key} in the environment or in .env{besides}, or api_key in {known.table}."
        f"{hint if others else ''}"
    )


def _checked_address(known: KnownProvider, settings: ProviderSettings, url: str) -> str:
    """The address of an API as its library expects it, which appends a path to it, so that it can have no query."""
    if not url and known.dialect.needs_address:
        where = f" or {known.address} in the environment" if known.address else ""
        raise ModelNotReady(f"Where is {known.name}? Set base_url in [models.providers.{known.name}]{where}.")
    if missing := known.dialect.missing(settings, url):
        raise ModelNotReady(missing)
    url = url and known.dialect.to_base_url(url)
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
    return url
