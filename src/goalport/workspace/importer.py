"""The import hook: `goalport_workspace.agents.star_news` is `agents/star_news.py` of the workspace.

One workspace is importable at a time. Modules are always compiled from their source: a bytecode cache tells an edited
file from the old one by a clock of whole seconds. This module loads nothing by itself; `loading` does.
"""

import sys
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import EXTENSION_SUFFIXES, ExtensionFileLoader, FileFinder, ModuleSpec, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType

__all__ = ["FOLDERS", "PACKAGE", "install_importer", "workspace_importer"]

PACKAGE = "goalport_workspace"
"""The name under which a workspace is imported, so that installed packages called `agents` or `tools` do not clash."""
FOLDERS = ("agents", "tools")
"""The folders of a workspace that can be imported."""


class _Source(SourceFileLoader):
    """Compiles the source each time, and leaves no bytecode behind."""

    def get_code(self, fullname: str) -> CodeType:
        path = self.get_filename(fullname)
        return self.source_to_code(self.get_data(path), path)


class _WorkspaceFinder(MetaPathFinder):
    """Finds the modules of one workspace; the folders at its top are packages without `__init__.py`."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        package, *inside = fullname.split(".")
        match inside:
            case _ if package != PACKAGE:
                return None
            case []:
                return _namespace(fullname, self._root)
            case [folder] if folder not in FOLDERS:
                # Without this, the next finder would look for any folder at the top of the workspace.
                raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
            case [folder]:
                return _namespace(fullname, self._root / folder) if (self._root / folder).is_dir() else None
            case _:
                return _find_in(fullname, path or ())


def install_importer(root: Path) -> None:
    """Make a workspace importable in place of the one before, and forget the modules of that one.

    Classes of the forgotten modules live on where they are used; who imports from the workspace later gets new ones.
    """
    _put_first(_WorkspaceFinder(root.resolve()))
    for name in _imported():
        del sys.modules[name]


@contextmanager
def workspace_importer(root: Path) -> Generator[None]:
    """A workspace is importable inside the `with`; afterwards everything is as before."""
    finders = [each for each in sys.meta_path if isinstance(each, _WorkspaceFinder)]
    modules = {name: sys.modules[name] for name in _imported()}
    install_importer(root)
    try:
        yield
    finally:
        _put_first(*finders)
        for name in _imported():
            del sys.modules[name]
        sys.modules.update(modules)


def _put_first(*finders: _WorkspaceFinder) -> None:
    others = [each for each in sys.meta_path if not isinstance(each, _WorkspaceFinder)]
    sys.meta_path[:] = [*finders, *others]


def _imported() -> list[str]:
    return [name for name in sys.modules if name.partition(".")[0] == PACKAGE]


def _namespace(fullname: str, folder: Path) -> ModuleSpec:
    spec = ModuleSpec(fullname, None, is_package=True)
    spec.submodule_search_locations = [str(folder)]
    return spec


def _find_in(fullname: str, folders: Sequence[str]) -> ModuleSpec | None:
    loaders = (ExtensionFileLoader, EXTENSION_SUFFIXES), (_Source, [".py"])
    for folder in folders:
        # A new finder each time: one that is kept lists a folder again only when the file system's clock has moved.
        found = FileFinder(folder, *loaders).find_spec(fullname)
        if found is not None:
            return found
    return None
