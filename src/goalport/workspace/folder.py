"""A loaded workspace: its modules, the problems in some of them, and what goalport can use: agents, tools, values.

Each module is loaded separately: a failure becomes a problem with the line that its author has to correct, and does
not affect the others. Only the top level of modules is searched, and nothing is changed.
"""

import importlib
import keyword
import re
import sys
import traceback
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from inspect import isabstract, isfunction
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast, overload

from pydantic import BaseModel

from goalport.agents.domain import Agent, is_marked, is_state, lacks_mark
from goalport.base.errors import GoalportError, WorkspaceError
from goalport.base.introspection import Origin, missing_methods
from goalport.base.words import did_you_mean, error_summary, excerpt, nearest
from goalport.tools import McpToolExport, Tool, mark_of
from goalport.tools.definition import exported_methods
from goalport.workspace.declarations import Declaration, declaration_of, table_of
from goalport.workspace.importer import FOLDERS, PACKAGE, install_importer
from goalport.workspace.settings import share_environment

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_MESSAGE_LIMIT = 1_000
_NOT_IN_MODULE = re.compile(r"cannot import name '(\w+)'")
_COMMAND = "__goalport_command__"


@dataclass(frozen=True)
class LoadProblem:
    """Why a module, or something in it, is not served. The rest of the workspace is."""

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

    def problem(self, message: str, line: int | None = None) -> LoadProblem:
        return LoadProblem(self.name, self.path, line, message)

    @contextmanager
    def attempt(self, problems: list[LoadProblem], line: int | None = None) -> Generator[None]:
        """Run code of the module. Exceptions become problems; only KeyboardInterrupt is raised.

        A problem is located at the innermost line in the module's own files (of a package, all files in it), else at
        `line`.
        """
        try:
            yield
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            frames = traceback.walk_tb(error.__traceback__)
            places: list[tuple[str, int | None]] = [(frame.f_code.co_filename, at) for frame, at in frames]
            if isinstance(error, SyntaxError) and error.filename:
                places.append((error.filename, error.lineno))
            innermost = ((Path(filename), at) for filename, at in reversed(places))
            own = (
                (path, at)
                for path, at in innermost
                if (self.path.parent in path.parents if self.is_package else path == self.path)
            )
            problems.append(LoadProblem(self.name, *next(own, (self.path, line)), _message(error)))


@dataclass(frozen=True)
class LoadedModule(ModuleFile):
    """A module of `agents/` or `tools/` that has been imported."""

    module: ModuleType

    @property
    def namespace(self) -> dict[str, object]:
        """The names at the module's top level, in the order of definition."""
        return {name: value for name, value in vars(self.module).items() if not name.startswith("__")}

    def defines(self, thing: type) -> bool:
        """Whether a class comes from this module or, for a package, from a module inside it."""
        return thing.__module__ == self.full_name or thing.__module__.startswith(f"{self.full_name}.")


def _find_modules(folder: Path) -> Iterator[ModuleFile | LoadProblem]:
    """The modules in a folder of a workspace, by their names: files, and folders with an `__init__.py`."""
    if not folder.is_dir():
        if folder.exists():
            yield ModuleFile(folder.name, folder).problem("should be a folder with modules, but it is a file.")
        return
    init = folder / "__init__.py"
    if init.is_file() and init.stat().st_size:
        yield ModuleFile(folder.name, init).problem(
            f"it is not run: {folder.name}/ is no package of its own. Move what it says to a module beside it."
        )
    for entry in sorted(folder.iterdir(), key=lambda each: each.name):
        is_folder, stem = entry.is_dir(), entry.stem if entry.suffix == ".py" else entry.name
        if entry.name.startswith(("_", ".")) or not (entry.suffix == ".py" or is_folder):
            continue
        file = ModuleFile(f"{folder.name}.{stem}", entry / "__init__.py" if is_folder else entry)
        if is_folder and not file.path.is_file():
            if any(entry.glob("*.py")):
                lacks = "the folder has Python files but no __init__.py. Add one."
                yield LoadProblem(file.name, entry, None, lacks)
        elif not file.path.is_file():
            yield file.problem("there is no such file: it is a link that points nowhere.")
        elif not stem.isidentifier() or keyword.iskeyword(stem):
            fix = "Rename it: letters, digits and underscores."
            yield file.problem(f"{stem!r} cannot be the name of a module. {fix}")
        elif not is_folder and (folder / stem / "__init__.py").is_file():
            yield file.problem(f"the folder {stem}/ beside it has the same name and hides it. Rename one of them.")
        else:
            yield file


