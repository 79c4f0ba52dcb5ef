"""The kinds of files in which clients keep their configuration, each read and written by a library that keeps comments.

JSON is the exception: none that is well kept does, so a file with comments is refused rather than rewritten. The
libraries are imported when a file of their kind is met. Below `merging`, above nothing but errors.
"""

import io
import json
import os
import tempfile
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import Any, Final, NoReturn, cast

from goalport.errors import GoalportError

Content = MutableMapping[str, Any]


class FileFormat(ABC):
    """A kind of file: text into a mapping that remembers how it was written, and back."""

    name: str

    def empty(self) -> Content:
        """The content of a file that says nothing."""
        return {}

    @abstractmethod
    def read(self, text: str) -> Content:
        """What a file says. Raises `ValueError`; its message says what is wrong."""

    @abstractmethod
    def write(self, content: Content, before: str) -> str:
        """The file with this content, in the manner of the text that it held before."""

    @abstractmethod
    def plain(self, text: str) -> object:
        """What a file says, read by other means: the proof that nothing is lost."""


class _Json(FileFormat):
    name = "strict JSON"

    def read(self, text: str) -> Content:
        return mapping(self.plain(text))

    def write(self, content: Content, before: str) -> str:
        return json.dumps(content, indent=_indent(before), ensure_ascii=False) + "\n"

    def plain(self, text: str) -> object:
        return json.loads(text, object_pairs_hook=_once, parse_constant=_no_number)


class _Toml(FileFormat):
    name = "TOML"

    def empty(self) -> Content:
        return self.read("")

    def read(self, text: str) -> Content:
        import tomlkit

        return tomlkit.parse(text)

    def write(self, content: Content, before: str) -> str:
        import tomlkit

        return tomlkit.dumps(content)

    def plain(self, text: str) -> object:
        return tomllib.loads(text)


class _Yaml(FileFormat):
    name = "YAML"

    def read(self, text: str) -> Content:
        return mapping(_loaded(self._round_trip(text), text))

    def write(self, content: Content, before: str) -> str:
        written = io.StringIO()
        self._round_trip(before).dump(content, written)
        return written.getvalue()

    def plain(self, text: str) -> object:
        from ruamel.yaml import YAML as Loader  # noqa: N811 - it is the library's class

        return _loaded(Loader(typ="safe", pure=True), text)

    @staticmethod
    def _round_trip(before: str) -> Any:
        from ruamel.yaml import (
            YAML as Loader,  # noqa: N811 - it is the library's class
            util,
        )

        yaml: Any = Loader()
        yaml.preserve_quotes = True
        yaml.width = 1_000_000
        if before.strip():
            guess: Any = util.load_yaml_guess_indent  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            _, indent, offset = cast("tuple[object, int | None, int | None]", guess(before))
            yaml.indent(mapping=2 if offset else indent or 2, sequence=indent or 2, offset=offset or 0)
        return yaml


JSON: Final[FileFormat] = _Json()
TOML: Final[FileFormat] = _Toml()
YAML: Final[FileFormat] = _Yaml()


def _loaded(yaml: Any, text: str) -> object:
    from ruamel.yaml import YAMLError

    try:
        return yaml.load(text)
    except YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error


def mapping(value: object, where: str = "the file") -> Content:
    """The value, if it is a mapping; raises `NoMapping`, a `ValueError`."""
    if not isinstance(value, MutableMapping):
        raise NoMapping(where, type(value).__name__)
    return cast("Content", value)


class NoMapping(ValueError):
    """Something that should hold names and values holds something else."""

    def __init__(self, where: str, came: str) -> None:
        super().__init__(f"{where} was expected to hold names and values, not a {came}")


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"a key is there twice: {next(key for key in keys if keys.count(key) > 1)!r}")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _indent(text: str) -> str:
    for line in text.splitlines():
        margin = line[: len(line) - len(line.lstrip(" \t"))]
        if margin and line.strip():
            return margin
    return "  "


