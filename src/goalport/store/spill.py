"""Files for what is too large to be kept in memory; they are gone when nothing refers to them, or the program ends.

They have no names, so nobody else can read them, and none is left behind, however the program ends. What is written
together stays in one file, whose space is given back when all of that was dropped. `memory` is above.
"""

import tempfile
from pathlib import Path
from threading import Lock
from typing import IO, Final

__all__ = ["SpillFiles", "Spilled"]

_FILE_BYTES: Final = 16_000_000
"""How much is written to a file before the next one is begun."""


class _File:
    """A file without a name, which is closed with the last reference to it."""

    def __init__(self, file: IO[bytes]) -> None:
        self._file, self._lock = file, Lock()
        self.size = 0

    def __del__(self) -> None:
        self._file.close()

    def append(self, data: bytes) -> int:
        """Write at the end; return where that is."""
        with self._lock:
            place = self._file.seek(self.size)
            self._file.write(data)
            self._file.flush()
            self.size += len(data)
            return place

    def read(self, place: int, size: int) -> bytes:
        """So many bytes from a place on."""
        with self._lock:
            self._file.seek(place)
            return self._file.read(size)


class Spilled:
    """Bytes that were written to a file, which is kept as long as this is."""

    def __init__(self, file: _File, place: int, size: int) -> None:
        self._file, self._place, self.size = file, place, size

    def read(self) -> bytes:
        """The bytes. Raises `OSError`."""
        return self._file.read(self._place, self.size)


class SpillFiles:
    """Writes bytes to files in a folder, which is made when it is first needed. Use it in one thread."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._current: _File | None = None

    def write(self, data: bytes) -> Spilled:
        """Write bytes that can be read as long as what is returned is kept. Raises `OSError`."""
        if self._current is None or self._current.size >= _FILE_BYTES:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._current = _File(tempfile.TemporaryFile(dir=self._folder))  # noqa: SIM115 - it is closed with `_File`
        return Spilled(self._current, self._current.append(data), len(data))
