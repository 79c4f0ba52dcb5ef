"""Options that several commands have: `--workspace` and its folder, `--json`, and JSON as an argument or in a file.

Below the commands of this room; it loads no workspace and knows no goal and no tool.
"""

import json
import re
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, cast

from cyclopts import Parameter

from goalport.base.errors import BadInput, WorkspaceError
from goalport.base.words import one_line

DONE, FAILED, MISUSED, UNFIT, INTERRUPTED = 0, 1, 2, 3, 130
"""The exit codes: success, failure, wrong usage, no agent or goal for a sentence, stopped with Ctrl-C."""
DEBUG: ContextVar[bool] = ContextVar("debug", default=False)
"""Whether `--debug` was given: errors are printed with their traceback."""
_LONGEST: Final = 60
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}
_EXAMPLE: Final = """Write it like '{"content": "…"}', or put it into a file and give @FILE."""

WorkspaceFolder = Annotated[
    Path, Parameter(("--workspace", "-w"), help="The folder that holds agents/ and tools/. Default: the current one.")
]
StructuredResult = Annotated[bool, Parameter("--json", help="Print the result as structured data.")]
AsJson = Annotated[bool, Parameter("--json", help="Print JSON, for programs.")]
OutputFile = Annotated[Path | None, Parameter(("--output", "-o"), help="The file to write. Default: standard output.")]
Unasked = Annotated[bool, Parameter(("--yes", "-y"), help="Do not ask.")]


def workspace_root(folder: Path) -> Path:
    """The folder with its absolute path. Raises `WorkspaceError` if there is none."""
    root = folder.expanduser().absolute()
    if not root.is_dir():
        raise WorkspaceError(
            f"There is no folder {root}. Give --workspace a folder that is there, or make one: goalport new {folder}"
        )
    return root


def object_of(given: str, what: str) -> Mapping[str, Any]:
    """Parse a JSON object from an argument; `@FILE` reads it from a file, and `@-` from stdin.

    Raises `BadInput`; `what` is the name of the argument in the message.
    """
    text = given_text(given)
    shown = repr(one_line(text, _LONGEST))
    try:
        value: object = json.loads(text)
    except ValueError as error:
        raise BadInput(f"{what} was expected to be JSON, not {shown} ({error}). {_EXAMPLE}") from error
    if not isinstance(value, dict):
        raise BadInput(f"{what} was expected to be a JSON object, not {shown}. {_EXAMPLE}")
    return cast("dict[str, Any]", value)


def given_text(given: str) -> str:
    """The text of an argument: the content of FILE for `@FILE`, standard input for `@-`, or the argument itself."""
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


def duration_of(given: str) -> timedelta:
    """A duration in an argument, such as `30d`. Raises `BadInput`."""
    match = re.fullmatch(r"(\d{1,6})([smhd])", given.strip())
    if match is None:
        raise BadInput(f"Expected a time such as 30d, 12h, 90m or 30s, but got {given!r}.")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