REACHING = frozenset({"args", "cmd", "command", "httpUrl", "serverUrl", "transport", "type", "uri", "url"})
"""The keys that say how to reach a server. They are replaced; env, headers, lists of tools and the like stay."""
_MARK = "\ufeff"


class Unmergeable(GoalportError):
    """A file that cannot be rewritten without the risk of losing something."""


@dataclass(frozen=True)
class Change:
    """What a file holds and what it would hold."""

    path: Path
    before: str | None
    """None: there is no such file."""
    after: str

    @property
    def is_nothing(self) -> bool:
        return self.before == self.after

    def difference(self) -> Iterator[str]:
        old = (self.before or "").splitlines(keepends=True)
        return unified_diff(old, self.after.splitlines(keepends=True), f"{self.path} (now)", f"{self.path} (then)")

    def apply(self) -> Path | None:
        """Write the file; the answer is where the old one is kept."""
        # A link is written through: the file may live in a repository of dot files.
        path = self.path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        if _read(path) != self.before:
            raise Unmergeable(f"{path} has changed in the meantime; run the command again.")
        kept = None if self.before is None else _kept(path, self.before)
        _replace(path, self.after)
        return kept


def merged(path: Path, kind: FileFormat, section: Sequence[str], name: str, entry: Mapping[str, object]) -> Change:
    """The change that puts an entry under a name into a section of the file."""
    before = _read(path)
    text = (before or "").removeprefix(_MARK).replace("\r\n", "\n")
    try:
        after = put(text, kind, (*section, name), entry)
    except NoMapping as error:
        raise Unmergeable(f"{path}: {error}. Add the entry by hand.") from error
    except ValueError as error:
        raise Unmergeable(
            f"{path} is not {kind.name} ({error}); a rewrite might lose something. Add the entry by hand."
        ) from error
    if before is not None and after == text:
        return Change(path, before, before)
    after = after.replace("\n", "\r\n") if "\r\n" in (before or "") else after
    return Change(path, before, f"{_MARK}{after}" if (before or "").startswith(_MARK) else after)


def put(text: str, kind: FileFormat, place: Sequence[str], entry: Mapping[str, object]) -> str:
    """The text of a file with the entry at its place; the same text where it says so already.

    How the server is reached is replaced, what else somebody has set stays. Raises `ValueError` for a text that cannot
    be changed without the risk of losing something.
    """
    before: object = kind.plain(text) if text.strip() else dict[str, object]()
    content = kind.read(text) if text.strip() else kind.empty()
    known = content
    for key in place:
        if key not in known:
            known[key] = {}
        known = mapping(known[key], repr(key))
    was = dict(known)
    for key in REACHING - entry.keys():
        known.pop(key, None)
    for key in entry:
        if key in REACHING or key not in known:
            known[key] = entry[key]
    if text.strip() and dict(known) == was:
        return text
    after = kind.write(content, text)
    if kind.plain(after) != _expected(before, place, dict(known)):
        raise ValueError("what would be written does not say the same")
    return after


def _expected(before: object, place: Sequence[str], entry: Mapping[str, object]) -> object:
    """What a file says once the entry is there."""
    if not place:
        return entry
    known = mapping(before)
    return {**known, place[0]: _expected(known.get(place[0], {}), place[1:], entry)}


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise Unmergeable(f"{path} is not UTF-8 text; save it as UTF-8, or add the entry by hand.") from error


def _kept(path: Path, text: str) -> Path:
    """The old text under the first name that is free: an earlier copy is not overwritten either."""
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in count())
    kept = next(name for name in names if not name.exists())
    with kept.open("xb") as file:
        # Before a byte is in it: a client's file may hold secrets, and its owner may have closed it to others.
        kept.chmod(path.stat().st_mode)
        file.write(text.encode("utf-8"))
    return kept


def _replace(path: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            fresh.chmod(path.stat().st_mode)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
