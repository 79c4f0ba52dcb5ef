"""Folders and real git repositories for the tests, made by the git that is installed."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Folder:
    """A folder with files in it."""

    path: Path

    def write(self, name: str | bytes, content: str | bytes = "", modified: float | None = None) -> None:
        file = self.path / os.fsdecode(name)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
        if modified is not None:
            os.utime(file, (modified, modified))


@dataclass(frozen=True)
class Repository(Folder):
    """A git repository; its commits are an hour apart unless they say when."""

    variables: Mapping[str, str] = field(default_factory=dict[str, str])

    @classmethod
    def make(cls, path: Path, home: Path) -> "Repository":
        path.mkdir(parents=True, exist_ok=True)
        home.mkdir(parents=True, exist_ok=True)
        settings = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1", "HOME": str(home)}
        repository = cls(path, {"PATH": os.environ["PATH"], **settings})
        repository.git("init", "--quiet", "--initial-branch=main", ".")
        return repository

    def git(self, *arguments: str, by: str = "Ada", at: str = "2026-01-05T12:00:00Z", **settings: str) -> str:
        who = {
            f"GIT_{role}_{what}": value
            for role in ("AUTHOR", "COMMITTER")
            for what, value in (("NAME", by), ("EMAIL", f"{by.lower()}@example.org"), ("DATE", at))
        }
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            env={**self.variables, **who, **settings},
            capture_output=True,
            check=True,
            timeout=30,
        )
        return done.stdout.decode(errors="replace")

    def commit(self, subject: str, by: str = "Ada", at: str = "2026-01-05T12:00:00Z") -> None:
        self.git("add", "--all")
        self.git("commit", "--quiet", "--allow-empty", "--message", subject, by=by, at=at)

    def changed(self, name: str, lines: int, by: str = "Ada", at: str = "2026-01-05T12:00:00Z") -> None:
        """Commit a file of so many lines, all of them new."""
        self.write(name, "".join(f"{at} {by} {line}\n" for line in range(lines)))
        self.commit(f"Change {name}", by, at)

    def contents(self) -> dict[str, tuple[int, int]]:
        """Every file below the folder, git's own too, with its size and time: what a reader must leave as it is."""
        files = (path for path in self.path.rglob("*") if not path.is_dir())
        return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in files}
