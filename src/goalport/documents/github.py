"""Repositories of GitHub as folders: fetched as an archive, pinned by commit and by the hash of their content.

The archive of a branch says which commit it holds. That commit is pinned at the first fetch: later ones get the same
files, or an error when they have changed, until an update is asked for. Below: `web` and `folder`. Above: references to
repositories, and skills.
"""

import json
import os
import re
import shutil
import stat
import struct
import tempfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from io import BytesIO
from pathlib import Path, PurePosixPath
from threading import Lock
from typing import Final, Self, cast
from urllib.parse import quote, unquote, urlsplit

from anyio import to_thread

from goalport.documents.web import WebFetcher, WebLimits
from goalport.errors import DocumentError
from goalport.words import one_line

__all__ = ["ArchiveLimits", "GitHubArchives", "GitHubCopy", "GitHubPlace"]

_NAME: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9_-])?")
_REF: Final = re.compile(r"(?!.*(?:\.\.|//|@\{|\\|[\x00-\x20~^:?*\[\x7f]))[^/.-][^\0]{0,199}")
_COMMIT: Final = re.compile(r"[0-9a-f]{40}")
_PIECE: Final = 65_536
_ENCRYPTED: Final = 1
_LONGEST_PATH: Final = 400
_DAMAGED: Final = (
    zipfile.BadZipFile,
    zlib.error,
    struct.error,
    NotImplementedError,
    EOFError,
    RuntimeError,
    ValueError,
)
"""What the standard library raises for archives that are damaged, or made to do damage."""
_METHODS: Final = frozenset({zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED})
_ENTRY_BYTES: Final = 512
"""Bytes of the list of files for each file, at most on average."""
_LOCATOR: Final = 20
"""Bytes before the end record, where archives with more than 65,535 files tell of another one."""
_NOT_ON_WINDOWS: Final = frozenset(':*?"<>|')
_KEEPING: Final = Lock()
"""Held while a copy is put in its place: several may have fetched the same at the same time."""


@dataclass(frozen=True, slots=True)
class GitHubPlace:
    """A repository, the branch, tag or commit that is wanted of it, and a folder in it."""

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

        The part after `tree` or `blob` is taken for the branch up to the next slash; give a branch with slashes in its
        name as `ref`. Raises `DocumentError` for a URL of anything else.
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
    """What an archive may hold."""

    files: int = 20_000
    file_bytes: int = 50_000_000
    total_bytes: int = 300_000_000


@dataclass(frozen=True, slots=True)
class GitHubCopy:
    """The files of a repository as they were at one commit."""

    place: GitHubPlace
    commit: str
    content_hash: str
    """`sha256:` and the hash of all paths and contents."""
    folder: Path
    """The folder that the place names, on this machine."""


