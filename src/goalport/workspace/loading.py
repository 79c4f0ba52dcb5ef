"""Finds the modules of a workspace and imports each separately: one that fails does not affect the others."""

import importlib
import keyword
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TypeVar

from goalport.workspace.importer import FOLDERS
from goalport.workspace.problems import LoadProblem, Place, problem_of

__all__ = ["LoadedModule", "attempt", "find_modules", "load_module"]

T = TypeVar("T")


@dataclass(frozen=True)
class LoadedModule:
    """A module of `agents/` or `tools/` that has been imported."""

    place: Place
    module: ModuleType

    @property
    def name(self) -> str:
        """Its name in the workspace: `agents.star_news`."""
        return self.place.name

    @property
    def path(self) -> Path:
        return self.place.path

    @property
    def namespace(self) -> dict[str, object]:
        """The names at the module's top level, in the order of definition."""
        return {name: value for name, value in vars(self.module).items() if not name.startswith("__")}

    def defines(self, thing: type) -> bool:
        """Whether a class comes from this module or, for a package, from a module inside it."""
        full = self.place.full_name
        return thing.__module__ == full or thing.__module__.startswith(f"{full}.")


def find_modules(root: Path) -> Iterator[Place | LoadProblem]:
    """The modules of a workspace, in the order of their names: files, and folders with an `__init__.py`."""
    for folder in FOLDERS:
        yield from _find_in(root / folder)


def load_module(place: Place) -> LoadedModule | LoadProblem:
    """Import a module. Whatever it raises is returned as a problem."""
    found = attempt(place, lambda: importlib.import_module(place.full_name))
    return found if isinstance(found, LoadProblem) else LoadedModule(place, found)


def attempt(place: Place, work: Callable[[], T]) -> T | LoadProblem:
    """Run code of a module's author; exceptions become problems, and only KeyboardInterrupt is raised."""
    try:
        return work()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        return problem_of(place, error)


def _find_in(folder: Path) -> Iterator[Place | LoadProblem]:
    if not folder.is_dir():
        if folder.exists():
            yield Place(folder.name, folder).problem("should be a folder with modules, but it is a file.")
        return
    entries = sorted(folder.iterdir(), key=lambda each: each.name)
    yield from _top_init(folder)
    for entry in entries:
        if not entry.name.startswith(("_", ".")) and (entry.suffix == ".py" or entry.is_dir()):
            yield from _found(folder, entry, entries)


def _found(folder: Path, entry: Path, entries: Iterable[Path]) -> Iterator[Place | LoadProblem]:
    stem = entry.stem if entry.suffix == ".py" else entry.name
    place = Place(f"{folder.name}.{stem}", entry / "__init__.py" if entry.is_dir() else entry)
    if not place.path.is_file():
        yield from _without_file(place, entry)
    elif not stem.isidentifier() or keyword.iskeyword(stem):
        yield place.problem(f"{stem!r} cannot be the name of a module. Rename it: letters, digits and underscores.")
    elif not place.is_package and entry.with_suffix("") in entries and (folder / stem / "__init__.py").is_file():
        yield place.problem(f"the folder {stem}/ beside it has the same name and hides it. Rename one of them.")
    else:
        yield place


def _without_file(place: Place, entry: Path) -> Iterator[LoadProblem]:
    if not entry.is_dir():
        yield place.problem("there is no such file: it is a link that points nowhere.")
    elif any(entry.glob("*.py")):
        yield LoadProblem(place.name, entry, None, "the folder has Python files but no __init__.py. Add one.")


def _top_init(folder: Path) -> Iterator[LoadProblem]:
    init = folder / "__init__.py"
    if init.is_file() and init.stat().st_size:
        yield Place(folder.name, init).problem(
            f"it is not run: {folder.name}/ is no package of its own. Move what it says to a module beside it."
        )
