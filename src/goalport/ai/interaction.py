"""What a prompt is run with: model, tools, references, contributors, guards. Data, which `Ai` copies with changes."""

from dataclasses import dataclass, field

from goalport.ai.guards import Guard
from goalport.llm import Image, LlmOptions
from goalport.prompts import PromptContributor
from goalport.references import LlmReference
from goalport.tools import Tool

__all__ = ["Interaction"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Interaction:
    """How a prompt is to be run; immutable, like the `Ai` that holds it."""

    id: str = ""
    """What names the prompt in events, spans and tests; empty: made of the action and what is asked for."""
    llm: LlmOptions = field(default_factory=LlmOptions)
    fallbacks: tuple[str | LlmOptions, ...] = ()
    """What is asked when that model fails, one after another."""
    tool_groups: tuple[str, ...] = ()
    """Roles; what plays them is looked up at each call."""
    tools: tuple[Tool, ...] = ()
    """Beside those of the groups; tools of objects stand here too."""
    references: tuple[LlmReference, ...] = ()
    contributors: tuple[PromptContributor, ...] = ()
    system_prompt: str = ""
    """Goes before what contributors and references say."""
    images: tuple[Image, ...] = ()
    generate_examples: bool | None = None
    """Whether the prompt for an object shows a made-up example of one; None: what the settings say."""
    template: str = ""
    """The template of which prompts are made; `Ai` has rendered it by the time that an engine sees a request."""
    guards: tuple[Guard, ...] = ()
    """Beside those of the platform."""
    embedding_service: str = ""
    """The name of the embedding service; empty: the default one."""
