"""Loads the modules of a workspace, each separately: one that fails does not affect the others.

A failure becomes a problem, with the line that the author has to correct. Below: the importer. Above: the folder.
"""

import importlib
import keyword
import re
import sys
import traceback
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from goalport.base.errors import GoalportError
from goalport.base.words import did_you_mean, error_summary, excerpt, nearest
from goalport.workspace.importer import FOLDERS, PACKAGE

T = TypeVar("T")

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
class ModuleFile:
    """A module of a workspace before it is loaded: its name and its file."""

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


@dataclass(frozen=True)
class LoadedModule:
    """A module of `agents/` or `tools/` that has been imported."""

    file: ModuleFile
    module: ModuleType

    @property
    def name(self) -> str:
        """Its name in the workspace: `agents.star_news`."""
        return self.file.name

    @property
    def path(self) -> Path:
        return self.file.path

    @property
    def namespace(self) -> dict[str, object]:
        """The names at the module's top level, in the order of definition."""
        return {name: value for name, value in vars(self.module).items() if not name.startswith("__")}

    def defines(self, thing: type) -> bool:
        """Whether a class comes from this module or, for a package, from a module inside it."""
        full = self.file.full_name
        return thing.__module__ == full or thing.__module__.startswith(f"{full}.")


def find_modules(root: Path) -> Iterator[ModuleFile | LoadProblem]:
    """The modules of a workspace, in the order of their names: files, and folders with an `__init__.py`."""
    for folder in FOLDERS:
        # server/app.py would serve what is being loaded.
        yield from (each for each in _find_in(root / folder) if each.path != root / "server" / "app.py")


def load_module(file: ModuleFile) -> LoadedModule | LoadProblem:
    """Import a module. Whatever it raises is returned as a problem."""
    found = attempt(file, lambda: importlib.import_module(file.full_name))
    return found if isinstance(found, LoadProblem) else LoadedModule(file, found)


def attempt(file: ModuleFile, work: Callable[[], T]) -> T | LoadProblem:
    """Run code of a module's author; exceptions become problems, and only KeyboardInterrupt is raised."""
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return problem_of(file, error)


def _find_in(folder: Path) -> Iterator[ModuleFile | LoadProblem]:
    if not folder.is_dir():
        if folder.exists():
            yield ModuleFile(folder.name, folder).problem("should be a folder with modules, but it is a file.")
        return
    entries = sorted(folder.iterdir(), key=lambda each: each.name)
    names = frozenset(each.name for each in entries)
    init = folder / "__init__.py"
    if init.is_file() and init.stat().st_size:
        yield ModuleFile(folder.name, init).problem(
            f"it is not run: {folder.name}/ is no package of its own. Move what it says to a module beside it."
        )
    for entry in entries:
        if not entry.name.startswith(("_", ".")) and (entry.suffix == ".py" or entry.is_dir()):
            yield from _module_at(folder, entry, names)


def _module_at(folder: Path, entry: Path, names: Collection[str]) -> Iterator[ModuleFile | LoadProblem]:
    stem = entry.stem if entry.suffix == ".py" else entry.name
    file = ModuleFile(f"{folder.name}.{stem}", entry / "__init__.py" if entry.is_dir() else entry)
    if not file.path.is_file():
        yield from _without_file(file, entry)
    elif not stem.isidentifier() or keyword.iskeyword(stem):
        yield file.problem(f"{stem!r} cannot be the name of a module. Rename it: letters, digits and underscores.")
    elif not file.is_package and stem in names and (folder / stem / "__init__.py").is_file():
        yield file.problem(f"the folder {stem}/ beside it has the same name and hides it. Rename one of them.")
    else:
        yield file


def _without_file(file: ModuleFile, entry: Path) -> Iterator[LoadProblem]:
    if not entry.is_dir():
        yield file.problem("there is no such file: it is a link that points nowhere.")
    elif any(entry.glob("*.py")):
        yield LoadProblem(file.name, entry, None, "the folder has Python files but no __init__.py. Add one.")


def problem_of(file: ModuleFile, error: BaseException) -> LoadProblem:
    """The problem for an exception during loading, located at the innermost line in the module's own files."""
    lines = [(filename, line) for filename, line in _lines(error) if file.owns(filename)]
    if not lines:
        return file.problem(_message(error))
    filename, line = lines[-1]
    return LoadProblem(file.name, Path(filename), line, _message(error))


def _lines(error: BaseException) -> Iterator[tuple[str, int | None]]:
    for frame, line in traceback.walk_tb(error.__traceback__):
        yield frame.f_code.co_filename, line
    if isinstance(error, SyntaxError) and error.filename:
        yield error.filename, error.lineno


def _message(error: BaseException) -> str:
    text = excerpt(str(error), _MESSAGE_LIMIT)
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
            return excerpt(error_summary(error), _MESSAGE_LIMIT)


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
