"""The import hook: `goalport_workspace.agents.star_news` is `agents/star_news.py` of the workspace.

One workspace is importable at a time. Its modules are imported once as long as no file changes, so that tests, servers
and repeated loads get the same classes. Modules are always compiled from source: a bytecode cache compares
times in whole seconds and can miss an edit. This module loads nothing by itself; `folder` does.
"""

import builtins
import importlib.util
import sys
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

PACKAGE = "goalport_workspace"
"""The name under which a workspace is imported, so that installed packages called `agents` or `tools` do not clash."""
FOLDERS = ("agents", "tools", "server")
"""The folders of a workspace that can be imported."""


class _Source(SourceFileLoader):
    """Compiles the source at each import, and writes no bytecode."""

    load: "_WorkspaceFinder"
    source: bytes = b""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        self.source = self.get_data(path)
        return self.source_to_code(self.source, path)

    def exec_module(self, module: ModuleType) -> None:
        vars(module)["__builtins__"] = self.load.builtins
        super().exec_module(module)

    @property
    def is_current(self) -> bool:
        """Whether the file is unchanged since it was imported."""
        try:
            return self.get_data(self.path) == self.source
        except OSError:
            return False


_LOADERS = (ExtensionFileLoader, EXTENSION_SUFFIXES), (_Source, [".py"])


class _WorkspaceFinder(MetaPathFinder):
    """Finds the modules of one loaded workspace; its top folders are packages without `__init__.py`."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self.kept: Mapping[str, ModuleType] = {}
        """The modules of this load, after another load has replaced it; empty before."""
        self.builtins = {**vars(builtins), "__import__": self._import}
        self._finders: dict[str, FileFinder] = {}

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, *inside = fullname.split(".")
        if package != PACKAGE:
            return None
        if not inside:
            return _namespace(fullname, self._root)
        if len(inside) == 1:
            if inside[0] not in FOLDERS:
                # Otherwise the next finder would search every folder at the top of the workspace.
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
            place = self._root / inside[0]
            return _namespace(fullname, place) if place.is_dir() else None
        for folder in path or ():
            finder = self._finders.get(folder)
            found = finder and finder.find_spec(fullname)
            if found is None:
                # A `FileFinder` lists a folder again only if the folder's timestamp has changed, and so misses a file
                # that was created soon after the others.
                finder = self._finders[folder] = FileFinder(folder, *_LOADERS)
                found = finder.find_spec(fullname)
            if found is not None:
                if isinstance(found.loader, _Source):
                    found.loader.load = self
                return found
        return None

    def has(self, root: Path) -> bool:
        """Whether this finder is installed for that folder, and no imported file has changed."""
        loaders = (each.__spec__ and each.__spec__.loader for each in _imported().values())
        is_current = (each.is_current for each in loaders if isinstance(each, _Source))
        return self in sys.meta_path and root == self._root and all(is_current)

    def _import(
        self,
        name: str,
        globals: Mapping[str, object] | None = None,  # noqa: A002 - the signature of `__import__`
        locals: Mapping[str, object] | None = None,  # noqa: A002 - as above
        fromlist: Sequence[str] | None = (),
        level: int = 0,
    ) -> ModuleType:
        """The import statement in modules of this load; late imports get the modules that belong to the load."""
        if self.kept and (level or name.partition(".")[0] == PACKAGE):
            package = str((globals or {}).get("__package__"))
            found = self.kept.get(importlib.util.resolve_name("." * level + name, package))
            if found is not None:
                return found if fromlist else self.kept[PACKAGE]
        return builtins.__import__(name, globals, locals, fromlist or (), level)


@dataclass(frozen=True)
class Importable:
    """The finders and the modules of workspaces at one moment."""

    finders: tuple[_WorkspaceFinder, ...]
    modules: Mapping[str, ModuleType]

    @staticmethod
    def now() -> "Importable":
        finders = tuple(each for each in sys.meta_path if isinstance(each, _WorkspaceFinder))
        return Importable(finders, _imported())

    def restore(self) -> None:
        """Restore the state of that moment."""
        _replace(self.finders, self.modules)


def install_importer(root: Path, *, fresh: bool = False) -> None:
    """Make a workspace importable in place of the previous one, and remove that one's modules from `sys.modules`.

    Nothing happens if it is importable already and no file has changed, unless `fresh` is set. Removed modules keep
    working where they are used, and import later only modules of the same load. Other code that imports from the
    workspace gets new modules.
    """
    root = root.resolve()
    before = Importable.now()
    if fresh or not any(finder.has(root) for finder in before.finders):
        _replace((_WorkspaceFinder(root),), {})


@contextmanager
def workspace_importer(root: Path) -> Generator[None]:
    """Make a workspace importable within the block, and restore the previous state afterwards."""
    before = Importable.now()
    install_importer(root, fresh=True)
    try:
        yield
    finally:
        before.restore()


def _replace(finders: tuple[_WorkspaceFinder, ...], modules: Mapping[str, ModuleType]) -> None:
    before = Importable.now()
    for finder in before.finders:
        finder.kept = before.modules
    for finder in finders:
        finder.kept = {}
    others = [each for each in sys.meta_path if not isinstance(each, _WorkspaceFinder)]
    sys.meta_path[:] = [*finders, *others]
    for name in before.modules:
        del sys.modules[name]
    sys.modules.update(modules)


def _imported() -> dict[str, ModuleType]:
    return {name: module for name, module in sys.modules.items() if name.partition(".")[0] == PACKAGE}


def _namespace(fullname: str, folder: Path) -> ModuleSpec:
    spec = ModuleSpec(fullname, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    return spec
