"""Reporting what happens: log lines, in plain words or a personality's, events as JSON lines, and spans. Floor 1."""

from goalport.observe.log import JsonLinesListener, LogListener, PlanListener, PromptListener, as_json, in_words
from goalport.observe.personalities import PERSONALITIES, Personality

__all__ = [
    "PERSONALITIES",
    "JsonLinesListener",
    "LogListener",
    "Personality",
    "PlanListener",
    "PromptListener",
    "as_json",
    "in_words",
]
