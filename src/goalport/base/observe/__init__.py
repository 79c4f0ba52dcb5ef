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
from goalport.base.observe.log_lines import REQUEST_ID, LogFormat, RateLimitedLog, log_to_stderr, print_status

__all__ = [
    "PERSONALITIES",
    "REQUEST_ID",
    "JsonLinesListener",
    "LogFormat",
    "LogListener",
    "Personality",
    "PlanListener",
    "PromptListener",
    "RateLimitedLog",
    "as_json",
    "in_words",
    "log_to_stderr",
    "print_status",
]
