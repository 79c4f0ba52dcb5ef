"""The model for work beside the conversation, such as titles and summaries.

Below: `Ai`. Above: what is done beside, and the doors.
"""

from collections.abc import Collection
from typing import Final

from goalport.models.llm import LlmOptions
from goalport.runtime.ai import Ai

CHEAPEST: Final = "cheapest"
"""The role of that model in the settings."""


def cheapest(ai: Ai, roles: Collection[str]) -> Ai:
    """An `Ai` that asks the model with the role `cheapest`, if the settings name one among the `roles`.

    The default model is asked where there is none, or where that one cannot be asked or does not answer.
    """
    return ai.with_llm_by_role(CHEAPEST).with_fallback(LlmOptions()) if CHEAPEST in roles else ai
