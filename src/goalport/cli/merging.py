"""One entry put into a client's file, so that nothing else in the file changes and nothing is ever lost.

A file that its format cannot rewrite whole (JSON with comments, keys given twice) is left alone. The old file is kept
beside the new one, which takes its place in one step. It knows no client. Below `connect`, above the formats.
"""

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from itertools import count
from pathlib import Path

from goalport.cli.formats import FileFormat, NoMapping, mapping
from goalport.errors import GoalportError

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
