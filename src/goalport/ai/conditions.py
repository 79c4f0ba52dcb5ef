"""Conditions that a model judges: true only when it says so and is sure enough. User guide, section 3.8.2."""

from dataclasses import replace
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from goalport.ai.engine import Engine, Request
from goalport.ai.interaction import Interaction
from goalport.llm import UserMessage

__all__ = ["Determination", "evaluate"]


class Determination(BaseModel):
    """What you found about the condition."""

    model_config = ConfigDict(frozen=True)

    result: Annotated[bool, Field(description="Whether the condition holds for the context")]
    confidence: Annotated[float, Field(ge=0, le=1, description="How sure you are of the result; 1 is certain")]
    explanation: Annotated[str, Field(description="Why, in a sentence or two")]


async def evaluate(
    engine: Engine, interaction: Interaction, condition: str, context: str, confidence_threshold: float
) -> bool:
    """Whether the model holds the condition to be true of the context, with at least that confidence (0 to 1).

    Raises `ValueError` for a threshold that no confidence can be compared with, and what the engine raises.
    """
    if not 0 <= confidence_threshold <= 1:
        raise ValueError(f"Expected a confidence threshold from 0 to 1, but came {confidence_threshold!r}.")
    prompt = (
        "Judge whether this condition holds for the context below. Go by the context alone.\n\n"
        f"# Condition\n{condition}\n\n# Context\n{context}"
    )
    request = Request(
        interaction=replace(interaction, template=""),
        messages=(UserMessage(prompt),),
        output=Determination,
        verb="evaluate_condition",
    )
    found = await engine.run(request)
    assert isinstance(found, Determination)
    return found.result and found.confidence >= confidence_threshold
