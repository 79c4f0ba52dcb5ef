"""JSON with comments and trailing commas, as editors such as VS Code allow it, with the position of each part.

The standard library parses it once comments and such commas are blanked; positions come from a look at the tokens. The
meaning of the data is the business of `section` and `config_file`, above.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

PathStep = str | int
"""A key of an object or an index of a list."""
JsonPath = tuple[PathStep, ...]
"""The steps that lead from the root to a value."""

_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_LAST_COMMA = re.compile(r'"(?:\\.|[^"\\\n])*"|,(?=\s*[}\]])')
_TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|[{}\[\],:]|[^\s{}\[\],:"]+')


@dataclass(frozen=True)
class ConfigProblem:
    """One mistake in a file, in one line. Line and column count from 1."""

    message: str
    path: Path | None = None
    line: int | None = None
    column: int | None = None
    server: str = ""
    """The server that cannot be used because of it; empty: none, or several."""
    is_fatal: bool = False
    """Whether that server is required, so that nothing may be served without it."""

    def __str__(self) -> str:
        place = ":".join(str(each) for each in (self.path, self.line, self.column) if each is not None)
        return f"{place}: {self.message}" if place else self.message


@dataclass
class WrittenJson:
    """The data of a file, and what is wrong with it; `data` is None when it cannot be read."""

    path: Path
    text: str = ""
    data: dict[str, Any] | None = None
    offsets: dict[JsonPath, int] = field(default_factory=dict[JsonPath, int])
    """Where each key and each item of a list begins."""
    problems: list[ConfigProblem] = field(default_factory=list[ConfigProblem])

    def note(self, message: str, at: JsonPath = (), *, server: str = "", is_fatal: bool = False) -> None:
        """Add a problem at the position of a path, or of the nearest one above it that is known."""
        offset = next((self.offsets[at[:end]] for end in range(len(at), 0, -1) if at[:end] in self.offsets), None)
        line = column = None
        if offset is not None:
            line, column = self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        message = " ".join(message.split())
        self.problems.append(ConfigProblem(message, self.path, line, column, server=server, is_fatal=is_fatal))


def read_json(path: Path) -> WrittenJson:
    """Read a file. Mistakes are in `problems`, with line and column. A file that is missing or empty is no mistake."""
    written = WrittenJson(path)
    try:
        text = path.read_text("utf-8-sig") if path.exists() else ""
        written.text = _LAST_COMMA.sub(_blank, _COMMENT.sub(_blank, text)) if text.strip() else "{}"
        found: object = json.loads(written.text)
        _locate(written)
        if isinstance(found, dict):
            written.data = cast("dict[str, Any]", found)
        else:
            written.note("it should be an object.")
    except OSError as error:
        written.note(f"it cannot be read ({error.strerror or type(error).__name__}).")
    except UnicodeDecodeError:
        written.note("it is no text in UTF-8. Save it in that encoding.")
    except json.JSONDecodeError as error:
        message = f"this is no JSON: {error.msg[:1].lower()}{error.msg[1:]}."
        written.problems.append(ConfigProblem(message, path, error.lineno, error.colno))
    except (RecursionError, ValueError):
        written.note("it nests too deeply, or has a number with too many digits.")
    return written


def _blank(found: re.Match[str]) -> str:
    """Spaces and line ends in place of a comment or comma, so that positions stay the same; a string as it is."""
    return found[0] if found[0].startswith('"') else re.sub(r"[^\n]", " ", found[0])


def _locate(written: WrittenJson) -> None:
    """Find where each key and each item of a list begins, in JSON that is known to be valid; note keys that repeat."""
    inside: list[PathStep | None] = []
    expects_key = False
    for token in _TOKEN.finditer(written.text):
        word = token[0]
        if word == ",":
            expects_key = not isinstance(inside[-1], int)
            inside[-1] = None if expects_key else cast("int", inside[-1]) + 1
        elif word in ":}]":
            expects_key = False
            if word != ":":
                inside.pop()
        elif expects_key:
            inside[-1] = json.loads(word)
            steps = cast("JsonPath", tuple(inside))
            if steps in written.offsets:
                # What is inside of the first one is not there twice.
                written.offsets = {at: each for at, each in written.offsets.items() if at[: len(steps)] != steps}
                written.offsets[steps] = token.start()
                written.note(f"{inside[-1]!r} is there twice; the last one counts.", steps)
            written.offsets[steps] = token.start()
        else:
            if inside and isinstance(inside[-1], int):
                written.offsets[cast("JsonPath", tuple(inside))] = token.start()
            if word in "{[":
                inside.append(None if word == "{" else 0)
                expects_key = word == "{"
