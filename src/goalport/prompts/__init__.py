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
)

__all__ = [
    "Conditional",
    "CurrentDate",
    "KnowledgeCutoffDate",
    "Persona",
    "PromptContributor",
    "RoleGoalBackstory",
    "Text",
]