def _message(error: BaseException) -> str:
    """The message for an exception during loading, with what to do about it."""
    text, name, known = excerpt(str(error), _MESSAGE_LIMIT), "", list[str]()
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
        case NameError():
            name = error.name
            for frame, _ in traceback.walk_tb(error.__traceback__):
                known = [*{**frame.f_globals, **frame.f_locals}]
        case ImportError():
            wanted = _NOT_IN_MODULE.match(str(error))
            name, known = wanted[1] if wanted else "", dir(sys.modules.get(error.name or ""))
        case _:
            return excerpt(error_summary(error), _MESSAGE_LIMIT)
    near = nearest(name or "", known)
    return f"{type(error).__name__}: {text}{f'. {did_you_mean(near)}' if near else ''}"


@dataclass(frozen=True, slots=True)
class Command:
    """A command that a workspace adds to the shell."""

    name: str
    function: Callable[..., Any]


@overload
def command(function: F, /) -> F: ...
@overload
def command(*, name: str = "") -> Callable[[F], F]: ...
def command(function: Callable[..., Any] | None = None, /, *, name: str = "") -> Any:
    """Mark a function at the top level of a module in `agents/` or `tools/` as a command of `goalport shell`.

    Its parameters are the arguments of the command: positional-only ones by position, the others by name. A parameter
    whose type is `AgentPlatform`, or that of another service of the platform, gets that service. The docstring is the
    help, and the return value is printed. `name` defaults to the function's name, with dashes.
    """

    def mark(function: Any) -> Any:
        if not callable(function) or isinstance(function, type):
            raise TypeError(f"@command marks functions, but came to {function!r}. Mark the function itself.")
        setattr(function, _COMMAND, Command(name or function.__name__.strip("_").replace("_", "-"), function))
        return function

    return mark if function is None else mark(function)


@dataclass(frozen=True)
class Workspace:
    """The result of loading a workspace. A later load makes new modules and does not change these."""

    root: Path
    modules: tuple[LoadedModule, ...] = ()
    problems: tuple[LoadProblem, ...] = ()
    exports: tuple[Tool, ...] = ()
    hints: tuple[str, ...] = ()
    """Sentences about parts that are no errors, but probably not intended."""

    def values(self, kind: type[T]) -> tuple[T, ...]:
        """The values of a type at the top level of the modules, in file and definition order, each once."""
        return tuple(value for _, value in _values_in(self.modules, kind))

    def exported_tools(self) -> tuple[Tool, ...]:
        """All tools to publish, by name: the `@tool(export=True)` functions and what the `McpToolExport`s export."""
        return self.exports

    def commands(self) -> tuple[Command, ...]:
        """The functions that are marked as commands of the shell, in file and definition order."""
        marks = (getattr(value, _COMMAND, None) for value in self.values(object) if isfunction(value))
        return tuple(mark for mark in marks if isinstance(mark, Command))

    def settings(self) -> tuple[tuple[str, type[BaseModel]], ...]:
        """The classes that are marked as settings, as pairs of table and class, in file and definition order."""
        return tuple((table, value) for value in self.values(type) if (table := table_of(value)) is not None)

    def declarations(self) -> tuple[Declaration, ...]:
        """The services and other objects that the platform is to create, in file and definition order."""
        return tuple(found for value in self.values(object) if (found := declaration_of(value)) is not None)

    def agents(self) -> tuple[object, ...]:
        """What can be deployed from `agents/`: agents, instances of marked classes, marked classes without instance."""
        return _agents_in([each for each in self.modules if each.name.startswith("agents.")])


def load_workspace(root: Path, *, fresh: bool = False) -> Workspace:
    """Import the modules of a workspace. Those that fail are listed in `problems`; all others are loaded.

    Imported modules are used again, so that a test and the platform see the same classes. If a file has changed since,
    or with `fresh`, all modules are imported again. The earlier modules, or those of another workspace, are removed
    from `sys.modules`, but keep working where they are used. Raises `WorkspaceError` if `root` is no folder.
    """
    root = root.expanduser().resolve()
    if not root.is_dir():
        came = "a file" if root.exists() else "not there"
        raise WorkspaceError(f"A workspace is a folder, but {root} is {came}. `goalport new {root}` makes one.")
    share_environment(root)
    install_importer(root, fresh=fresh)
    modules, problems = list[LoadedModule](), list[LoadProblem]()
    for each in (each for folder in FOLDERS for each in _find_modules(root / folder)):
        if each.path == root / "server" / "app.py":
            continue  # it would serve what is being loaded
        if isinstance(each, LoadProblem):
            problems.append(each)
            continue
        with each.attempt(problems):
            modules.append(LoadedModule(each.name, each.path, importlib.import_module(each.full_name)))
    exports, problems_of_exports = _exports(modules)
    problems += [*problems_of_exports, *_unmarked_in(modules)]
    tools = tuple(exports[name] for name in sorted(exports))
    loaded = Workspace(root, tuple(modules), tuple(problems), tools)
    return replace(loaded, hints=tuple(_hints(loaded)))


