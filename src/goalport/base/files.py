"""Files that several programs write: replaced as a whole, by one program at a time.

Pins, trust in skills, and keys are kept in such files. What root writes stays readable for the user as whom the server
runs: a file that is replaced keeps its owner, its group and its mode, and a new one belongs to the owner of its folder.
"""

import os
import stat
import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

_PAUSE: Final = 0.05
_TRIES: Final = 100


def replace_file(path: Path, text: str) -> None:
    """Write a file in one step: a reader finds the old text or the new one. Only its owner may read a new one.

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
        if path.exists():
            give_to_owner(draft, of=path)
            draft.chmod(stat.S_IMODE(path.stat().st_mode))
        else:
            give_to_owner(draft, of=path.parent)
        draft.replace(path)
    finally:
        draft.unlink(missing_ok=True)


def make_private(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for the user alone. Raises `OSError`."""
    for each in reversed([folder, *folder.parents]):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def give_to_owner(path: Path, *, of: Path) -> None:
    """If root runs this, give what it has just made to the owner and the group of another file or folder.

    Raises `OSError`.
    """
    if sys.platform != "win32" and os.geteuid() == 0:
        found = of.stat()
        os.chown(path, found.st_uid, found.st_gid)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """A time in which no other program that locks the same path changes it: what was read can be changed and written.

    Raises `OSError` if another program keeps the lock for seconds, or if the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not the file itself is locked, since it is replaced by another one.
    lock = path.with_name(f".{path.name}.lock")
    with os.fdopen(os.open(lock, os.O_RDWR | os.O_CREAT, 0o600), "r+") as file:
        give_to_owner(lock, of=path.parent)
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
