"""When keys were last used, to the minute: each key has an empty file, whose time it is.

Above: `keys`, which notes each use, and the command that lists keys. What is written here decides nothing.
"""

import logging
import threading
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from goalport.base.files import give_to_owner

_PRECISION_SECONDS: Final = 60.0
_log = logging.getLogger(__name__)


class KeyUses:
    """The times at which keys were last used, by their ids. Several programs may write them."""

    def __init__(self, data_dir: Path) -> None:
        self.folder = data_dir / "keys-used"
        self._noted: dict[str, float] = {}
        self._failed = False

    def note(self, key_id: str) -> None:
        """Note that a key is used now. It is written at most once a minute, by a thread: no call waits for a disk."""
        now = time.monotonic()
        if now - self._noted.get(key_id, -_PRECISION_SECONDS) >= _PRECISION_SECONDS:
            self._noted[key_id] = now
            threading.Thread(target=self._write, args=(key_id,), name="key uses", daemon=True).start()

    def _write(self, key_id: str) -> None:
        """Write the time. A failure is logged once: nothing depends on these times."""
        file = self.folder / key_id
        try:
            self.folder.mkdir(0o700, parents=True, exist_ok=True)
            file.touch(0o600)
            for each in (self.folder, file):
                give_to_owner(each, of=self.folder.parent)
        except OSError as error:
            if not self._failed:
                _log.warning("When keys were last used cannot be written to %s (%s).", self.folder, error)
            self._failed = True

    def times(self) -> Mapping[str, datetime]:
        """When each key was last used, by its id; empty where nothing is known."""
        try:
            return {each.name: datetime.fromtimestamp(each.stat().st_mtime, UTC) for each in self.folder.iterdir()}
        except OSError:
            return {}
