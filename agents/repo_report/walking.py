"""Going through the files of a folder: those that git tracks, or all of them.

The edge that lists; it decides nothing but what to skip. It yields files and asides one by one, and stops at its
deadline with an aside that says so. Above: the agent, which fills a tally or reads the files.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from .deadline import Deadline
from .folder import Inside
from .git import Git, Place
from .listing import Aside, FoundFile, Oddity

SKIPPED = frozenset({
    ".git", ".hg", ".svn", ".jj", ".bzr",
    "node_modules", "bower_components", ".yarn", ".next", ".nuxt", ".svelte-kit", ".parcel-cache", ".turbo",
    ".venv", ".tox", ".nox", ".eggs", "__pycache__", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis",
    ".gradle", ".terraform", ".direnv", ".idea", ".goalport",
})  # fmt: skip
"""Folders that tools fill; nobody's work is in them."""
ENVIRONMENTS = frozenset(("venv", "env", "virtualenv"))
LISTING = ("ls-files", "-z", "--cached", "--deduplicate")
PATIENCE = 500
"""How many entries to pass between two looks at the clock."""

Sight = FoundFile | Aside
Sights = Iterator[Sight]


class UnlistedError(Exception):
    """Git could not list the tracked files."""


def walk(folder: str, deadline: Deadline, most: int) -> Sights:
    """Go through a folder and its subfolders, not following symlinks."""
    for seen, sight in enumerate(_walked(folder), 1):
        if seen % PATIENCE == 0 and deadline.passed:
            yield Aside(Oddity.TIME)
            return
        if seen > most:
            yield Aside(Oddity.FULL)
            return
        yield sight


def _walked(folder: str) -> Sights:
    pending = [""]
    while pending:
        below = pending.pop()
        try:
            with os.scandir(f"{folder}/{below}") as entries:
                for entry in entries:
                    path = f"{below}{entry.name}"
                    aside = _aside(entry, below)
                    if aside and aside.oddity is Oddity.FOLDER:
                        pending.append(f"{path}/")
                    yield aside or _sight(path, entry)
        except OSError:
            yield Aside(Oddity.UNREADABLE, below)


def _sight(path: str, entry: os.DirEntry[str]) -> Sight:
    try:
        return _judged(path, entry.stat(follow_symlinks=False))
    except OSError:
        return Aside(Oddity.UNREADABLE, path)


def _judged(path: str, found: os.stat_result) -> Sight:
    if stat.S_ISREG(found.st_mode):
        return FoundFile(path, found.st_size, found.st_mtime)
    return Aside(Oddity.LINK if stat.S_ISLNK(found.st_mode) else Oddity.SPECIAL, path)


def _aside(entry: os.DirEntry[str], below: str) -> Aside | None:
    """Tell folders from files, and those that are skipped from those to go into."""
    if entry.name == ".git":
        return Aside(Oddity.REPOSITORY, below) if below else Aside(Oddity.SKIPPED, ".git")
    if not entry.is_dir(follow_symlinks=False):
        return None
    if entry.name in SKIPPED or (entry.name in ENVIRONMENTS and Path(entry.path, "pyvenv.cfg").exists()):
        return Aside(Oddity.SKIPPED, entry.name)
    return Aside(Oddity.FOLDER, below)


def tracked_files(git: Git, place: Place, deadline: Deadline, most: int) -> Sights:
    """Go through the files in git's index, as they are in the folder now."""
    inside = Inside(place.folder)
    with git.run(place, LISTING, deadline) as run:
        for seen, name in enumerate(run.tokens(), 1):
            if seen > most:
                yield Aside(Oddity.FULL)
                return
            if seen % PATIENCE == 0 and deadline.passed:
                break
            yield _tracked(inside, os.fsdecode(name))
    if run.ending == "failed":
        raise UnlistedError(run.complaint)
    if run.ending == "stopped":
        yield Aside(Oddity.TIME)


def _tracked(inside: Inside, path: str) -> Sight:
    found = inside.stat(path)
    if found is None:
        return Aside(Oddity.MISSING, path)
    return Aside(Oddity.REPOSITORY, path) if stat.S_ISDIR(found.st_mode) else _judged(path, found)
