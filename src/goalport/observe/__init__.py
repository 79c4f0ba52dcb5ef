"""Telling what happens: log lines, in plain words or a personality's, and events as JSON lines. Floor 1."""

from goalport.observe.jsonlines import JsonLinesListener, as_json
from goalport.observe.log import LogListener, PlanListener, PromptListener, in_words
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
