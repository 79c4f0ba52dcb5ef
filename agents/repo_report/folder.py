"""Which folder a request means, and which files in it may be touched.

Everything that keeps the report below the allowed roots is here: a path is judged after its symlinks are followed, and
below the folder no symlink is followed at all. Listing and reading, above, ask this module before they touch a file.
"""

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from goalport.errors import BadInput

from .text import shown


def find_folder(path: str, roots: Sequence[Path]) -> Path:
    """Resolve the path of a request to a folder below the roots, or say what is wrong with it."""
    if "\0" in path:
        raise BadInput("The path holds a NUL character. Give the path of a folder, such as `src`.")
    folder = Path(os.path.realpath(roots[0] / (path.strip() or ".")))
    if not any(folder.is_relative_to(root) for root in roots):
        raise _outside(path, roots)
    try:
        if not stat.S_ISDIR(folder.stat().st_mode):
            message = f"{path!r} is a file, and a report is about a folder. Give the folder that it is in."
            raise BadInput(message)
        os.scandir(folder).close()
    except OSError as reason:
        raise _unusable(path, roots, reason) from reason
    return folder


def _outside(path: str, roots: Sequence[Path]) -> BadInput:
    return BadInput(
        f"{path!r} leads outside of the folders that may be reported on ({_listed(roots)}). Give a path below one of"
        " them; whoever runs the server can add folders with its `roots` setting."
    )


def _unusable(path: str, roots: Sequence[Path], reason: OSError) -> BadInput:
    if isinstance(reason, PermissionError):
        return BadInput(f"The server may not read {path!r}: permission denied. Give a folder that its user can read.")
    return BadInput(
        f"There is no folder {path!r}. Paths are relative to {shown(str(roots[0]))}; `.` is that folder itself."
    )


def _listed(roots: Sequence[Path]) -> str:
    return ", ".join(shown(str(root)) for root in roots)


class Inside:
    """The inside of one folder: files are reached by relative path, and never through a symlink.

    A git index and a git history name whatever paths their author liked, `link/../../etc/passwd` too; asking here keeps
    such a name from reaching a file that lies elsewhere.
    """

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._real: dict[str, bool] = {"": True}

    def stat(self, path: str) -> os.stat_result | None:
        """Look at what is there itself; None when nothing is, or when the way there is not a plain one."""
        parent = path.rpartition("/")[0]
        if not self._is_real_folder(parent) or path.rpartition("/")[2] in ("", ".", ".."):
            return None
        try:
            return os.lstat(f"{self.folder}/{path}")
        except (OSError, ValueError):
            return None

    def open(self, path: str) -> int | None:
        """Open a regular file for reading; None for anything else, a pipe that would block included."""
        found = self.stat(path)
        if found is None or not stat.S_ISREG(found.st_mode):
            return None
        flags = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0)
        try:
            return os.open(f"{self.folder}/{path}", flags)
        except OSError:
            return None

    def _is_real_folder(self, path: str) -> bool:
        known = self._real.get(path)
        if known is None:
            parent, _, name = path.rpartition("/")
            known = name not in ("", ".", "..") and self._is_real_folder(parent) and self._is_folder(path)
            self._real[path] = known
        return known

    def _is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.lstat(f"{self.folder}/{path}").st_mode)
        except (OSError, ValueError):
            return False
