"""Repositories of GitHub as folders: fetched as an archive, pinned by commit and by the hash of their content.

The archive of a branch says which commit it has. That commit is pinned at the first fetch. Later fetches get the same
files, or an error if these have changed, until an update is requested. Below: `web` and `folder`. Above: references to
repositories, and skills.
"""

import json
import re
import shutil
import tarfile
import tempfile
import zlib
from contextlib import suppress
from dataclasses import dataclass, field, replace
from gzip import GzipFile
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import IO, Final, NamedTuple, Self, cast
from urllib.parse import quote, unquote, urlsplit

from anyio import to_thread

from goalport.base.errors import DocumentError
from goalport.base.files import replace_file
from goalport.base.words import one_line
from goalport.knowledge.documents.folder import Folder, FolderLimits
from goalport.knowledge.documents.web import WebFetcher, WebLimits

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_REF: Final = re.compile(r"(?!.*(?:\.\.|//|@\{|\\|[\x00-\x20~^:?*\[\x7f]))[^/.-][^\0]{0,199}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_NOT_ON_WINDOWS: Final = frozenset(':*?"<>|\\')
_MOST_ENTRIES: Final = 10_000_000
"""The most files and folders of a copy that are read: all that an archive may have."""
_MOVE_LOCK: Final = Lock()
"""Locked while a copy is moved to its place: several threads may have fetched the same repository at once."""


@dataclass(frozen=True, slots=True)
class GitHubPlace:
    """A repository with a branch, tag or commit of it, and a folder in it."""

    owner: str
    repository: str
    ref: str = "HEAD"
    """A branch, a tag or a commit; `HEAD` is the default branch."""
    path: str = ""
    """A folder of the repository; empty: all of it."""

    def __post_init__(self) -> None:
        for name in (self.owner, self.repository):
            if not _NAME.fullmatch(name):
                raise DocumentError(f"{one_line(name)!r} is no name of an owner or repository of GitHub.")
        if not _REF.fullmatch(self.ref):
            raise DocumentError(f"{one_line(self.ref)!r} is no name of a branch, tag or commit.")

    @classmethod
    def of_url(cls, url: str) -> Self:
        """The place of a URL, such as `https://github.com/owner/repository/tree/main/skills`.

        The branch is the part after `tree` or `blob`, up to the next slash; for a branch with slashes in its name, pass
        `ref` instead. Raises `DocumentError` for a URL of anything else.
        """
        parts = urlsplit(url.strip().removeprefix("git+"))
        steps = [unquote(each) for each in parts.path.strip("/").split("/")]
        if parts.scheme not in {"http", "https"} or not parts.hostname or len(steps) < 2:  # noqa: PLR2004 - owner and name
            raise DocumentError(
                f"{one_line(url)!r} is no repository. Write https://github.com/OWNER/REPOSITORY, "
                "or https://github.com/OWNER/REPOSITORY/tree/BRANCH/FOLDER."
            )
        owner, repository, *rest = steps
        place = cls(owner, repository.removesuffix(".git"))
        match rest:
            case []:
                return place
            case ["tree" | "blob", ref, *path]:
                last = path[-1:] == ["SKILL.md"]
                return replace(place, ref=ref, path="/".join(path[:-1] if last else path))
            case _:
                raise DocumentError(f"{one_line(url)!r} is no repository, nor a folder of one: /tree/BRANCH/FOLDER.")

    def __str__(self) -> str:
        return f"{self.owner}/{self.repository}@{self.ref}"


@dataclass(frozen=True, slots=True)
class ArchiveLimits:
    """Limits for an archive."""

    files: int = 30_000
    """The number of files and folders."""
    file_bytes: int = 50_000_000
    total_bytes: int = 300_000_000
    """Bytes of the decompressed archive, which has about a thousand bytes more for each file."""


@dataclass(frozen=True, slots=True)
class GitHubCopy:
    """The files of a repository as they were at one commit."""

    place: GitHubPlace
    commit: str
    content_hash: str
    """`sha256:` and the hash of all paths and contents."""
    folder: Path
    """The local folder for the path of the place."""


class _Pin(NamedTuple):
    commit: str
    content_hash: str


@dataclass(frozen=True, slots=True)
class GitHubArchives:
    """Copies of repositories in a folder: `await GitHubArchives(folder).get(GitHubPlace("octocat", "Hello-World"))`."""

    folder: Path = Path(".goalport") / "github"
    """Where copies and pins are stored."""
    fetcher: WebFetcher = field(default_factory=lambda: WebFetcher(limits=WebLimits(100_000_000, seconds=120)))
    base: str = "https://github.com"
    """The address of GitHub, or of a server with the same addresses of archives, such as GitHub Enterprise."""
    limits: ArchiveLimits = ArchiveLimits()

    async def get(self, place: GitHubPlace, *, update: bool = False, expected: str = "") -> GitHubCopy:
        """The repository at the pinned commit, fetched if there is no copy yet.

        `update`: fetch and pin the latest commit of the branch. `expected` is the commit or content hash that the
        repository must have. Raises `DocumentError`, also if the content differs from the pinned one.
        """
        pin = None if update else await to_thread.run_sync(self._pinned, place)
        if pin is not None and await to_thread.run_sync(self._is_kept, place, pin):
            return _copy(place, pin, self._files(place, pin.commit), expected)
        ref = quote(place.ref if pin is None else pin.commit)
        page = await self.fetcher.fetch(f"{self.base}/{place.owner}/{place.repository}/archive/{ref}.tar.gz")
        return await to_thread.run_sync(self._unpack_and_pin, place, page.content, pin, expected)

    def _unpack_and_pin(self, place: GitHubPlace, data: bytes, pin: _Pin | None, expected: str) -> GitHubCopy:
        """Unpack an archive, check it, and only then store and pin it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".new-") as made:
            files = Path(made) / "files"
            found = _unpacked(place, data, files, self.limits)
            if _COMMIT.fullmatch(place.ref) and found.commit != place.ref:
                raise DocumentError(f"The archive of {place} holds the commit {found.commit}, which was not asked for.")
            if pin is not None and found != pin:
                raise DocumentError(
                    f"{place} is not what was pinned: {found.commit} with {found.content_hash}, not {pin.commit} with "
                    f"{pin.content_hash}. Look at it, and update the pin where the new content is wanted."
                )
            _copy(place, found, files, expected)
            kept = self._files(place, found.commit)
            kept.parent.mkdir(parents=True, exist_ok=True)
            with _MOVE_LOCK:
                if not self._is_kept(place, found):
                    shutil.rmtree(kept, ignore_errors=True)
                    try:
                        files.replace(kept)
                    except OSError:
                        if not self._is_kept(place, found):  # no other program has moved a copy there meanwhile
                            raise
        pinned = {"ref": place.ref, "commit": found.commit, "hash": found.content_hash}
        replace_file(self._pin_file(place), json.dumps(pinned, indent=2))
        return _copy(place, found, kept, expected)

    def _is_kept(self, place: GitHubPlace, pin: _Pin) -> bool:
        """Whether there is a copy, and it has not been changed."""
        with suppress(DocumentError):
            return _folder(self._files(place, pin.commit), self.limits).content_hash() == pin.content_hash
        return False

    def _files(self, place: GitHubPlace, name: str) -> Path:
        return self.folder / place.owner.lower() / place.repository.lower() / name

    def _pin_file(self, place: GitHubPlace) -> Path:
        """One file for each branch, so that programs that pin different branches at once do not conflict."""
        return self._files(place, f"pin-{sha256(place.ref.encode()).hexdigest()[:16]}.json")

    def _pinned(self, place: GitHubPlace) -> _Pin | None:
        path = self._pin_file(place)
        try:
            found = cast("dict[str, str]", json.loads(path.read_text("utf-8")))
            return _Pin(found["commit"], found["hash"])
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise DocumentError(
                f"The pin of {place} in {path} cannot be read ({type(error).__name__}). Remove the file to pin it anew."
            ) from error


def _folder(root: Path, limits: ArchiveLimits) -> Folder:
    return Folder(root, FolderLimits(entries=_MOST_ENTRIES, file_bytes=limits.file_bytes), hidden=True)


def _copy(place: GitHubPlace, pin: _Pin, files: Path, expected: str) -> GitHubCopy:
    """The copy in a folder. Raises `DocumentError` if it is not the expected one, or lacks the folder of the place."""
    steps = PurePosixPath(place.path).parts
    folder = files.joinpath(*steps)
    if ".." in steps or place.path.startswith("/") or not folder.is_dir():
        raise DocumentError(f"There is no folder {one_line(place.path)!r} in {place}.")
    if expected and expected not in pin:
        raise DocumentError(
            f"{place} is at the commit {pin.commit} with the content {pin.content_hash}, not at {expected}."
        )
    return GitHubCopy(place, *pin, folder)


class _Unzipped(BytesIO):
    """Decompresses while it is read. Raises `DocumentError` after `most` bytes: a small archive may become huge."""

    def __init__(self, data: bytes, most: int) -> None:
        super().__init__()
        self._file = GzipFile(fileobj=BytesIO(data))
        self._left = most

    def read(self, size: int | None = -1) -> bytes:
        found = self._file.read(size)
        self._left -= len(found)
        if self._left < 0:
            raise DocumentError("Unpacked, it has more bytes than are allowed.")
        return found


def _unpacked(place: GitHubPlace, data: bytes, target: Path, limits: ArchiveLimits) -> _Pin:
    """Unpack an archive. Returns its commit and the hash of its content."""
    try:
        with tarfile.open(fileobj=_Unzipped(data, limits.total_bytes), mode="r|") as archive:
            commit = _extracted(archive, target, limits)
        return _Pin(commit, _folder(target, limits).content_hash())
    except (OSError, EOFError, zlib.error, tarfile.TarError, ValueError) as error:
        why = one_line(str(error)).rstrip(".")
        raise DocumentError(f"The archive of {place} cannot be unpacked: {why}.") from error
    except DocumentError as error:
        raise DocumentError(f"The archive of {place} is not taken: {error}") from error


def _extracted(archive: tarfile.TarFile, target: Path, limits: ArchiveLimits) -> str:
    """Write the files, without the archive's top folder. Returns the commit of the archive.

    Links are skipped, since they could lead out of the folder. Python 3.11.2, which Debian 12 has, lacks the filters
    of `tarfile`.
    """
    commit = archive.pax_headers.get("comment", "")
    if not _COMMIT.fullmatch(commit):
        raise DocumentError("It does not say which commit it holds.")
    target.mkdir()
    for number, member in enumerate(archive, start=1):
        name = member.name.partition("/")[2]
        if number > limits.files:
            raise DocumentError(f"It has more than {limits.files} files.")
        if not member.isreg() or member.issparse() or not name.isprintable() or _NOT_ON_WINDOWS & set(name):
            continue
        path = PurePosixPath(name)
        if path.is_absolute() or ".." in path.parts:
            raise DocumentError(f"It has a file with the name {one_line(name)!r}.")
        if member.size > limits.file_bytes:
            raise DocumentError(f"{one_line(name)!r} has more than {limits.file_bytes} bytes.")
        file = target.joinpath(*path.parts)
        file.parent.mkdir(parents=True, exist_ok=True)
        with cast("IO[bytes]", archive.extractfile(member)) as content, file.open("xb") as written:
            shutil.copyfileobj(content, written)
    return commit
