"""An endpoint: a provider that is ready to be asked, with its address, its key, its settings and its dialect.

A dialect is the API that a provider speaks; the dialects themselves are in `dialects`. Nothing is looked up here, and
no library of a provider is imported. Above: `provider_endpoints` makes an endpoint, `provider_clients` its client.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr

if TYPE_CHECKING:
    import httpx2
    from pydantic_ai.embeddings.base import EmbeddingModel
    from pydantic_ai.models import Model

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

    A field without a default has no answer that is right for most: a new dialect must say it.
    """

    model: "Callable[[Endpoint, str, httpx2.AsyncClient], Model]"
    """Makes a model of this name, which sends its requests through this client. Imports its library when called."""
    embeddings: "Callable[[Endpoint, str, httpx2.AsyncClient], EmbeddingModel] | None"
    """Makes an embedding model likewise; None: the API has none."""
    imports: tuple[str, ...]
    """The modules that making a model and the first request import. They are imported before, in a worker thread: on
    the event loop, the import would keep the server from answering others."""
    stream_end: re.Pattern[bytes] | None
    """What only a whole stream contains, within 100 bytes; None: its library looks for the end itself.

    A stream without it was cut off: it is an error and no answer.
    """
    to_base_url: Callable[[str], str]
    """The configured address as the library expects it; the text is not empty."""
    needs_address: bool = True
    """False: its library knows the public address."""
    needs_key: Callable[[ProviderSettings], bool] = lambda _: True
    """Whether a provider with these settings needs a key; not where its library finds credentials."""
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
    def address(self) -> str:
        """The base URL without the user name and password that may be in it, for messages."""
        return _USER_INFO.sub("//", self.base_url)
