"""Files for what is too large to be kept in memory; they are gone when nothing refers to them, or the program ends.

They have no names, so nobody else can read them, and none is left behind, however the program ends. What is written
together stays in one file, whose space is given back when all of that was dropped. `memory` is above.
"""

import errno
import os
import tempfile
import weakref
from pathlib import Path
from threading import Lock
from typing import Final

from goalport.files import make_private

__all__ = ["SpillFiles", "Spilled"]

_FILE_BYTES: Final = 16_000_000
"""How much is written to a file before the next one is begun."""


class _File:
    """A file without a name in a folder, which is closed with the last reference to it."""

    def __init__(self, folder: Path) -> None:
        # The number of the file is kept, and no file object: that would complain when it is collected before this is.
        with tempfile.TemporaryFile(dir=folder) as file:
            self._number = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._number)
        self._lock = Lock()
        self.size = 0

    def append(self, data: bytes) -> int:
        """Write at the end; return where that is."""
        with self._lock:
            place = os.lseek(self._number, self.size, os.SEEK_SET)
            left = memoryview(data)
            while left:
                left = left[os.write(self._number, left) :]
            self.size += len(data)
            return place

    def read(self, place: int, size: int) -> bytes:
        """So many bytes from a place on. Raises `OSError`, also if they are not all there."""
        parts: list[bytes] = []
        with self._lock:
            os.lseek(self._number, place, os.SEEK_SET)
            while size and (part := os.read(self._number, size)):
                parts.append(part)
                size -= len(part)
        if size:
            raise OSError(errno.EIO, "The file is shorter than what was written")
        return b"".join(parts)


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
            make_private(self._folder)
            self._current = _File(self._folder)
        return Spilled(self._current, self._current.append(data), len(data))
