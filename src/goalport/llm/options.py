"""Which model to ask, and how: data that can stand in a file of settings. User guide, section 3.8.1."""

from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, FiniteFloat, model_validator

__all__ = ["LlmOptions", "Thinking"]

Thinking = Literal["minimal", "low", "medium", "high", "xhigh"]
"""How hard a model is to think before it answers, for those that can."""


class LlmOptions(BaseModel):
    """Which model, and its hyperparameters; what is None is left to the provider.

    At most one of `model`, `role`, `auto` and `first_of` says which model; none of them: the default one.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model: Annotated[str, Field(min_length=1)] | None = None
    """A model's name, with or without its provider: `gpt-4.1-mini`, `openai:gpt-4.1-mini`."""
    role: Annotated[str, Field(min_length=1)] | None = None
    """What the model is for, as the settings name it: `best`, `cheapest`."""
    auto: bool = False
    """Let the platform choose."""
    first_of: tuple[str, ...] = ()
    """The first of these names that is available."""
    temperature: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=1)] | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    """How much the model may write."""
    frequency_penalty: FiniteFloat | None = None
    presence_penalty: FiniteFloat | None = None
    timeout: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Seconds that one request may take; None: what the settings say."""
    thinking: Thinking | bool | None = None
    """How hard to think; True: as hard as the model does by itself; False: not at all."""

    @model_validator(mode="after")
    def _one_choice(self) -> Self:
        chosen = [self.model is not None, self.role is not None, self.auto, bool(self.first_of)]
        if sum(chosen) > 1:
            raise ValueError("should name the model once: by model, by role, by auto or by first_of")
        return self

    def but(self, **changes: Any) -> Self:
        """A copy with some fields changed, checked as if it were new.

        Choosing the model in another way takes the place of the way that was chosen before.
        """
        ways = ("model", "role", "auto", "first_of")
        kept = self.model_dump(exclude_unset=True, exclude=set(ways) if changes.keys() & set(ways) else None)
        return type(self).model_validate(kept | changes)
