"""Files that several programs write: replaced as a whole, by one program at a time.

Pins, trust in skills, and keys are stored in such files. A file that root writes stays readable for the server's user:
a replaced file keeps its owner, group and mode, and a new file gets the owner of its folder.
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
    """Write a file atomically: a reader finds either the old text or the new text. Only its owner may read a new file.

    Raises `OSError`, and leaves the file unchanged.
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
    """Create a folder and its missing parents; only the user may access the new ones. Raises `OSError`."""
    for each in reversed([folder, *folder.parents]):
        if not each.exists():
            each.mkdir(mode=0o700, exist_ok=True)


def give_to_owner(path: Path, *, of: Path) -> None:
    """If root runs this, change the owner and group of a new file or folder to those of `of`.

    Raises `OSError`.
    """
    if sys.platform != "win32" and os.geteuid() == 0:
        found = of.stat()
        os.chown(path, found.st_uid, found.st_gid)


@contextmanager
def locked(path: Path) -> Generator[None]:
    """A block that only one program at a time enters for a path, to read the file, change the content and write it.

    Raises `OSError` if another program keeps the lock for 5 s, or if the folder cannot be written.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # The file itself cannot be the lock, since it is replaced by another one.
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
