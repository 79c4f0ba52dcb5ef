"""The folder that a report is about, once the request has been understood."""

from dataclasses import dataclass

from .git import Git, Place
from .paths import FilePath
from .period import Period
from .repository import Repository


@dataclass(frozen=True)
class Target:
    """A folder below the allowed roots, its repository if it has one, and what was asked about it."""

    folder: FilePath
    name: FilePath
    """The folder as it is shown: relative to its root, or the root's own name."""
    period: Period
    thorough: bool
    repository: Repository | None
    note: str = ""
    """Why there is no repository although it looked like one."""

    @property
    def git(self) -> Git | None:
        """The git to ask about it."""
        return Git(self.repository.program) if self.repository else None

    @property
    def place(self) -> Place:
        """Where git runs for it."""
        return Place(self.folder, self.repository.top if self.repository else self.folder)
