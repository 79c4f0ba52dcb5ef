"""Reporting what happens: log lines, in plain words or a personality's, events as JSON lines, and spans. Floor 1."""

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
