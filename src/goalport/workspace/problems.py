"""Problems in the modules of a workspace, with the line that the author has to correct."""

import re
import sys
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from goalport.errors import GoalportError
from goalport.words import did_you_mean, error_summary, nearest
from goalport.workspace.importer import FOLDERS, PACKAGE

__all__ = ["LoadProblem", "Place", "problem_of"]

_MESSAGE_LIMIT = 1_000
_NOT_IN_MODULE = re.compile(r"cannot import name '(\w+)'")


@dataclass(frozen=True)
class LoadProblem:
    """Why a module, or something in it, is not served; everything else is."""

    module: str
    """Its name in the workspace: `agents.star_news`."""
    path: Path
    line: int | None
    message: str

    def __str__(self) -> str:
        where = str(self.path) if self.line is None else f"{self.path}:{self.line}"
        return f"{where}: {self.message}"


@dataclass(frozen=True)
class Place:
    """The name and the file of a module that is not loaded yet."""

    name: str
    """Its name in the workspace: `agents.star_news`."""
    path: Path
    """The path of the file; for a package, of its `__init__.py`."""

    @property
    def full_name(self) -> str:
        """The name of the module in `sys.modules`."""
        return f"{PACKAGE}.{self.name}"

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    def owns(self, filename: str) -> bool:
        """Whether a file belongs to the module: it is its file or, for a package, inside of it."""
        path = Path(filename)
        return self.path.parent in path.parents if self.is_package else path == self.path

    def problem(self, message: str, line: int | None = None) -> LoadProblem:
        return LoadProblem(self.name, self.path, line, message)


def problem_of(place: Place, error: BaseException) -> LoadProblem:
    """The problem for an exception during loading, located at the innermost line in the module's own files."""
    lines = [(filename, line) for filename, line in _lines(error) if place.owns(filename)]
    if not lines:
        return place.problem(_message(error))
    filename, line = lines[-1]
    return LoadProblem(place.name, Path(filename), line, _message(error))


def _lines(error: BaseException) -> Iterator[tuple[str, int | None]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield frame.f_code.co_filename, line
    if isinstance(error, SyntaxError) and error.filename:
        yield error.filename, error.lineno


def _message(error: BaseException) -> str:
    text = str(error)[:_MESSAGE_LIMIT]
    match error:
        case GoalportError():
            return text
        case SyntaxError():
            return f"SyntaxError: {error.msg}"
        case SystemExit():
            return f"it ends the program when it is imported (exit code {error.code}). Remove the call of exit."
        case ModuleNotFoundError() if error.name and error.name.partition(".")[0] in FOLDERS:
            return f"{text}. Modules of a workspace are imported as {PACKAGE}.{error.name}, or relatively."
        case ModuleNotFoundError() if error.name and error.name.partition(".")[0] == PACKAGE:
            return f"{text}. There is no such file in {' or '.join(f'{each}/' for each in FOLDERS)} of the workspace."
        case ModuleNotFoundError():
            return f"{text}. Install it where goalport is installed, or correct the import."
        case ImportError() | NameError():
            return f"{type(error).__name__}: {text}{_nearest(error)}"
        case _:
            return error_summary(error)[:_MESSAGE_LIMIT]


def _nearest(error: ImportError | NameError) -> str:
    """The existing names that are similar to the missing one, as a question or a list."""
    if isinstance(error, NameError):
        frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
        name, known = error.name, {**frames[-1].f_globals, **frames[-1].f_locals} if frames else {}
    else:
        wanted = _NOT_IN_MODULE.match(str(error))
        name, known = wanted and wanted[1], dir(sys.modules.get(error.name or ""))
    near = nearest(name or "", known)
    return f". {did_you_mean(near)}" if near else ""
