"""What a stdio server writes to its stderr: it goes to the log, not faster and not longer than anybody reads."""

import logging
import re
from collections.abc import Callable
from time import monotonic
from typing import Final

import anyio
from anyio.abc import ByteReceiveStream

__all__ = ["Saying"]

_LINE: Final = 500
"""Characters of a line that are kept."""
_BURST: Final = 50
"""Lines that are logged in one period; of the others, how many there were."""
_PERIOD: Final = 10.0
"""Seconds."""
_COMPLAINT: Final = "Failed to validate request"
"""So servers made with older SDKs begin to say, in some forty lines, that they do not know the newest way to begin."""
_RECORD: Final = re.compile(r"\b(DEBUG|INFO|WARNING|ERROR|CRITICAL)\b")
"""What a line of a log has in it that begins a record."""
_COMPLAINING: Final = 1.0
"""Seconds in which such lines come."""


class Saying:
    """Logs a server's stderr under `goalport.upstream.NAME`, and knows the last line of it."""

    def __init__(self, name: str, hide: Callable[[str], str]) -> None:
        self._log = logging.getLogger(f"goalport.upstream.{name}")
        self._hide = hide
        self._since = 0.0
        self._logged = 0
        self._dropped = 0
        self._complained = -_COMPLAINING
        self.last = ""

    def shortened(self, text: str) -> str:
        """One line that can be shown: nothing secret, no control characters, not too long."""
        hidden = self._hide(text[: 4 * _LINE].strip())
        shown = "".join(each if each.isprintable() else " " for each in hidden)
        return shown if len(shown) <= _LINE else f"{shown[:_LINE]}…"

    async def listen(self, stderr: ByteReceiveStream | None) -> None:
        """Read to the end: a full pipe would stop the server."""
        if stderr is None:
            return
        rest = b""
        try:
            async for chunk in stderr:
                *lines, rest = (rest + chunk).split(b"\n")
                # A line without an end is kept only as far as it would be shown.
                rest = rest[: 4 * _LINE]
                for line in lines:
                    self._say(line)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError, OSError):
            pass
        self._say(rest)

    def _say(self, line: bytes) -> None:
        text = self.shortened(line.decode(errors="replace"))
        if not text:
            return
        if self._is_complaint(text):
            self._log.debug("%s", text)
            return
        self.last = text
        if monotonic() - self._since > _PERIOD:
            if self._dropped:
                self._log.info("… and %d lines more", self._dropped)
            self._since, self._logged, self._dropped = monotonic(), 0, 0
        if self._logged < _BURST:
            self._logged += 1
            self._log.info("%s", text)
        else:
            self._dropped += 1

    def _is_complaint(self, text: str) -> bool:
        """Whether a line belongs to what an older server says of being asked in the newest way first."""
        if _COMPLAINT in text:
            self._complained = monotonic()
        elif _RECORD.search(text):
            self._complained = -_COMPLAINING
        return monotonic() - self._complained < _COMPLAINING
