"""How models are worked with, whoever provides them: the table `[llm_operations]` of the settings.

User guide, section 3.22: `embabel.agent.platform.llm-operations`; its keys and defaults, and those of our tool loop.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["LlmOperations"]

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class LlmOperations(BaseModel):
    """Limits and habits of every request; a call's own settings go before them where it has such."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    generate_examples_by_default: bool = True
    """Whether a prompt for an object shows a made-up example of one."""
    maybe_prompt_template: str = ""
    """The template that tells a model when to say that it knows too little; empty: the text that is built in."""
    default_timeout: Seconds = 60.0
    """Seconds that one request of a model may take, when neither its options nor its provider's settings say."""
    data_binding_max_attempts: Count = 10
    """How often a model is asked for an object when its replies cannot be read."""
    data_binding_fixed_backoff_millis: Annotated[int, Field(ge=0)] = 30
    """Milliseconds between two of these attempts."""
    max_turns: Count = 20
    """How many replies of a model to one request may call tools, all but the last of them answered."""
    tool_timeout: Seconds = 60.0
    """Seconds that one call of a tool may take; then the model is told, and may go another way."""
    parallel_tools: bool = True
    """Whether several calls in one reply run at the same time; their results keep the order of the calls."""
    unknown_tool_attempts: Count = 3
    """How many replies in a row may call only tools that are not there and be told which ones are."""
    empty_reply: Literal["accept", "nudge"] = "accept"
    """What is done with a reply of nothing where a text is wanted: take it, or ask once more."""
