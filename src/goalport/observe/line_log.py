"""A log with a line for each call. Where it goes to standard error and nowhere else, no record is made of a line.

Above: the log of calls. `log_lines`, beside it, says how a line looks; `secrecy`, below, what is hidden in it.
"""

import logging
import time
from collections.abc import Mapping
from typing import Final

from goalport.observe.log_lines import FIELDS, JsonFormatter, LineHandler, TextFormatter
from goalport.secrecy import hide_known_and_keys, makes_plain_records

__all__ = ["LineLog"]

_call_handlers: Final = logging.Logger.callHandlers


class LineLog:
    """The logger of a name, for lines of which a busy server writes a thousand in a second."""

    def __init__(self, name: str) -> None:
        self._log = logging.getLogger(name)

    def writes(self, level: int) -> bool:
        """Whether lines of this level are written."""
        return self._log.isEnabledFor(level)

    def write(self, level: int, message: str, fields: Mapping[str, object]) -> None:
        """Write a line; the fields are its members where the log is JSON."""
        match handler := self._only_handler():
            case LineHandler(formatter=TextFormatter() | JsonFormatter() as form) if level >= handler.level:
                line = form.line(time.time(), logging.getLevelName(level), self._log.name, message, fields)
                handler.write_line(hide_known_and_keys(line))
            case _:
                self._log.log(level, message, extra={FIELDS: fields})

    def _only_handler(self) -> logging.Handler | None:
        """The only one that sees records of this logger; None if there are several, or if something may change them."""
        found: list[logging.Handler] = []
        each: logging.Logger | None = self._log
        while each is not None:
            found += each.handlers
            each = each.parent if each.propagate else None
        # Programs that watch what is logged put a function of theirs in the place of this method.
        is_usual = logging.Logger.callHandlers is _call_handlers and makes_plain_records()
        # A handler that does more than write to its stream, such as to begin a new file, needs the record too.
        is_plain = [type(each) for each in found] == [LineHandler]
        return found[0] if is_usual and is_plain and not found[0].filters and not self._log.filters else None
