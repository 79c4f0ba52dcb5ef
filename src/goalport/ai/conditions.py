"""Asking a model whether something is true. Above: `Ai.evaluate_condition`; below: one request of an engine."""

from typing import Annotated, cast

from pydantic import BaseModel, Field

from goalport.ai.engine import Engine, Request
from goalport.ai.interaction import Interaction
from goalport.llm import UserMessage

__all__ = ["Determination", "evaluate"]


class Determination(BaseModel):
    """Whether a condition holds, and how sure that is."""

    result: bool
    confidence: Annotated[float, Field(ge=0, le=1)]
    explanation: str


async def evaluate(
    engine: Engine, interaction: Interaction, condition: str, context: str, confidence_threshold: float
) -> bool:
    """Whether the model holds the condition to be true of the context, at least that sure."""
    prompt = f"Is this condition true, given the context?\n\nCondition: {condition}\n\nContext:\n{context}"
    request = Request(
        interaction=interaction, messages=(UserMessage(prompt),), output=Determination, verb="evaluate_condition"
    )
    found = cast("Determination", await engine.run(request))
    return found.result and found.confidence >= confidence_threshold
