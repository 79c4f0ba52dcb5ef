"""JSON that is given on the command line: in a word, in a file after `@`, or on standard input.

Below the commands of this room; it knows no goal and no tool.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

from goalport.errors import BadInput

_LONGEST = 60


def object_of(given: str, what: str) -> Mapping[str, Any]:
    """The JSON object that a word of the command line is, after `@` the file that it is in, or `@-` for stdin.

    Raises `BadInput`; `what` is what the word is called.
    """
    text = _text(given)
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{what} was expected to be JSON, not {_shown(text)} ({error}). {_EXAMPLE}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{what} was expected to be a JSON object, not {_shown(text)}. {_EXAMPLE}")
    return cast("dict[str, Any]", value)


_EXAMPLE = """Write it like '{"content": "…"}', or put it into a file and give @FILE."""


def _text(given: str) -> str:
    if given == "@-":
        return sys.stdin.read()
    if not given.startswith("@"):
        return given
    path = Path(given[1:]).expanduser()
    try:
        return path.read_text(encoding="utf-8-sig")
    except FileNotFoundError as error:
        raise BadInput(f"There is no file {path} to read the input from; after @ comes a path.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"The input cannot be read from {path}: {error}.") from error


def _shown(text: str) -> str:
    line = " ".join(text.split())
    return repr(line if len(line) <= _LONGEST else f"{line[:_LONGEST]}…")
