"""References to texts: a file, a resource of a package, a web page, a folder, and a repository of GitHub as a folder.

A short text stands in the notes. Of a long one the notes have the beginning, and tools read and search the rest.
"""

import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Final, Self
from urllib.parse import urlsplit

from anyio import get_cancelled_exc_class, to_thread
from pydantic import Field

from goalport.base.errors import DocumentError
from goalport.base.words import cleaned, folded, one_line
from goalport.knowledge.documents import Folder, GitHubArchives, GitHubPlace, WebFetcher, read_html
from goalport.knowledge.documents.folder import Freshness, RefreshPolicy
from goalport.models.prompts import as_data
from goalport.tools import Tool, tool

_log = logging.getLogger(__name__)
_SHOWN: Final = 8_000
"""Characters of a text that stand in the notes."""
_PAGE: Final = 16_000
"""Characters that one call of a tool reads."""
_LONGEST: Final = 5_000_000
"""Characters of a text that are kept."""
_MOST_LINES: Final = 40
_READABLE: Final = ("text/", "application/xhtml+xml", "application/json", "application/xml")
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})


@dataclass(slots=True)
class _Content:
    """What a reference has read."""

    freshness: Freshness
    text: str = ""
    failure: str = ""
    """Why there is no text, or no newer one, since it was tried last; empty: it was read."""


@dataclass(frozen=True, slots=True, eq=False)
class TextReference:
    """A reference to a text that is read from somewhere; made by `file_text`, `package_resource` and `web_page`."""

    name: str
    description: str
    source: str
    """Where the text is from, in words for a model."""
    read_source: Callable[[], Awaitable[str]] = field(repr=False)
    policy: RefreshPolicy = field(default_factory=RefreshPolicy)
    usage_notes: str = ""
    """What a model should know to use it."""
    _content: _Content = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_content", _Content(Freshness(self.policy)))

    def with_usage_notes(self, text: str) -> Self:
        """A copy that tells the model how to use it."""
        return replace(self, usage_notes=text)

    async def refresh(self) -> None:
        """Read the text where it is time to. What was read before stays when it cannot be read now."""
        if self._content.freshness.is_due:
            await self.read_now()

    async def read_now(self) -> None:
        """Read the text as `refresh` does, whether it is time to or not."""
        content = self._content
        try:
            content.text = await to_thread.run_sync(cleaned, await self.read_source(), _LONGEST)
            content.failure = "" if content.text else f"{self.source} is empty."
            content.freshness.note_success()
        except DocumentError as error:
            _log.warning("The reference %r keeps what it had: %s", self.name, error)
            content.failure = str(error)
            content.freshness.note_failure()
        except get_cancelled_exc_class():  # what answers slowly must not slow down every request
            content.freshness.note_failure()
            raise

    def notes(self) -> str:
        text, failure = self._content.text, self._content.failure
        if not text:
            shown = failure or "It has not been read yet. Its tool `read` reads it."
        else:
            shown = as_data(text[:_SHOWN], self.source)
            if len(text) > _SHOWN:
                shown += f"\nThis is the beginning of {len(text)} characters. Its tools read and search the rest."
        return "\n".join(filter(None, (self.usage_notes, shown)))

    def tools(self) -> Sequence[Tool]:
        """Tools to read and search the text, unless all of it stands in the notes."""
        is_whole = 0 < len(self._content.text) <= _SHOWN and self.policy.seconds is None
        return () if is_whole else Tool.from_instance(_TextTools(self, self._content))


@dataclass(frozen=True, slots=True)
class _TextTools:
    """The tools of a reference to a text."""

    reference: TextReference
    content: _Content

    @tool(read_only=True)
    async def read(self, start: Annotated[int, Field(ge=0)] = 0) -> str:
        """Read the text, from a number of characters after its beginning on."""
        text = await self._text()
        if start >= len(text):
            return f"The text has {len(text)} characters; there is nothing after {start}."
        end = min(start + _PAGE, len(text))
        more = f"\nGo on with start={end}; the text has {len(text)} characters." if end < len(text) else ""
        return as_data(text[start:end], self.reference.source) + more

    @tool(read_only=True)
    async def search(self, words: str) -> str:
        """Find the lines of the text that have all of these words in them."""
        found = await to_thread.run_sync(_lines_with, await self._text(), folded(words).split())
        if not found:
            return f"No line has {words!r} in it. Search for fewer words, or read the text."
        more = f"\nThere are {len(found) - _MOST_LINES} more." if len(found) > _MOST_LINES else ""
        return as_data("\n".join(found[:_MOST_LINES]), self.reference.source) + more

    async def _text(self) -> str:
        await self.reference.refresh()
        if not self.content.text and not self.content.failure:  # a request did not wait for it, but a tool can
            await self.reference.read_now()
        if not self.content.text and self.content.failure:
            raise DocumentError(self.content.failure)
        return self.content.text


