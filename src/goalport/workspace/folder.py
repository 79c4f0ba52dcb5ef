"""A loaded workspace: its modules, the problems in some of them, and what to serve."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from goalport.errors import WorkspaceError
from goalport.tools import Tool
from goalport.workspace.contents import agents_in, collect_exports, unmarked_in, values_in
from goalport.workspace.importer import install_importer
from goalport.workspace.loading import LoadedModule, find_modules, load_module
from goalport.workspace.problems import LoadProblem

__all__ = ["Workspace", "load_workspace"]

T = TypeVar("T")


@dataclass(frozen=True)
class Workspace:
    """The result of loading a workspace. A later load makes new modules and does not change these."""

    root: Path
    modules: tuple[LoadedModule, ...] = ()
    problems: tuple[LoadProblem, ...] = ()
    exports: tuple[Tool, ...] = ()
    hints: tuple[str, ...] = ()
    """Sentences about what is no error, but probably not intended."""

    def values(self, kind: type[T]) -> tuple[T, ...]:
        """The values of a type at the top level of the modules, in file and definition order, each once."""
        return tuple(value for _, value in values_in(self.modules, kind))

    def exported_tools(self) -> tuple[Tool, ...]:
        """All tools to publish, by name: the `@tool(export=True)` functions and what the `McpToolExport`s export."""
        return self.exports

    def agents(self) -> tuple[object, ...]:
        """What can be deployed from `agents/`: agents, instances of marked classes, marked classes without one."""
        return agents_in([each for each in self.modules if each.name.startswith("agents.")])


def load_workspace(root: Path, *, fresh: bool = False) -> Workspace:
    """Import the modules of a workspace. Those that fail are listed in `problems`; all others are loaded.

    Modules that are imported already are used again, so that a test and the platform see the same classes. If a file
    has changed since, or with `fresh`, all modules are imported anew. The earlier modules, like those of another
    workspace, leave `sys.modules`, but work on where they are used. Raises `WorkspaceError` where there is no folder.
    """
    root = root.expanduser().resolve()
    if not root.is_dir():
        came = "a file" if root.exists() else "not there"
        raise WorkspaceError(f"A workspace is a folder, but {root} is {came}. `goalport new {root}` makes one.")
    install_importer(root, fresh=fresh)
    results = [each if isinstance(each, LoadProblem) else load_module(each) for each in find_modules(root)]
    modules = tuple(each for each in results if isinstance(each, LoadedModule))
    exports = collect_exports(modules)
    problems = [*(each for each in results if isinstance(each, LoadProblem)), *exports.problems, *unmarked_in(modules)]
    tools = tuple(exports.tools[name] for name in sorted(exports.tools))
    return Workspace(root, modules, tuple(problems), tools, tuple(_hints(root, modules, problems)))


def _hints(root: Path, modules: Sequence[LoadedModule], problems: Sequence[LoadProblem]) -> Iterator[str]:
    for each in modules:
        if each.place.is_package and not each.namespace:
            yield f"{each.path} defines nothing, so nothing of its folder is served. Import the agent there."
    if not (root / "agents").exists():
        yield f"{root} has no agents/ folder. Put an agent in agents/NAME.py, or let `goalport new` make an example."
    elif not problems and not agents_in([each for each in modules if each.name.startswith("agents.")]):
        yield f"There is no agent in {root / 'agents'}. Mark a class with @agent, at the top level of a module there."
