"""One entry put into a client's JSON file, so that nothing else in the file changes and nothing is ever lost.

A file that is not strict JSON (comments, keys given twice) is left alone. The old file is kept beside the new one,
which takes its place in one step. It knows no client. Below `connect`, above nothing but errors.
"""

import json
import os
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import unified_diff
from itertools import count
from pathlib import Path
from typing import NoReturn, cast

from goalport.errors import GoalportError

REACHING = frozenset({"args", "command", "serverUrl", "transport", "type", "url"})
"""The keys that say how to reach a server. They go when an entry is replaced; env, headers and the like stay."""


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


def merged(path: Path, section: str, name: str, entry: Mapping[str, object]) -> Change:
    """The change that puts an entry under a name into a section of the file."""
    before = _read(path)
    content = {} if before is None or not before.strip() else _parsed(path, before)
    servers = _table(path, content, section)
    known = _table(path, servers, name)
    servers[name] = {**entry, **{key: value for key, value in known.items() if key not in REACHING | entry.keys()}}
    if before is not None and before.strip() and servers[name] == known:
        return Change(path, before, before)
    return Change(path, before, _written(content, before or ""))


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except UnicodeDecodeError as error:
        raise Unmergeable(f"{path} is not UTF-8 text; save it as UTF-8, or add the entry by hand.") from error


def _parsed(path: Path, text: str) -> dict[str, object]:
    try:
        content: object = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_once, parse_constant=_no_number)
    except ValueError as error:
        raise Unmergeable(
            f"{path} is not strict JSON ({error}); a rewrite might lose comments. Add the entry by hand."
        ) from error
    if not isinstance(content, dict):
        raise Unmergeable(
            f"{path} was expected to hold a JSON object, not a {type(content).__name__}. Add the entry by hand."
        )
    return cast("dict[str, object]", content)


def _once(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        keys = [key for key, _ in pairs]
        raise ValueError(f"a key is there twice: {next(key for key in keys if keys.count(key) > 1)!r}")
    return found


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no JSON number")


def _table(path: Path, content: dict[str, object], key: str) -> dict[str, object]:
    found = content.setdefault(key, {})
    if not isinstance(found, dict):
        raise Unmergeable(
            f"{key!r} in {path} was expected to be an object, not a {type(found).__name__}. Add the entry by hand."
        )
    return cast("dict[str, object]", found)


def _written(content: dict[str, object], before: str) -> str:
    text = json.dumps(content, indent=_indent(before), ensure_ascii=False) + "\n"
    text = text.replace("\n", "\r\n") if "\r\n" in before else text
    return f"\ufeff{text}" if before.startswith("\ufeff") else text


def _indent(text: str) -> str:
    for line in text.splitlines():
        margin = line[: len(line) - len(line.lstrip(" \t"))]
        if margin and line.strip():
            return margin
    return "  "


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