def _hints(loaded: Workspace) -> Iterator[str]:
    """Sentences about parts of a workspace that are no errors, but probably not intended."""
    for each in loaded.modules:
        if each.is_package and not each.namespace:
            yield f"{each.path} defines nothing, so nothing of its folder is served. Import the agent there."
    for module, value in _values_in(loaded.modules, object):
        unserved = getattr(type(value), "__goalport_unserved__", None)
        if unserved is not None and (why := unserved(value)):
            yield f"{module.path}: {why}"
    agents = loaded.root / "agents"
    if not agents.exists():
        how = "Put an agent in agents/NAME.py, or let `goalport new` make an example."
        yield f"{loaded.root} has no agents/ folder. {how}"
    elif not loaded.problems and not loaded.agents():
        yield f"There is no agent in {agents}. Mark a class with @agent, at the top level of a module there."


def _values_in(modules: Iterable[LoadedModule], kind: type[T]) -> Iterator[tuple[LoadedModule, T]]:
    """The values of a type, each once and in order, with the module in which each was found first."""
    seen: set[int] = set()
    for module in modules:
        for value in module.namespace.values():
            # Not `isinstance`: that asks a proxy for its class, which may fail outside of the proxy's context.
            if issubclass(type(value), kind) and id(value) not in seen:
                seen.add(id(value))
                yield module, cast("T", value)


def _agents_in(modules: Sequence[LoadedModule]) -> tuple[object, ...]:
    """Agents, instances of marked classes, and the classes marked in these modules that have no instance."""
    found = [(module, value) for module in modules for value in module.namespace.values()]
    with_instance: set[object] = {type(value) for _, value in found}
    deployable: dict[int, object] = {}
    for module, value in found:
        if isinstance(value, type) and is_marked(value) and module.defines(value) and not isabstract(value):
            is_deployed = value not in with_instance
        else:
            is_deployed = issubclass(type(value), Agent) or is_marked(type(value))
        if is_deployed:
            deployable[id(value)] = value
    return tuple(deployable.values())


def _exports(modules: Sequence[LoadedModule]) -> tuple[dict[str, Tool], list[LoadProblem]]:
    """The tools of exported functions, methods and `McpToolExport`s by name, and why others are not published.

    If several have the same name, the first is published.
    """
    tools, problems = dict[str, Tool](), list[LoadProblem]()

    def add(module: LoadedModule, tool: Tool, line: int | None = None) -> None:
        known = tools.setdefault(tool.name, tool)
        function = getattr(tool.handler, "function", None)
        # The same method of an object may be marked, and be in an export too.
        is_same = function is not None and getattr(known.handler, "function", None) == function
        if known is not tool and not is_same:
            problems.append(module.problem(_taken(tool.name), line))

    for module, value in _values_in(modules, object):
        marked = (value,) if isfunction(value) and (mark := mark_of(value)) is not None and mark.export else ()
        for function in marked or (getattr(value, name) for name in exported_methods(type(value))):
            line = getattr(Origin(function).written, "__code__").co_firstlineno  # noqa: B009 - of any callable
            with module.attempt(problems, line):
                add(module, Tool.of(function), line)
        if type(value) is McpToolExport:
            with module.attempt(problems):
                for each in value.tools():
                    add(module, each)
                problems += [module.problem(_taken(name)) for name in value.duplicates()]
    return tools, problems


def _taken(name: str) -> str:
    return (
        f"several exported tools are called {name!r}; the first is published, this one is not. "
        "Rename one of them, or give the export a naming such as prefixed('…_')."
    )


def _unmarked_in(modules: Sequence[LoadedModule]) -> Iterator[LoadProblem]:
    """A problem for each class that has actions but is not marked as an agent, or is marked but abstract."""
    served = [each if isinstance(each, type) else type(each) for each in _agents_in(modules)]
    for module in modules:
        for value in module.namespace.values():
            if not isinstance(value, type) or not module.defines(value):
                continue
            lacking = missing_methods(value) if is_marked(value) else ()
            if lacking and not any(issubclass(each, value) for each in served):
                yield module.problem(
                    f"{value.__name__} is marked as an agent, but abstract: it lacks"
                    f" {', '.join(lacking)}. Write that, or mark a subclass that has it."
                )
            if not is_state(value) and lacks_mark(value):
                yield module.problem(
                    f"{value.__name__} has methods that are marked as actions, but is not marked as an agent. Put"
                    ' @agent(description="…") above it; or @component, or @state for a state.'
                )
