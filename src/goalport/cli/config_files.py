"""The formats of clients' configuration files, each read and written by a library that preserves comments.

JSON is the exception: no maintained library preserves its comments, so a file with comments is refused, not rewritten.
Libraries are imported when a file of their format is used. Above: `clients` and `connect`; below: only the errors.
"""

import io
import json
import os
import stat
import tempfile
import tomllib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

from goalport.base.errors import GoalportError
from goalport.base.strict_json import read_json

Content = MutableMapping[str, Any]


class FileFormat(ABC):
    """A file format: parses a text into a mapping that preserves formatting, and writes it back."""

    name: str

    def empty(self) -> Content:
        """The content of an empty file."""
        return {}

    @abstractmethod
    def read(self, text: str) -> Content:
        """Parse a file. Raises `ValueError` with a message that says what is wrong."""

    @abstractmethod
    def write(self, content: Content, before: str) -> str:
        """The text of a file with this content, formatted like the text that it had before."""

    @abstractmethod
    def plain(self, text: str) -> object:
        """Parse a file with another parser, to prove that nothing was lost."""


class _Json(FileFormat):
    name = "strict JSON"

    def read(self, text: str) -> Content:
        return mapping(self.plain(text))

    def write(self, content: Content, before: str) -> str:
        return json.dumps(content, indent=_indent(before), ensure_ascii=False) + "\n"

    def plain(self, text: str) -> object:
        return read_json(text)


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
    """Return the value if it is a mapping. Raises `NoMapping`, a `ValueError`, if it is not."""
    if not isinstance(value, MutableMapping):
        raise NoMapping(where, type(value).__name__)
    return cast("Content", value)


class NoMapping(ValueError):
    """A value that should be a mapping is something else."""

    def __init__(self, where: str, came: str) -> None:
        super().__init__(f"{where} was expected to hold names and values, not a {came}")


def _indent(text: str) -> str:
    for line in text.splitlines():
        margin = line[: len(line) - len(line.lstrip(" \t"))]
        if margin and line.strip():
            return margin
    return "  "


CONNECTION_KEYS = frozenset({"args", "cmd", "command", "httpUrl", "serverUrl", "transport", "type", "uri", "url"})
"""The keys that say how to reach a server. They are replaced; others are kept."""
_CREDENTIALS = frozenset({"bearer_token_env_var", "env", "headers", "oauth"})
"""The keys by which a server is sent a key. What an entry has of them is set, and the rest of a mapping is kept."""
_BYTE_ORDER_MARK = "\ufeff"


class Unmergeable(GoalportError):
    """A file that cannot be rewritten without the risk of losing data."""


@dataclass(frozen=True)
class Change:
    """The text of a file now, and as it would be after the change."""

    path: Path
    before: str | None
    """The current text; None: there is no such file."""
    after: str

    @property
    def is_nothing(self) -> bool:
        return self.before == self.after

    def difference(self) -> Iterator[str]:
        old = (self.before or "").splitlines(keepends=True)
        return unified_diff(old, self.after.splitlines(keepends=True), f"{self.path} (now)", f"{self.path} (then)")

    def apply(self, *, private: bool = False) -> Path | None:
        """Write the file, which only its owner may read then if it is private.

        Returns the path of the backup, or None when there was no file.
        """
        # Follow symbolic links: the file may be in a repository of dot files.
        path = self.path.resolve()
        path.parent.mkdir(parents=True, exist_ok=True)
        if _read(path) != self.before:
            raise Unmergeable(f"{path} has changed in the meantime; run the command again.")
        backup = None if self.before is None else _back_up(path, self.before)
        _replace(path, self.after, private=private)
        return backup


