"""Files that several programs write: replaced as a whole, by one program at a time. Floor 0.

Pins, trust in skills, and keys are kept in such files.
"""

import os
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

__all__ = ["locked", "replace_file"]

_PAUSE: Final = 0.05
_TRIES: Final = 100


def replace_file(path: Path, text: str) -> None:
    """Write a file in one step: a reader finds the old text or the new one. Only its owner may read it.

    Raises `OSError`; the file is as it was then.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """A time in which no other program that locks the same path changes it: what was read can be changed and written.

    Raises `OSError` if another program keeps the lock for seconds, or if the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not the file itself is locked, since it is replaced by another one.
    with os.fdopen(os.open(path.with_name(f".{path.name}.lock"), os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        for _ in range(_TRIES):
            if _lock(file):
                break
            time.sleep(_PAUSE)
        else:
            raise TimeoutError(f"another program has kept {path} locked for {_TRIES * _PAUSE:g} s")
        yield


if sys.platform == "win32":
    import msvcrt

    def _lock(file: IO[str]) -> bool:
        try:
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        except OSError:
            return False
        return True
else:
    import fcntl

    def _lock(file: IO[str]) -> bool:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True
