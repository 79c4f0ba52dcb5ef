"""Texts for models: contributors to the system prompt, templates, and examples of objects.

Nothing here knows a model or an agent. Above: `ai`, and `domain` for its sandbox.
"""

from goalport.models.prompts.contributors import (
    DATA_RULE,
    Conditional,
    CurrentDate,
    KnowledgeCutoffDate,
    Persona,
    PromptContributor,
    RoleGoalBackstory,
    Text,
    as_data,
    contribution_of,
    marked_as_data,
)
from goalport.models.prompts.examples import Example, made_up, only_fields
from goalport.models.prompts.templates import Templates

__all__ = [
    "DATA_RULE",
    "Conditional",
    "CurrentDate",
    "Example",
    "KnowledgeCutoffDate",
    "Persona",
    "PromptContributor",
    "RoleGoalBackstory",
    "Templates",
    "Text",
    "as_data",
    "contribution_of",
    "made_up",
    "marked_as_data",
    "only_fields",
]
