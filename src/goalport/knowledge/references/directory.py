"""References to files: a folder of this machine, and a repository of GitHub as a folder."""

import logging
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Annotated, Final, Self

from anyio import get_cancelled_exc_class, to_thread
from pydantic import Field

from goalport.base.errors import DocumentError
from goalport.knowledge.documents import Folder, GitHubArchives, GitHubPlace
from goalport.knowledge.documents.refresh import Freshness, RefreshPolicy
from goalport.models.prompts import as_data
from goalport.tools import Tool, tool

_log = logging.getLogger(__name__)
_MOST_NAMES: Final = 300
_MOST_LINES: Final = 60
_PAGE: Final = 16_000
"""Characters that one call of a tool reads."""
_LINES: Final = 400
_ADVICE: Final = "List, find, search and read its files with its tools before you answer from them."


@dataclass(frozen=True, slots=True)
class LocalDirectory:
    """A reference to a folder: `LocalDirectory("./data/financial", "Financial data files").with_usage_notes("…")`.

    Its tools read nothing outside of the folder, and no hidden files.
    """

    path: str | Path
    description: str
    name: str = ""
    """For people and models; empty: the name of the folder."""
    usage_notes: str = ""
    """What a model should know to use it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or Path(self.path).resolve().name or "files")

    def with_usage_notes(self, text: str) -> Self:
        """A copy that tells the model how to use it."""
        return replace(self, usage_notes=text)

    def notes(self) -> str:
        return "\n".join(filter(None, (self.usage_notes, _ADVICE)))

    def tools(self) -> Sequence[Tool]:
        return Tool.from_instance(_FileTools(self.name, self._folder))

    async def _folder(self) -> Folder:
        root = Path(self.path)
        if not await to_thread.run_sync(root.is_dir):
            raise DocumentError(f"The folder of {self.name!r} is not there: {self.path}. Nothing of it can be read.")
        return Folder(root)


@dataclass(slots=True)
class _Fetched:
    """What a reference to a repository has fetched."""

    freshness: Freshness
    folder: Path | None = None
    commit: str = ""
    failure: str = ""
    """Why it could not be fetched when it was tried last; empty: it could."""


@dataclass(frozen=True, slots=True, eq=False)
class GitHubRepository:
    """A reference to a repository: `GitHubRepository("https://github.com/embabel/embabel-agent-examples.git", "…")`.

    It is fetched as an archive and pinned by commit. With another policy than never, a branch is followed.
    """

    url: str
    description: str
    name: str = ""
    """For people and models; empty: the name of the repository."""
    ref: str = ""
    """A branch, tag or commit; empty: that of the URL, or the default branch."""
    policy: RefreshPolicy = field(default_factory=RefreshPolicy)
    archives: GitHubArchives = field(default_factory=GitHubArchives, repr=False)
    usage_notes: str = ""
    """What a model should know to use it."""
    place: GitHubPlace = field(init=False)
    _fetched: _Fetched = field(init=False, repr=False)

    def __post_init__(self) -> None:
        place = GitHubPlace.of_url(self.url)
        object.__setattr__(self, "place", replace(place, ref=self.ref) if self.ref else place)
        object.__setattr__(self, "name", self.name or place.repository)
        object.__setattr__(self, "_fetched", _Fetched(Freshness(self.policy)))

    def with_usage_notes(self, text: str) -> Self:
        """A copy that tells the model how to use it."""
        return replace(self, usage_notes=text)

    async def refresh(self) -> None:
        """Fetch it where it is not here yet, or its policy says that it is time to look for newer commits."""
        if self._fetched.freshness.is_due:
            await self.fetch()

    async def fetch(self) -> None:
        """Fetch it as `refresh` does, whether it is time to or not."""
        fetched = self._fetched
        follows = self.policy.seconds is not None
        try:
            copy = await self.archives.get(self.place, update=follows)
            fetched.folder, fetched.commit, fetched.failure = copy.folder, copy.commit, ""
            fetched.freshness.note_success()
        except DocumentError as error:
            _log.warning("The reference %r keeps what it had: %s", self.name, error)
            fetched.failure = str(error)
            fetched.freshness.note_failure()
        except get_cancelled_exc_class():  # what answers slowly must not slow down every request
            fetched.freshness.note_failure()
            raise

    def notes(self) -> str:
        fetched = self._fetched
        if fetched.folder is not None:
            state = f"It is the repository {self.place} at the commit {fetched.commit}. {_ADVICE}"
        else:
            state = fetched.failure or f"It is the repository {self.place}. {_ADVICE}"
        return "\n".join(filter(None, (self.usage_notes, state)))

    def tools(self) -> Sequence[Tool]:
        return Tool.from_instance(_FileTools(self.name, self._folder))

    async def _folder(self) -> Folder:
        await self.refresh()
        if self._fetched.folder is None and not self._fetched.failure:  # a request did not wait for it, a tool can
            await self.fetch()
        if self._fetched.folder is None:
            raise DocumentError(self._fetched.failure)
        return Folder(self._fetched.folder)


@dataclass(frozen=True, slots=True)
class _FileTools:
    """The tools of a reference to files."""

    name: str
    folder: Callable[[], Awaitable[Folder]]

    @tool(name="listFiles", read_only=True)
    async def list_files(self, path: str = "") -> str:
        """List the names in a folder; those of folders end with a slash. Without a path: at the top."""
        folder = await self.folder()
        return self._listed(await to_thread.run_sync(folder.names, path), "The folder is empty.")

    @tool(name="findFiles", read_only=True)
    async def find_files(self, pattern: str) -> str:
        """List the paths of files in all folders that match a pattern, such as *.csv or docs/*.md."""
        folder = await self.folder()
        found = await to_thread.run_sync(lambda: tuple(islice(folder.files(pattern), _MOST_NAMES + 1)))
        return self._listed(found, f"No file matches {pattern!r}.")

    @tool(name="searchFiles", read_only=True)
    async def search_files(self, words: str, pattern: str = "*") -> str:
        """Find the lines that have all of these words in them, in the files that match a pattern such as *.csv."""
        folder = await self.folder()
        found = await to_thread.run_sync(lambda: tuple(islice(folder.lines_with(words, pattern), _MOST_LINES + 1)))
        lines = [f"{each.path}:{each.number}: {each.text}" for each in found[:_MOST_LINES]]
        if not lines:
            return f"No line has {words!r} in it. Search for fewer words."
        more = "\nThere are more lines; search for more words." if len(found) > _MOST_LINES else ""
        return as_data("\n".join(lines), self.name) + more

    @tool(name="readFile", read_only=True)
    async def read_file(self, path: str, line: Annotated[int, Field(ge=1)] = 1) -> str:
        """Read a file of text, from a line on."""
        folder = await self.folder()
        lines = (await to_thread.run_sync(partial(folder.text, path))).split("\n")
        shown = _page(lines[line - 1 :])
        if not shown:
            return f"The file has {len(lines)} lines; there is nothing from line {line} on."
        next_line = line + len(shown)
        more = f"\nGo on with line={next_line}; it has {len(lines)} lines." if next_line <= len(lines) else ""
        return as_data("\n".join(shown)[:_PAGE], f"{self.name}/{path}") + more

    def _listed(self, names: Sequence[str], none: str) -> str:
        if not names:
            return none
        more = "\nThere are more; narrow it down." if len(names) > _MOST_NAMES else ""
        return as_data("\n".join(names[:_MOST_NAMES]), self.name) + more


def _page(lines: Iterable[str]) -> list[str]:
    """The lines that one call reads: at least one, and not many."""
    shown: list[str] = []
    left = _PAGE
    for each in islice(lines, _LINES):
        left -= len(each) + 1
        if left < 0 and shown:
            break
        shown.append(each)
    return shown