def _lines_with(text: str, words: Sequence[str]) -> list[str]:
    """The lines that have all of the words, each with the number of characters before it."""
    found: list[str] = []
    place = 0
    for line in text.split("\n") if words else ():
        plain = folded(line)
        if all(each in plain for each in words):
            found.append(f"at {place}: {one_line(line)}")
        place += len(line) + 1
    return found


def file_text(path: str | Path, description: str = "", *, name: str = "", refresh: str = "never") -> TextReference:
    """A reference to a text file. `refresh` is `never`, `always` or a time such as `10m`."""
    file = Path(path)

    async def read() -> str:
        return await to_thread.run_sync(Folder(file.parent, hidden=True).text, file.name)

    about = description or f"The file {file.name}"
    return TextReference(name or file.stem, about, str(path), read, RefreshPolicy.of(refresh))


def package_resource(resource: str, description: str = "", *, name: str = "") -> TextReference:
    """A reference to a file in an installed package: `package_resource("my_package:texts/rules.md")`."""
    package, _, path = resource.partition(":")

    async def read() -> str:
        return await to_thread.run_sync(_resource_text, package, path)

    about = description or f"{PurePosixPath(path).name} of the package {package}"
    return TextReference(name or PurePosixPath(path).stem or package, about, resource, read)


def web_page(
    url: str,
    description: str = "",
    *,
    name: str = "",
    refresh: str = "never",
    fetcher: WebFetcher | None = None,
) -> TextReference:
    """A reference to a web page, if it can be fetched and read; its notes say why when it cannot.

    Reading HTML needs goalport[ingest].
    """
    source = fetcher or WebFetcher()

    async def read() -> str:
        page = await source.fetch(url, media_types=_READABLE)
        if page.media_type not in _HTML:
            return page.text
        document = await to_thread.run_sync(read_html, page.text, url)
        return f"{document.title}\n\n{document.text}"

    parts = urlsplit(url)
    page_name = f"{parts.hostname or ''} {PurePosixPath(parts.path).stem}".strip()
    about = description or f"The web page {url}"
    return TextReference(name or one_line(page_name or "page", 40), about, url, read, RefreshPolicy.of(refresh))


def _resource_text(package: str, path: str) -> str:
    steps = PurePosixPath(path).parts
    if not steps or ".." in steps or path.startswith("/"):
        raise DocumentError(f"{package}:{path} is no file of a package. Write package:folder/file.md.")
    try:
        found = files(package).joinpath(*steps)
        return found.read_bytes()[:_LONGEST].decode("utf-8-sig", "replace")
    except (OSError, ImportError, TypeError, ValueError) as error:
        raise DocumentError(
            f"{package}:{path} cannot be read ({type(error).__name__}: {one_line(str(error))})."
        ) from error


_MOST_NAMES: Final = 300
_MOST_FOUND: Final = 60
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
        found = await to_thread.run_sync(lambda: tuple(islice(folder.lines_with(words, pattern), _MOST_FOUND + 1)))
        lines = [f"{each.path}:{each.number}: {each.text}" for each in found[:_MOST_FOUND]]
        if not lines:
            return f"No line has {words!r} in it. Search for fewer words."
        more = "\nThere are more lines; search for more words." if len(found) > _MOST_FOUND else ""
        return as_data("\n".join(lines), self.name) + more

    @tool(name="readFile", read_only=True)
    async def read_file(self, path: str, line: Annotated[int, Field(ge=1)] = 1) -> str:
        """Read a file of text, from a line on."""
        folder = await self.folder()
        lines = (await to_thread.run_sync(partial(folder.text, path))).split("\n")
        shown: list[str] = []
        left = _PAGE
        for each in lines[line - 1 :][:_LINES]:
            left -= len(each) + 1
            if left < 0 and shown:
                break
            shown.append(each)
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
