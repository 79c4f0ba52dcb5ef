"""How the log of a program is written: one line for each record, as text or as JSON, in UTC and without secrets.

Records of all libraries are written in the same form. Text of a client or a model cannot forge a line of the log:
control characters are escaped, and the lines of a traceback are indented.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from datetime import UTC, datetime
from functools import lru_cache
from typing import IO, Any, Final, Literal, cast

from goalport.base.colours import coloured
from goalport.base.secrecy import hide_known

LogFormat = Literal["text", "json"]
REQUEST_ID: ContextVar[str] = ContextVar("goalport_request_id", default="")
"""The id of the request that is being answered; empty outside of requests."""
FIELDS: Final = "fields"
"""The attribute of a log record with its values by name; they become members of the JSON object."""
LINES: Final = "lines"
"""The attribute of a log record whose message may have several lines, such as the prompt of a model."""
_READABLE: Final = json.JSONEncoder(ensure_ascii=False, default=str)
_ASCII: Final = json.JSONEncoder(default=str)
_MARGIN: Final = "\n    "
_MILLISECONDS: Final = 1_000
_STATUS_LEVELS: Final = {"error": logging.ERROR, "problem": logging.ERROR, "warning": logging.WARNING}
_SECONDS: Final = 60.0
_MOST_KINDS: Final = 1_000
"""After so many kinds of messages within a minute, further kinds are not logged: a client may invent them."""
_status_log = logging.getLogger("goalport.server")


class TextFormatter(logging.Formatter):
    """A record as one line: time, level, process, logger, the id of the request, and the message."""

    def __init__(self, *, process: bool = False) -> None:
        super().__init__()
        self._process = process

    def _exception_of(self, record: logging.LogRecord) -> str:
        """The traceback of a record; `secrecy` may have stored one without secrets in `exc_text`."""
        if record.exc_text is None and record.exc_info:
            record.exc_text = self.formatException(record.exc_info)
        return record.exc_text or ""

    def format(self, record: logging.LogRecord) -> str:
        """The record as text."""
        message = record.getMessage()
        lines = message.split("\n") if getattr(record, LINES, False) else [message]
        for more in (self._exception_of(record), record.stack_info and self.formatStack(record.stack_info)):
            lines += more.split("\n") if more else ()
        process = f" {os.getpid()}" if self._process else ""
        request = f" [{identity}]" if (identity := REQUEST_ID.get()) else ""
        text = _MARGIN.join([each if each.isprintable() else _escaped(each) for each in lines])
        return hide_known(f"{time_of(record.created)} {record.levelname}{process} {record.name}{request}: {text}")


class JsonFormatter(TextFormatter):
    """A record as one JSON object, in which its fields are members."""

    def format(self, record: logging.LogRecord) -> str:
        """The record as JSON."""
        content: dict[str, object] = {
            "time": time_of(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if identity := REQUEST_ID.get():
            content["request_id"] = identity
        if self._process:
            content["pid"] = os.getpid()
        api: Any = sys.modules.get("opentelemetry.trace")  # imported only where there may be spans
        place = api and api.get_current_span().get_span_context()
        if place and place.is_valid:
            content |= {"trace_id": f"{place.trace_id:032x}", "span_id": f"{place.span_id:016x}"}
        content |= getattr(record, FIELDS, {})
        if exception := self._exception_of(record):
            content["exception"] = exception
        if record.stack_info:
            content["stack"] = self.formatStack(record.stack_info)
        line = _READABLE.encode(content)
        return hide_known(line if line.isprintable() else _ASCII.encode(content))


class _Stderr:
    """The `sys.stderr` at the time of each write: a live view replaces it, so that log lines appear above the view."""

    def write(self, text: str) -> int:
        return sys.stderr.write(text)

    def flush(self) -> None:
        sys.stderr.flush()


def log_to_stderr(level: str, form: LogFormat, *, process: bool = False) -> None:
    """Log goalport's messages from this level, and other libraries' warnings, unless logging is configured already.

    With `process`, each line has the id of the process that wrote it.
    """
    if logging.getLogger().handlers:
        return
    handler = logging.StreamHandler(cast("IO[str]", _Stderr()))
    handler.setFormatter((JsonFormatter if form == "json" else TextFormatter)(process=process))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])
    logging.getLogger("goalport").setLevel(level.upper())
    logging.captureWarnings(capture=True)


def print_status(line: str) -> None:
    """Write a line for people to stderr, coloured on a terminal; if the log is JSON, it becomes a record of the log."""
    if any(isinstance(each.formatter, JsonFormatter) for each in logging.getLogger().handlers):
        _status_log.log(_STATUS_LEVELS.get(line.lstrip().partition(":")[0], logging.INFO), "%s", line.strip())
        return
    sys.stderr.write(f"{coloured(line, sys.stderr)}\n")
    sys.stderr.flush()


def time_of(seconds: float) -> str:
    """A time in UTC, to milliseconds."""
    whole = int(seconds)
    return f"{_second(whole)}.{int((seconds - whole) * _MILLISECONDS):03}+00:00"


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    """The time without its fraction, cached, because a busy server writes a thousand lines in a second."""
    return datetime.fromtimestamp(seconds, UTC).replace(tzinfo=None).isoformat()


def _escaped(text: str) -> str:
    return "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class RateLimitedLog:
    """Logs messages that a client could cause again and again: each kind at most once in a minute.

    `clock` returns monotonic seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._logged_at: dict[str, float] = {}

    def log(self, log: Callable[..., None], kind: str, text: str, *values: object) -> None:
        """Pass a message to `log`, such as `Logger.info`, unless one of its kind was logged within the last minute."""
        now = self._clock()
        if now - self._logged_at.get(kind, -_SECONDS) < _SECONDS:
            return
        if len(self._logged_at) >= _MOST_KINDS:
            self._logged_at = {each: at for each, at in self._logged_at.items() if now - at < _SECONDS}
        if len(self._logged_at) < _MOST_KINDS:
            self._logged_at[kind] = now
            log(text, *values)
