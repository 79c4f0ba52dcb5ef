"""The known providers: the table of what is known of each without asking it.

A provider is added by one entry in `PROVIDERS`; one with an API of its own also by a record in `dialects`. No library
is imported here. Above: `provider_endpoints` makes an endpoint of an entry. User guide, sections 2.2.2 and "Model
Provider Configuration".
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

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
)
from goalport.models.llm.endpoints import Dialect


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
        KnownProvider(
            name="anthropic",
            dialect=ANTHROPIC,
            key="ANTHROPIC_API_KEY",
            base_url="https://api.anthropic.com",
            address="ANTHROPIC_BASE_URL",
            models=r"claude-",
        ),
        KnownProvider(
            name="deepseek",
            dialect=DEEPSEEK,
            key="DEEPSEEK_API_KEY",
            base_url="https://api.deepseek.com",
            address="DEEPSEEK_BASE_URL",
            models=r"deepseek-",
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
            dialect=GOOGLE,
            key="GOOGLE_API_KEY",
            address="GOOGLE_BASE_URL",
            extra="google",
            library="google.genai",
            variables={"project": ("GOOGLE_PROJECT_ID",), "location": ("GOOGLE_LOCATION",)},
        ),
        KnownProvider(
            name="mistral",
            dialect=MISTRAL,
            key="MISTRAL_API_KEY",
            base_url="https://api.mistral.ai",
            address="MISTRAL_BASE_URL",
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
        KnownProvider(name="ollama", dialect=OLLAMA, base_url="http://localhost:11434/v1", address="OLLAMA_BASE_URL"),
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
