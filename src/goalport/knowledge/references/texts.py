"""References to texts: a file, a resource of a package, a web page, a folder, and a repository of GitHub as a folder.

The notes contain a short text whole, and the beginning of a long one; tools read and search the rest.
"""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.resources import files
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Annotated, Final
from urllib.parse import urlsplit

from anyio import to_thread
from pydantic import Field

from goalport.base.errors import DocumentError
from goalport.base.words import cleaned, folded, one_line
from goalport.knowledge.documents import (
    Folder,
    GitHubArchives,
    GitHubCopy,
    GitHubPlace,
    WebFetcher,
    read_html,
)
from goalport.knowledge.documents.refresh import RefreshedSource, RefreshPolicy
from goalport.knowledge.references.reference import UsageNotes
from goalport.models.prompts import as_data
from goalport.tools import Tool, tool

_SHOWN: Final = 8_000
"""Characters of a text that the notes contain."""
_PAGE: Final = 16_000
"""Characters that one call of a tool reads."""
_LONGEST: Final = 5_000_000
"""Characters of a text that are kept."""
_MOST_LINES: Final = 40
_LINES: Final = 400
"""Lines of a file that one call of a tool reads."""
_MOST_NAMES: Final = 300
_MOST_FOUND: Final = 60
_READABLE: Final = ("text/", "application/xhtml+xml", "application/json", "application/xml")
_HTML: Final = frozenset({"text/html", "application/xhtml+xml"})
_ADVICE: Final = "List, find, search and read its files with its tools before you answer from them."


def _notes(*parts: str) -> str:
    return "\n".join(filter(None, parts))


