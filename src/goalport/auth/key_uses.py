"""When keys were last used, to the minute: kept in a file of its own, away from the answering of calls.

Above: `keys`, which notes each use, and the command that lists keys. What is written here decides nothing.
"""

import json
import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, cast

from goalport.files import locked, replace_file

__all__ = ["KeyUses"]

_PRECISION_SECONDS: Final = 60.0
_DELAY_SECONDS: Final = 1.0
_FILE: Final = "keys-used.json"
_log = logging.getLogger(__name__)


class KeyUses:
    """The times at which keys were last used, by their ids. Several programs may write them."""

    def __init__(self, data_dir: Path) -> None:
        self.path = data_dir / _FILE
        self._noted: dict[str, float] = {}
        self._unwritten: dict[str, float] = {}
        self._lock = threading.Lock()
        self._failed = False

    def note(self, key_id: str) -> None:
        """Note that a key is used now. It is written a second later by a thread, and at most once a minute."""
        now = time.time()
        if now - self._noted.get(key_id, 0) < _PRECISION_SECONDS:
            return
        self._noted[key_id] = now
        with self._lock:
            is_first = not self._unwritten
            self._unwritten[key_id] = now
        if is_first:
            timer = threading.Timer(_DELAY_SECONDS, self.write)
            timer.daemon = True
            timer.start()

    def write(self) -> None:
        """Write what was noted and not written yet. A failure is logged once: nothing depends on these times."""
        with self._lock:
            noted, self._unwritten = self._unwritten, {}
        try:
            with locked(self.path):
                known = self._read()
                for key_id, when in noted.items():
                    known[key_id] = max(known.get(key_id, 0.0), when)
                written = {each: _written(when) for each, when in sorted(known.items())}
                replace_file(self.path, json.dumps(written, indent=2) + "\n")
        except OSError as error:
            if not self._failed:
                _log.warning("When keys were last used cannot be written to %s (%s).", self.path, error)
            self._failed = True

    def times(self) -> Mapping[str, datetime]:
        """When each key was last used, by its id; empty where nothing is known."""
        return {each: datetime.fromtimestamp(when, UTC) for each, when in self._read().items()}

    def _read(self) -> dict[str, float]:
        try:
            found: object = json.loads(self.path.read_text("utf-8"))
            items = cast("dict[str, str]", found).items() if isinstance(found, dict) else ()
            return {each: datetime.fromisoformat(when).timestamp() for each, when in items}
        except (OSError, ValueError, TypeError):
            return {}


def _written(when: float) -> str:
    return datetime.fromtimestamp(when, UTC).isoformat(timespec="seconds")
