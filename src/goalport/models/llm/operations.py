"""What holds for all requests to models: the table `[llm_operations]` of the settings."""

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]


class LlmOperations(BaseModel):
    """The limits and defaults of all requests: the table `[llm_operations]` of the settings.

    The settings of a call take precedence where it has such. User guide, section 3.22
    (`embabel.agent.platform.llm-operations`): its keys and defaults, and those of our tool loop.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    generate_examples_by_default: bool = True
    """Whether the prompt for an object shows a made-up example of one."""
    maybe_prompt_template: str = ""
    """The template that tells a model when to say that it knows too little; empty: the built-in text."""
    default_timeout: Seconds = 60.0
    """Seconds that one request to a model may take when neither its options nor its provider's settings say."""
    data_binding_max_attempts: Count = 10
    """How many times a model is asked for an object while its replies cannot be read."""
    data_binding_fixed_backoff_millis: Annotated[int, Field(ge=0)] = 30
    """Milliseconds between two of these attempts."""
    max_turns: Count = 20
    """The number of replies to one request that may call tools; the calls of the last of them are not made."""
    tool_timeout: Seconds = 60.0
    """Seconds that one call of a tool may take. The model is told of a time-out, and may go on in another way."""
    tool_result_characters: Count = 100_000
    """The most characters of a tool's result that a model gets at once; it reads on with a tool."""
    parallel_tools: bool = True
    """Whether several calls in one reply run at the same time. Their results keep the order of the calls."""
    unknown_tool_attempts: Count = 3
    """How many replies in a row may call only tools that do not exist; the model is told which tools exist."""
    empty_reply: Literal["accept", "nudge"] = "accept"
    """What happens when a model gives no text where one is wanted: it is accepted, or the model is asked once more."""
