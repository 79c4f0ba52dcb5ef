"""How models are set up: which are the usual ones, what each role means, and how each provider is reached.

This is `[models]` of a workspace's settings. User guide, "Setting default LLM and roles" and "Model Provider
Configuration". Nothing here asks a provider; `catalogue` reads it.
"""

from datetime import date
from typing import Annotated

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, SecretStr

from goalport.llm.model import Prices

__all__ = ["CustomModel", "ModelsSettings", "ProviderSettings"]

_Millis = Annotated[int, Field(ge=0)]
_Settings = ConfigDict(frozen=True, extra="forbid", validate_by_name=True, validate_by_alias=True)


class ProviderSettings(BaseModel):
    """How one provider is reached, and how patiently."""

    model_config = _Settings

    base_url: str = ""
    """Where it answers; empty: what its variable of the environment says, else its own address."""
    api_key: SecretStr | None = None
    """None: what its variable of the environment says."""
    project: str = ""
    """Google Cloud's name of the project, for Gemini by Vertex."""
    location: str = ""
    """Google Cloud's or Amazon's region."""
    api_version: str = ""
    """Azure's."""
    completions_path: str = ""
    """Where chats are completed, when it is not the usual path: `/v1/chat/completions`."""
    embeddings_path: str = ""
    """Where texts are embedded, when it is not the usual path: `/v1/embeddings`."""
    max_attempts: Annotated[int, Field(ge=1)] = 10
    """How often a request is made at most, when the provider is busy, fails or cannot be reached."""
    backoff_millis: _Millis = 5_000
    """How long to wait before the second attempt."""
    backoff_multiplier: Annotated[float, Field(ge=1, allow_inf_nan=False)] = Field(
        default=5.0, validation_alias=AliasChoices("backoff_multiplier", "multiplier")
    )
    """How many times longer each further wait is."""
    backoff_max_interval: _Millis = Field(
        default=180_000, validation_alias=AliasChoices("backoff_max_interval", "max_interval")
    )
    """Milliseconds; no wait is longer, and a provider that asks for a longer one is not asked again."""
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds that one attempt may take, when the call does not say; None: what goes for every provider."""


class CustomModel(BaseModel):
    """A model that goalport would not know, or what it should know besides of one that it does."""

    model_config = _Settings

    name: Annotated[str, Field(min_length=1)]
    """What it is called here."""
    provider: str = ""
    """Empty: told by the name; with a `base_url`, whatever it is called, one that speaks as OpenAI does."""
    model: str = ""
    """What the provider calls it; empty: the same."""
    base_url: str = ""
    """Empty: the provider's."""
    api_key: SecretStr | None = None
    """None: the provider's, or none where the model has a `base_url`: a key goes to no address but its provider's."""
    knowledge_cutoff: date | None = None
    prices: Prices | None = None
    vision: bool | None = None
    """Whether it takes images; None: the provider decides."""
    contributors: tuple[str, ...] = ()
    """Texts for the system prompt of each of its calls."""


class ModelsSettings(BaseModel):
    """Which models there are, and what each is for."""

    model_config = _Settings

    default_llm: str = "gpt-4.1-mini"
    """The model that is asked when a call names none."""
    default_embedding_model: str = ""
    """The embedding model that is used when a call names none; empty: none."""
    llms: dict[str, str] = Field(default_factory=dict)
    """What a role means: the name of a model."""
    embedding_services: dict[str, str] = Field(default_factory=dict)
    """The same for embedding models."""
    providers: dict[str, ProviderSettings] = Field(default_factory=dict)
    """By the provider's name; a name of your own, with a `base_url`, is one that speaks as OpenAI does."""
    custom: tuple[CustomModel, ...] = ()
