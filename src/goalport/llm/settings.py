"""The settings of models, `[models]` in a workspace's settings: defaults, roles, and how each provider is reached.

Nothing here asks a provider; `catalogue` reads these. User guide, "Setting default LLM and roles" and "Model Provider
Configuration".
"""

from datetime import date
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr

from goalport.llm.model import Prices

__all__ = ["CustomModel", "ModelsSettings", "ProviderSettings"]

_Millis = Annotated[int, Field(ge=0)]
_Settings = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)


class ProviderSettings(BaseModel):
    """The address, the key and the retries of one provider."""

    model_config = _Settings

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


class CustomModel(BaseModel):
    """A model that goalport does not know by itself, or additions to what it knows of one."""

    model_config = _Settings

    name: Annotated[str, Field(min_length=1)]
    """The name by which it is chosen here."""
    provider: str = ""
    """Empty: found by the name; and where there is a `base_url`, a server with the API of OpenAI."""
    model: str = ""
    """The name that the provider gives it; empty: the same as `name`."""
    base_url: str = ""
    """The address of its API; empty: the provider's."""
    api_key: SecretStr | None = None
    """None: the provider's key, but none for a model with a `base_url`: a key goes to its provider's address only."""
    knowledge_cutoff: date | None = None
    prices: Prices | None = None
    vision: bool | None = None
    """Whether the model takes images; None: the provider decides."""
    contributors: tuple[str, ...] = ()
    """Texts for the system prompt of every call of this model."""


class ModelsSettings(BaseModel):
    """Which models there are, and which role each has."""

    model_config = _Settings

    default_llm: str = "gpt-4.1-mini"
    """The model that is asked when a call names none."""
    default_embedding_model: str = ""
    """The embedding model that is used when a call names none; empty: none."""
    llms: dict[str, str] = Field(default_factory=dict)
    """The name of a model for each role."""
    embedding_services: dict[str, str] = Field(default_factory=dict)
    """The name of an embedding model for each role."""
    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    """The settings of each provider, by its name. A name of your own needs a `base_url`, with the API of OpenAI."""
    custom: tuple[CustomModel, ...] = ()
