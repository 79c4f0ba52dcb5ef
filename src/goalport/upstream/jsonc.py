"""JSON with comments and trailing commas, as editors such as VS Code allow it, with the position of each part.

The standard library parses it once comments and such commas are blanked; positions come from a look at the tokens. The
meaning of the data is the business of `config_file` and `section`, above.
"""

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from goalport.upstream.config import ConfigProblem

__all__ = ["JsonPath", "PathStep", "WrittenJson", "read_json"]

PathStep = str | int
"""A key of an object or an index of a list."""
JsonPath = tuple[PathStep, ...]
"""The steps that lead from the root to a value."""

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True)
class WrittenJson:
    """The data of a file, and where they are in it; `data` is None when it cannot be read, and `problems` says why."""

    path: Path
    data: object = None
    positions: Mapping[JsonPath, tuple[int, int]] = field(default_factory=dict[JsonPath, tuple[int, int]])
    """The line and column, both from 1, of each key and of each item of a list."""
    problems: tuple[ConfigProblem, ...] = ()

    @property
    def is_object(self) -> bool:
        return isinstance(self.data, dict)

    def problem(self, message: str, at: JsonPath = (), *, server: str = "", is_fatal: bool = False) -> ConfigProblem:
        """A problem at the position of a path, or of the nearest one above it that is known."""
        near = next((at[:length] for length in range(len(at), 0, -1) if at[:length] in self.positions), None)
        line, column = self.positions[near] if near is not None else (None, None)
        return ConfigProblem(" ".join(message.split()), self.path, line, column, server=server, is_fatal=is_fatal)


def read_json(path: Path) -> WrittenJson:
    """Read a file. Mistakes are in `problems`, with line and column. A file that is missing or empty is no mistake."""
    try:
        text = path.read_text("utf-8-sig")
    except FileNotFoundError:
        return WrittenJson(path, {})
    except OSError as error:
        return _unreadable(path, f"it cannot be read ({error.strerror or type(error).__name__}).")
    except UnicodeDecodeError:
        return _unreadable(path, "it is no text in UTF-8. Save it in that encoding.")
    if not text.strip():
        return WrittenJson(path, {})
    plain = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text))
    try:
        data: object = json.loads(plain)
    except json.JSONDecodeError as error:
        return _unreadable(path, f"this is no JSON: {error.msg[:1].lower()}{error.msg[1:]}.", error.lineno, error.colno)
    except (RecursionError, ValueError):
        return _unreadable(path, "it nests too deeply, or has a number with too many digits.")
    found = [*_positions(plain)]
    problems = [
        ConfigProblem(f"{key!r} is there twice; the last one counts.", path, *at) for key, at in _duplicates(found)
    ]
    return WrittenJson(path, data, dict(found), tuple(problems))


def _unreadable(path: Path, message: str, line: int | None = None, column: int | None = None) -> WrittenJson:
    return WrittenJson(path, problems=(ConfigProblem(message, path, line, column),))


def _blank(found: re.Match[str]) -> str:
    """Spaces and line ends in place of a comment or comma, so that positions stay the same; a string as it is."""
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


def _positions(text: str) -> Iterator[tuple[JsonPath, tuple[int, int]]]:
    """The position of each key and each item of a list, in JSON that is known to be valid."""
    inside: list[PathStep | None] = []
    expects_key = False
    lines = _LineCounter(text)
    for token in _TOKEN.finditer(text):
        word = token[0]
        if word == ":":
            expects_key = False
        elif word == ",":
            expects_key = not isinstance(inside[-1], int)
            inside[-1] = None if expects_key else cast("int", inside[-1]) + 1
        elif word in "}]":
            inside.pop()
            expects_key = False
        elif expects_key:
            inside[-1] = json.loads(word)
            yield _steps(inside), lines.position(token.start())
        else:
            if inside and isinstance(inside[-1], int):
                yield _steps(inside), lines.position(token.start())
            if word in "{[":
                inside.append(None if word == "{" else 0)
                expects_key = word == "{"


def _steps(inside: list[PathStep | None]) -> JsonPath:
    return tuple(step for step in inside if step is not None)


class _LineCounter:
    """Lines and columns of offsets that come in rising order."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._line, self._start, self._seen = 1, 0, 0

    def position(self, offset: int) -> tuple[int, int]:
        newlines = self._text.count("\n", self._seen, offset)
        if newlines:
            self._line += newlines
            self._start = self._text.rfind("\n", self._seen, offset) + 1
        self._seen = offset
        return self._line, offset - self._start + 1


def _duplicates(
    found: list[tuple[JsonPath, tuple[int, int]]],
) -> Iterator[tuple[str, tuple[int, int]]]:
    """Keys that an object has twice, but for those inside of a value whose key is there twice."""
    seen: set[JsonPath] = set()
    again: set[JsonPath] = set()
    for steps, at in found:
        key = steps[-1]
        if steps in seen and isinstance(key, str):
            if not any(steps[:length] in again for length in range(1, len(steps))):
                yield key, at
            again.add(steps)
        seen.add(steps)
