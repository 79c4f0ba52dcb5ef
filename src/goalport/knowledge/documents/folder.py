"""A folder that is read on behalf of a model: its files can be listed, searched and read, but nothing outside of it.

Names come from models and archives. A name that leads out of the folder gets the same error as one that does not exist.
All work is bounded. Hidden files are left out, since they may have settings and secrets. The methods block: call
them in threads. Above: `github`, references to folders and repositories, and skills.
"""

import errno
import os
import stat
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase
from hashlib import sha256
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Final

from goalport.base.errors import DocumentError, UnreadableDocument
from goalport.base.words import cleaned, counted, folded, one_line

_PROBED: Final = 8_192
"""Bytes at the beginning of a file that are looked at to tell whether it is text."""
_LINE: Final = 300
"""Characters of a found line that are returned."""


@dataclass(frozen=True, slots=True)
class FolderLimits:
    """How much of a folder is looked at."""

    entries: int = 20_000
    """The most files and folders that are looked at."""
    file_bytes: int = 2_000_000
    """The largest file that is read, in bytes."""
    searched_bytes: int = 100_000_000
    """The most bytes that one search reads."""


@dataclass(frozen=True, slots=True)
class FoundLine:
    """A line that contains all words of a search."""

    path: str
    number: int
    """From 1."""
    text: str


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder whose files can be read; paths are relative to it, with `/` between their parts."""

    root: Path
    limits: FolderLimits = FolderLimits()
    hidden: bool = False
    """Whether files and folders whose names begin with a dot are included."""

    def resolve(self, path: str) -> Path:
        """The file or folder at a path, with symbolic links resolved. Raises `DocumentError` if there is none."""
        found = self._resolve_inside(path)
        if found is None or not found.exists():
            raise DocumentError(f"There is no {one_line(path, _LINE)!r} in this folder.")
        return found

    def names(self, path: str = "") -> tuple[str, ...]:
        """The names in a folder, sorted; those of folders end with a slash. Raises `DocumentError`."""
        place = self.resolve(path)
        if not place.is_dir():
            raise DocumentError(f"{one_line(path, _LINE)!r} is no folder but a file; read it.")
        prefix = PurePosixPath(place.relative_to(self.root.resolve()).as_posix())
        return tuple(
            f"{each.name}/" if (place / each.name).is_dir() else each.name
            for each in sorted(_entries(place), key=lambda entry: entry.name)
            if self._shows(each.name) and self._resolve_inside(str(prefix / each.name)) is not None
        )

    def files(self, pattern: str = "*", onerror: Callable[[OSError], None] | None = None) -> Iterator[str]:
        """The paths of the files that match a pattern such as `*.md` or `docs/*.md`; `*` matches slashes too.

        Links to folders are not followed, since they may form a loop. `onerror` is called for folders that cannot be
        listed, and for the folder at which the limit is reached.
        """
        waiting = [PurePosixPath()]
        left = self.limits.entries
        root = self.root.resolve()
        while waiting:
            folder = waiting.pop()
            found = sorted(islice(_entries(root / folder, onerror), left + 1), key=lambda entry: entry.name)
            if len(found) > left and onerror is not None:
                most = f"only {counted(self.limits.entries, 'file')} and folders are looked at"
                onerror(OSError(errno.E2BIG, most, str(root / folder)))
            left -= len(found := found[:left])
            for each in found:
                name = str(folder / each.name)
                linked = self._resolve_inside(name) if each.is_symlink() else None
                is_file = each.is_file(follow_symlinks=False) or (linked is not None and linked.is_file())
                fits = fnmatchcase(name, pattern) or fnmatchcase(each.name, pattern)
                if is_file and fits and self._shows(each.name):
                    yield name
            deeper = [folder / each.name for each in found if each.is_dir(follow_symlinks=False)]
            waiting += reversed([each for each in deeper if self._shows(each.name)])

    def all_files(self) -> list[str]:
        """The paths of all files, sorted. Raises `UnreadableDocument` if the list may be incomplete."""
        failures: list[OSError] = []
        found = sorted(self.files(onerror=failures.append))
        if failures:
            raise UnreadableDocument.after(failures[0].filename, failures[0])
        return found

    def content_hash(self) -> str:
        """The hash of all paths and contents. Raises `DocumentError` if a file cannot be read."""
        hashed, root = sha256(), self.root.resolve()
        for path in self.all_files():
            content = sha256(self.content(path, self._resolve_inside(path, root))).hexdigest()
            hashed.update(f"{path}\0{content}\n".encode("utf-8", "surrogatepass"))
        return f"sha256:{hashed.hexdigest()}"

    def content(self, path: str, place: Path | None = None) -> bytes:
        """The content of a file. Raises `DocumentError` if there is no such file, or it is too large.

        `place` is the resolved path, if it is known already.
        """
        place = place or self.resolve(path)
        if not place.is_file():
            raise _unreadable(path, "it is no file")
        try:
            # Without blocking: a pipe would wait for somebody who writes into it.
            handle = os.open(place, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_NOFOLLOW", 0))
        except OSError as error:
            raise _unreadable(path, error.strerror or type(error).__name__) from error
        with os.fdopen(handle, "rb") as file:
            state = os.fstat(handle)
            if not stat.S_ISREG(state.st_mode):
                raise _unreadable(path, "it is no file")
            if state.st_size > self.limits.file_bytes:
                raise _unreadable(path, f"it has {state.st_size} bytes, and at most {self.limits.file_bytes} are read")
            # Reading with the limit as size would allocate that much for each file. Some systems report a size of 0.
            return file.read(state.st_size or self.limits.file_bytes)

    def text(self, path: str) -> str:
        """The text of a file in UTF-8, without invisible characters. Raises `DocumentError` if it is no text."""
        text = _decoded(path, self.content(path))
        return cleaned(text, len(text))

    def lines_with(self, words: str, pattern: str = "*") -> Iterator[FoundLine]:
        """The lines that contain all of these words, ignoring case, in the order of path and line number."""
        wanted, root, left = folded(words).split(), self.root.resolve(), self.limits.searched_bytes
        for path in self.files(pattern) if wanted else ():
            place = self._resolve_inside(path, root)
            if place is None:  # it was deleted meanwhile
                continue
            try:
                text = _decoded(path, self.content(path, place))
            except DocumentError:  # binary or too large files are not searched
                continue
            left -= len(text)
            if left < 0:
                return
            whole = folded(text)
            for number, line in enumerate(text.split("\n") if all(each in whole for each in wanted) else (), start=1):
                plain = folded(line)
                if all(each in plain for each in wanted):
                    yield FoundLine(path, number, one_line(line, _LINE))

    def _resolve_inside(self, path: str, resolved: Path | None = None) -> Path | None:
        """The resolved path; None: it leads out of the folder, or to no file. `resolved` is the resolved root."""
        parts = PurePosixPath(path.replace("\\", "/")).parts
        if "\0" in path or ".." in parts or not all(map(self._shows, parts)) or path.startswith("/") or ":" in path[:2]:
            return None
        root = resolved or self.root.resolve()
        try:
            found = root.joinpath(*parts).resolve(strict=True)
        except (OSError, RuntimeError, ValueError):  # too long, no such file, links in a circle, or invalid characters
            return None
        return found if found == root or root in found.parents else None

    def _shows(self, name: str) -> bool:
        return self.hidden or not name.startswith(".")


def _entries(folder: Path, onerror: Callable[[OSError], None] | None = None) -> Iterator[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as found:
            yield from found
    except OSError as error:  # it was deleted meanwhile, or may not be read
        if onerror is not None:
            onerror(error)


def _decoded(path: str, content: bytes) -> str:
    if b"\0" in content[:_PROBED]:
        raise _unreadable(path, f"it is no text, but {counted(len(content), 'byte')} of something else")
    return content.decode("utf-8-sig", "replace").replace("\r\n", "\n").replace("\r", "\n")


def _unreadable(path: str, why: str) -> DocumentError:
    return DocumentError(f"{one_line(path, _LINE)!r} cannot be read: {why}.")
