"""Texts for models: contributors to the system prompt, templates, examples.

Knows no model and no agent. Above: `llm`, `ai`.
"""

from goalport.prompts.contributors import (
    Conditional,
    CurrentDate,
    KnowledgeCutoffDate,
    Persona,
    PromptContributor,
    RoleGoalBackstory,
    Text,
    contribution_of,
)
from goalport.prompts.examples import Example, made_up
from goalport.prompts.templates import Templates

__all__ = [
    "Conditional",
    "CurrentDate",
    "Example",
    "KnowledgeCutoffDate",
    "Persona",
    "PromptContributor",
    "RoleGoalBackstory",
    "Templates",
    "Text",
    "contribution_of",
    "made_up",
]
