"""Reporting what happens: the log, in plain words or those of a personality, events as JSON lines, and spans."""

from goalport.base.observe.log import (
    PERSONALITIES,
    JsonLinesListener,
    LogListener,
    Personality,
    PlanListener,
    PromptListener,
    as_json,
    in_words,
)
from goalport.base.observe.log_lines import REQUEST_ID, LogFormat, RareLog, log_to_stderr, tell

__all__ = [
    "PERSONALITIES",
    "REQUEST_ID",
    "JsonLinesListener",
    "LogFormat",
    "LogListener",
    "Personality",
    "PlanListener",
    "PromptListener",
    "RareLog",
    "as_json",
    "in_words",
    "log_to_stderr",
    "tell",
]