@dataclass(frozen=True, slots=True, eq=False)
class TextReference(UsageNotes):
    """A reference to a text from a file, package or web page: see `file_text`, `package_resource` and `web_page`."""

    name: str
    description: str
    source: str
    """The origin of the text, as a model reads it."""
    read_source: Callable[[], Awaitable[str]] = field(repr=False)
    policy: RefreshPolicy = field(default_factory=RefreshPolicy)
    usage_notes: str = ""
    """What a model should know to use it."""
    _source: RefreshedSource[str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        async def read() -> str:
            return await to_thread.run_sync(cleaned, await self.read_source(), _LONGEST)

        object.__setattr__(self, "_source", RefreshedSource(self.name, self.policy, read))

    async def refresh(self) -> None:
        """Read the text if it is due. If that fails, the text of the last successful read stays."""
        await self._source.refresh()

    def notes(self) -> str:
        text, failure = self._source.value, self._source.failure
        if not text:
            unread = "It has not been read yet. Its tool `read` reads it."
            return _notes(self.usage_notes, failure or (unread if text is None else f"{self.source} is empty."))
        more = f"This is the beginning of {len(text)} characters. Its tools read and search the rest."
        return _notes(self.usage_notes, as_data(text[:_SHOWN], self.source), more if len(text) > _SHOWN else "")

    def tools(self) -> Sequence[Tool]:
        """Tools to read and search the text; none if the notes contain all of it and it is not read again."""
        is_shown = 0 < len(self._source.value or "") <= _SHOWN and self.policy.seconds is None
        return () if is_shown else Tool.from_instance(self)

    @tool(read_only=True)
    async def read(self, start: Annotated[int, Field(ge=0)] = 0) -> str:
        """Read the text, from a number of characters after its beginning on."""
        text = await self._text()
        if start >= len(text):
            return f"The text has {len(text)} characters; there is nothing after {start}."
        end = min(start + _PAGE, len(text))
        more = f"\nGo on with start={end}; the text has {len(text)} characters." if end < len(text) else ""
        return as_data(text[start:end], self.source) + more

    @tool(read_only=True)
    async def search(self, words: str) -> str:
        """Find the lines of the text that have all of these words in them."""
        text, wanted, found = await self._text(), folded(words).split(), list[str]()

        def look() -> None:
            place = 0
            for line in text.split("\n") if wanted else ():
                plain = folded(line)
                if all(each in plain for each in wanted):
                    found.append(f"at {place}: {one_line(line)}")
                place += len(line) + 1

        await to_thread.run_sync(look)
        if not found:
            return f"No line has {words!r} in it. Search for fewer words, or read the text."
        more = f"\nThere are {len(found) - _MOST_LINES} more." if len(found) > _MOST_LINES else ""
        return as_data("\n".join(found[:_MOST_LINES]), self.source) + more

    async def _text(self) -> str:
        if text := await self._source.get():
            return text
        raise DocumentError(f"{self.source} is empty.")


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
    file = PurePosixPath(path)

    def content() -> str:
        if not file.parts or ".." in file.parts or file.is_absolute():
            raise DocumentError(f"{resource} is no file of a package. Write package:folder/file.md.")
        try:
            return files(package).joinpath(*file.parts).read_bytes()[:_LONGEST].decode("utf-8-sig", "replace")
        except (OSError, ImportError, TypeError, ValueError) as error:
            why = f"{type(error).__name__}: {one_line(str(error))}"
            raise DocumentError(f"{resource} cannot be read ({why}).") from error

    about = description or f"{file.name} of the package {package}"
    return TextReference(name or file.stem or package, about, resource, partial(to_thread.run_sync, content))


def web_page(
    url: str,
    description: str = "",
    *,
    name: str = "",
    refresh: str = "never",
    fetcher: WebFetcher | None = None,
) -> TextReference:
    """A reference to a web page. If the page cannot be fetched or read, the notes say why.

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


@dataclass(frozen=True, slots=True)
class LocalDirectory(UsageNotes):
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

    def notes(self) -> str:
        return _notes(self.usage_notes, _ADVICE)

    def tools(self) -> Sequence[Tool]:
        return Tool.from_instance(_FileTools(self.name, self._folder))

    async def _folder(self) -> Folder:
        root = Path(self.path)
        if not await to_thread.run_sync(root.is_dir):
            raise DocumentError(f"The folder of {self.name!r} is not there: {self.path}. Nothing of it can be read.")
        return Folder(root)


@dataclass(frozen=True, slots=True, eq=False)
class GitHubRepository(UsageNotes):
    """A reference to a repository: `GitHubRepository("https://github.com/embabel/embabel-agent-examples.git", "…")`.

    It is fetched as an archive and pinned to a commit. With a policy other than never, newer commits are fetched.
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
    _source: RefreshedSource[GitHubCopy] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        place = GitHubPlace.of_url(self.url)
        place = replace(place, ref=self.ref) if self.ref else place
        object.__setattr__(self, "place", place)
        object.__setattr__(self, "name", self.name or place.repository)
        fetch = partial(self.archives.get, place, update=self.policy.seconds is not None)
        object.__setattr__(self, "_source", RefreshedSource(self.name, self.policy, fetch))

    async def refresh(self) -> None:
        """Fetch the repository if there is no copy yet, or if the policy says to look for newer commits."""
        await self._source.refresh()

    def notes(self) -> str:
        copy, failure = self._source.value, self._source.failure
        if copy is None and failure:
            return _notes(self.usage_notes, failure)
        commit = "" if copy is None else f" at the commit {copy.commit}"
        return _notes(self.usage_notes, f"It is the repository {self.place}{commit}. {_ADVICE}")

    def tools(self) -> Sequence[Tool]:
        return Tool.from_instance(_FileTools(self.name, self._folder))

    async def _folder(self) -> Folder:
        return Folder((await self._source.get()).folder)


@dataclass(frozen=True, slots=True)
class _FileTools:
    """The tools of a reference to files."""

    name: str
    folder: Callable[[], Awaitable[Folder]]

    @tool(name="listFiles", read_only=True)
    async def list_files(self, path: str = "") -> str:
        """List the names in a folder; those of folders end with a slash. Without a path: at the top."""
        names = await to_thread.run_sync((await self.folder()).names, path)
        return self._listed(names, _MOST_NAMES, "The folder is empty.", "There are more; narrow it down.")

    @tool(name="findFiles", read_only=True)
    async def find_files(self, pattern: str) -> str:
        """List the paths of files in all folders that match a pattern, such as *.csv or docs/*.md."""
        folder = await self.folder()
        found = await to_thread.run_sync(lambda: tuple(islice(folder.files(pattern), _MOST_NAMES + 1)))
        return self._listed(found, _MOST_NAMES, f"No file matches {pattern!r}.", "There are more; narrow it down.")

    @tool(name="searchFiles", read_only=True)
    async def search_files(self, words: str, pattern: str = "*") -> str:
        """Find the lines that have all of these words in them, in the files that match a pattern such as *.csv."""
        folder = await self.folder()
        found = await to_thread.run_sync(lambda: tuple(islice(folder.lines_with(words, pattern), _MOST_FOUND + 1)))
        lines = [f"{each.path}:{each.number}: {each.text}" for each in found]
        none = f"No line has {words!r} in it. Search for fewer words."
        return self._listed(lines, _MOST_FOUND, none, "There are more lines; search for more words.")

    @tool(name="readFile", read_only=True)
    async def read_file(self, path: str, line: Annotated[int, Field(ge=1)] = 1) -> str:
        """Read a file of text, from a line on."""
        lines = (await to_thread.run_sync((await self.folder()).text, path)).split("\n")
        shown, left = list[str](), _PAGE
        for each in lines[line - 1 :][:_LINES]:
            left -= len(each) + 1
            if left < 0 and shown:
                break
            shown.append(each)
        if not shown:
            return f"The file has {len(lines)} lines; there is nothing from line {line} on."
        following = line + len(shown)
        more = f"\nGo on with line={following}; it has {len(lines)} lines." if following <= len(lines) else ""
        return as_data("\n".join(shown)[:_PAGE], f"{self.name}/{path}") + more

    def _listed(self, lines: Sequence[str], most: int, none: str, more: str) -> str:
        if not lines:
            return none
        return as_data("\n".join(lines[:most]), self.name) + (f"\n{more}" if len(lines) > most else "")