def merged(
    path: Path,
    kind: FileFormat,
    place: Sequence[str],
    entry: Mapping[str, object],
    inputs: Sequence[Mapping[str, object]] = (),
) -> Change:
    """The change that puts an entry at a place of the file, and declares what the client asks its user for."""
    before = _read(path)
    text = (before or "").removeprefix(_BYTE_ORDER_MARK).replace("\r\n", "\n")
    try:
        after = with_entry(text, kind, place, entry, inputs)
    except NoMapping as error:
        raise Unmergeable(f"{path}: {error}. Add the entry by hand.") from error
    except ValueError as error:
        raise Unmergeable(
            f"{path} is not {kind.name} ({error}); a rewrite might lose something. Add the entry by hand."
        ) from error
    if before is not None and after == text:
        return Change(path, before, before)
    after = after.replace("\n", "\r\n") if "\r\n" in (before or "") else after
    return Change(path, before, f"{_BYTE_ORDER_MARK}{after}" if (before or "").startswith(_BYTE_ORDER_MARK) else after)


def with_entry(
    text: str,
    kind: FileFormat,
    place: Sequence[str],
    entry: Mapping[str, object],
    inputs: Sequence[Mapping[str, object]] = (),
) -> str:
    """The text of a file with the entry at a path; the same text if it has the entry already.

    How the server is reached is replaced; other values are kept. `inputs` are added to the file's list of that name,
    unless one with the same id is there. Raises `ValueError` for a text that cannot be changed without the risk of
    losing data.
    """
    before: object = kind.plain(text) if text.strip() else dict[str, object]()
    content = kind.read(text) if text.strip() else kind.empty()
    known = content
    for key in place:
        if key not in known:
            known[key] = {}
        known = mapping(known[key], repr(key))
    was = dict(known)
    for key in CONNECTION_KEYS - entry.keys():
        known.pop(key, None)
    for key in entry:
        if key in CONNECTION_KEYS or key not in known:
            known[key] = entry[key]
        elif key in _CREDENTIALS:
            known[key] = _completed(known[key], entry[key])
    added = _added_inputs(content, inputs)
    if text.strip() and dict(known) == was and not added:
        return text
    after = kind.write(content, text)
    expected = _expected(before, place, dict(known))
    if kind.plain(after) != ({**mapping(expected), **added} if added else expected):
        raise ValueError("what would be written does not say the same")
    return after


def _completed(had: object, given: object) -> object:
    """A value, with what a mapping had besides."""
    if isinstance(had, Mapping) and isinstance(given, Mapping):
        return {**cast("Mapping[str, object]", had), **cast("Mapping[str, object]", given)}
    return given


def _added_inputs(content: Content, inputs: Sequence[Mapping[str, object]]) -> Mapping[str, object]:
    """Add inputs to the content of a file; the list as it is then, by its name, or nothing if none was missing."""
    had: object = content.get("inputs", [])
    if not isinstance(had, list):
        raise NoMapping("'inputs'", type(had).__name__)
    known = cast("list[Any]", had)
    ids = [cast("dict[str, object]", each).get("id") for each in known if isinstance(each, dict)]
    missing = [dict(each) for each in inputs if each["id"] not in ids]
    if not missing:
        return {}
    content["inputs"] = [*known, *missing]
    return {"inputs": content["inputs"]}


def _expected(before: object, place: Sequence[str], entry: Mapping[str, object]) -> object:
    """The content that a file must have after the entry was added."""
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


def _back_up(path: Path, text: str) -> Path:
    """Write the old text to the first free backup name, so that no earlier backup is overwritten."""
    names = (path.with_name(f"{path.name}.bak{number or ''}") for number in count())
    backup = next(name for name in names if not name.exists())
    with backup.open("xb") as file:
        # Before anything is written: the file may contain secrets, and its owner may have restricted access to it.
        backup.chmod(path.stat().st_mode)
        file.write(text.encode("utf-8"))
    return backup


def _replace(path: Path, text: str, *, private: bool) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    fresh = Path(name)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(text.encode("utf-8"))
            file.flush()
            os.fsync(file.fileno())
        if path.exists():
            mode = stat.S_IMODE(path.stat().st_mode)
            fresh.chmod(mode & stat.S_IRWXU if private else mode)
        fresh.replace(path)
    finally:
        fresh.unlink(missing_ok=True)