@dataclass(frozen=True, slots=True)
class GitHubArchives:
    """Copies of repositories in a folder: `await GitHubArchives(folder).get(GitHubPlace("octocat", "Hello-World"))`."""

    folder: Path = Path(".goalport") / "github"
    """Where copies and the file of pins are kept."""
    fetcher: WebFetcher = field(default_factory=lambda: WebFetcher(limits=WebLimits(100_000_000, seconds=120)))
    base: str = "https://github.com"
    """The address of GitHub, or of a server with the same addresses of archives, such as GitHub Enterprise."""
    limits: ArchiveLimits = ArchiveLimits()

    async def get(self, place: GitHubPlace, *, update: bool = False, expected: str = "") -> GitHubCopy:
        """The repository at the commit that is pinned, fetched where it is not here yet.

        `update` pins what the branch leads to now. `expected` is a commit, or a hash of the content, that it has to
        have. Raises `DocumentError`, also when the content is another than the pinned one.
        """
        pin = None if update else await to_thread.run_sync(self._pinned, place)
        if pin is not None and (found := await to_thread.run_sync(self._kept, place, pin)) is not None:
            return _as_expected(found, expected)
        wanted = place.ref if pin is None else pin.commit
        data = await self._fetched(place, wanted)
        return await to_thread.run_sync(self._take, place, data, pin, expected)

    async def _fetched(self, place: GitHubPlace, ref: str) -> bytes:
        url = f"{self.base}/{place.owner}/{place.repository}/archive/{quote(ref)}.zip"
        return (await self.fetcher.fetch(url)).content

    def _take(self, place: GitHubPlace, data: bytes, pin: "_Pin | None", expected: str) -> GitHubCopy:
        """Unpack an archive, check it, and only then keep it."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=self.folder, prefix=".new-") as made:
            files = Path(made) / "files"
            found = _unpacked(place, data, files, self.limits)
            if _COMMIT.fullmatch(place.ref) and found.commit != place.ref:
                raise DocumentError(f"The archive of {place} holds the commit {found.commit}, which was not asked for.")
            if pin is not None and found != pin:
                raise _changed(place, found, pin)
            _as_expected(self._copy(place, found, files), expected)
            self._keep(place, found, files)
        self._pin(place, found)
        return self._copy(place, found, self._files(place, found.commit))

    def _keep(self, place: GitHubPlace, found: "_Pin", files: Path) -> None:
        """Move unpacked files to where copies are kept, unless the same are there."""
        kept = self._files(place, found.commit)
        kept.parent.mkdir(parents=True, exist_ok=True)
        with _KEEPING:
            if self._kept(place, found) is not None:
                return
            shutil.rmtree(kept, ignore_errors=True)
            try:
                files.replace(kept)
            except OSError:
                if self._kept(place, found) is None:  # another program has not been faster
                    raise

    def _kept(self, place: GitHubPlace, pin: "_Pin") -> GitHubCopy | None:
        """The copy that is here, unless somebody has changed it since."""
        files = self._files(place, pin.commit)
        if not files.is_dir() or _hash_of(files) != pin.content_hash:
            return None
        return self._copy(place, pin, files)

    def _copy(self, place: GitHubPlace, pin: "_Pin", files: Path) -> GitHubCopy:
        steps = PurePosixPath(place.path).parts
        folder = files.joinpath(*steps)
        if ".." in steps or place.path.startswith("/") or not folder.is_dir():
            raise DocumentError(f"There is no folder {one_line(place.path)!r} in {place}.")
        return GitHubCopy(place, pin.commit, pin.content_hash, folder)

    def _files(self, place: GitHubPlace, commit: str) -> Path:
        return self.folder / place.owner.lower() / place.repository.lower() / commit

    def _pinned(self, place: GitHubPlace) -> "_Pin | None":
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

    def _pin(self, place: GitHubPlace, pin: "_Pin") -> None:
        path = self._pin_file(place)
        handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump({"ref": place.ref, "commit": pin.commit, "hash": pin.content_hash}, file, indent=2)
        Path(name).replace(path)

    def _pin_file(self, place: GitHubPlace) -> Path:
        """Each branch has a file of its own, so that programs that pin several at a time do not disturb each other."""
        return self._files(place, f"pin-{sha256(place.ref.encode()).hexdigest()[:16]}.json")


@dataclass(frozen=True, slots=True)
class _Pin:
    commit: str
    content_hash: str


def _as_expected(copy: GitHubCopy, expected: str) -> GitHubCopy:
    if expected and expected not in {copy.commit, copy.content_hash}:
        raise DocumentError(
            f"{copy.place} is at the commit {copy.commit} with the content {copy.content_hash}, not at {expected}."
        )
    return copy


def _changed(place: GitHubPlace, found: _Pin, pin: _Pin) -> DocumentError:
    return DocumentError(
        f"{place} is not what was pinned: {found.commit} with {found.content_hash}, not {pin.commit} with "
        f"{pin.content_hash}. Look at it, and update the pin where the new content is wanted."
    )


def _unpacked(place: GitHubPlace, data: bytes, target: Path, limits: ArchiveLimits) -> _Pin:
    """Unpack an archive; what it can be pinned by."""
    try:
        _check_size(data, limits)
        with zipfile.ZipFile(BytesIO(data)) as archive:
            commit = _commit_of(archive)
            target.mkdir()
            _extract(archive, target, limits)
        return _Pin(commit, _hash_of(target))
    except (OSError, *_DAMAGED) as error:
        raise DocumentError(
            f"The archive of {place} cannot be unpacked: {one_line(str(error)).rstrip('.')}."
        ) from error
    except DocumentError as error:
        raise DocumentError(f"The archive of {place} is not taken: {error}") from error


def _check_size(data: bytes, limits: ArchiveLimits) -> None:
    """Refuse an archive with a list of files that is too long, before the list is read."""
    end = data.rfind(b"PK\5\6")
    found = struct.unpack_from("<4s4H2LH", data, end) if end >= 0 else ()
    large = end >= _LOCATOR and data.startswith(b"PK\6\7", end - _LOCATOR)
    if large or (found and found[5] > limits.files * _ENTRY_BYTES):
        raise DocumentError(f"It has more than {limits.files} files.")


def _commit_of(archive: zipfile.ZipFile) -> str:
    commit = archive.comment.decode("ascii", "replace").strip()
    if not _COMMIT.fullmatch(commit):
        raise DocumentError("It does not say which commit it holds.")
    return commit


def _extract(archive: zipfile.ZipFile, target: Path, limits: ArchiveLimits) -> None:
    """Write the files, without the folder in which archives have them all. Links are left out: they could lead out."""
    left = limits.total_bytes
    count = 0
    for info in archive.infolist():
        path = _path_of(info)
        if path is None:
            continue
        count += 1
        if count > limits.files:
            raise DocumentError(f"It has more than {limits.files} files.")
        file = target.joinpath(*path.parts)
        file.parent.mkdir(parents=True, exist_ok=True)
        left -= _written(archive, info, file, min(limits.file_bytes, left))


def _written(archive: zipfile.ZipFile, info: zipfile.ZipInfo, file: Path, most: int) -> int:
    """Write one file; the number of its bytes, counted as they come, since an archive can lie about them."""
    written = 0
    with archive.open(info) as source, file.open("xb") as target:
        while piece := source.read(_PIECE):
            written += len(piece)
            if written > most:
                raise DocumentError(f"It is larger than allowed: {one_line(info.filename)} has more than {most} bytes.")
            target.write(piece)
    return written


def _path_of(info: zipfile.ZipInfo) -> PurePosixPath | None:
    """Where a file belongs; None for folders, links, and names that not every system can have."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if info.is_dir() or kind not in {0, stat.S_IFREG}:
        return None
    name = info.filename
    _, *steps = name.split("/")
    if not steps or len(name) > _LONGEST_PATH or "\\" in name or {"", ".", ".."} & set(steps) or name.startswith("/"):
        raise DocumentError(f"It has a file with the name {one_line(name)!r}.")
    if info.flag_bits & _ENCRYPTED or info.compress_type not in _METHODS:
        raise DocumentError(f"{one_line(name)!r} is encrypted, or compressed in another way than those of GitHub.")
    return PurePosixPath(*steps) if name.isprintable() and not _NOT_ON_WINDOWS & set(name) else None


def _hash_of(folder: Path) -> str:
    """The hash of all paths and contents in a folder."""
    whole = sha256()
    for path in sorted(_paths(folder)):
        content = sha256((folder / path).read_bytes()).hexdigest()
        whole.update(f"{path}\0{content}\n".encode("utf-8", "surrogatepass"))
    return f"sha256:{whole.hexdigest()}"


def _paths(folder: Path) -> Iterator[str]:
    for place, _, names in os.walk(folder):
        for name in names:
            yield (Path(place) / name).relative_to(folder).as_posix()
