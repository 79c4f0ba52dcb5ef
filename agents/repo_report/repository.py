"""Finding the git repository of a folder, and finding out whether it may be read.

It answers with a `Repository`, or with a sentence that says why there is none, which ends up among the notes of the
report: a folder without a usable repository is still a folder. Above: the agent; below: `git`.
"""

import os
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from .borrowing import borrows_below, is_below
from .deadline import Deadline
from .git import Git, Place
from .paths import FilePath
from .text import shown

PROBE = (
    "rev-parse",
    "--path-format=absolute",
    "--show-toplevel",
    "--absolute-git-dir",
    "--git-common-dir",
    "--is-shallow-repository",
)
FOLDERS_ASKED = 3
LONGEST_PATH = 4096
NO_GIT = (
    "This is a git repository, but git is not on the server's PATH: the report is made from file times. Install git to"
    " get its history."
)


@dataclass(frozen=True)
class Repository:
    """A work tree that git can read and that lies below the allowed roots, its git directory too."""

    program: FilePath
    """The git that read it."""
    top: FilePath
    branch: FilePath
    """Empty when no branch is checked out."""
    has_commits: bool
    shallow: bool


@dataclass(frozen=True)
class Discovery:
    """What looking for a repository brought: one, or none and perhaps a note for the reader."""

    repository: Repository | None = None
    note: str = ""


def discover(folder: Path, roots: Sequence[Path], git: Git | None, deadline: Deadline) -> Discovery:
    """Look for a `.git` from the folder upwards, but never above the roots, and ask git about it."""
    top = _top(folder, roots)
    if top is None:
        return Discovery()
    if git is None:
        return Discovery(note=NO_GIT)
    place = Place(str(folder), str(top))
    answer = git.ask(place, PROBE, deadline)
    if not answer.ok:
        return Discovery(note=_refusal(answer.complaint, top))
    *folders, shallow = answer.text.splitlines() or [""]
    if len(folders) != FOLDERS_ASKED or Path(os.path.realpath(folders[0])) != top:
        return Discovery(note="Git sees its work tree in another folder, so its history was not used.")
    allowed = all(is_below(Path(part), roots) for part in folders)
    if not allowed or not borrows_below(Path(folders[2], "objects"), roots):
        return Discovery(note=_OUTSIDE)
    return Discovery(_described(git, place, deadline, shallow=shallow == "true"))


_OUTSIDE = (
    "The git directory of this work tree (or one that it borrows objects from) lies outside of the folders that the"
    " server may read, so its history was not used. Whoever runs the server can add that folder to its `roots` setting."
)


def _top(folder: Path, roots: Sequence[Path]) -> Path | None:
    for place in (folder, *folder.parents):
        if not any(place.is_relative_to(root) for root in roots):
            return None
        if os.path.lexists(place / ".git"):
            return place
    return None


def _described(git: Git, place: Place, deadline: Deadline, *, shallow: bool) -> Repository:
    head = git.ask(place, ("rev-parse", "--verify", "--quiet", "HEAD^{commit}"), deadline)
    branch = git.ask(place, ("symbolic-ref", "--quiet", "--short", "HEAD"), deadline)
    return Repository(git.program, place.top, branch.text.strip(), head.ok, shallow)


def _refusal(complaint: str, top: Path) -> str:
    if "dubious ownership" in complaint:
        quoted = shown(shlex.quote(str(top)), LONGEST_PATH)
        return (
            f"Git does not trust this repository, because it belongs to another user than the server: its history was"
            f" not used. If you trust it, run `git config --global --add safe.directory {quoted}` as the server's user."
        )
    reason = complaint.removeprefix("fatal: ") or "it gave no answer in time"
    return f"Git cannot read this repository, so its history was not used ({shown(reason)})."
