"""A loaded workspace: its modules, the problems in some of them, and what goalport can use: agents, tools, values.

Only the top level of modules is searched, and nothing is changed. Below: the loading of modules.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from inspect import isabstract, isfunction
from pathlib import Path
from typing import Any, TypeVar, cast, overload

from pydantic import BaseModel

from goalport.agents.domain import Agent, is_marked, is_state, lacks_mark
from goalport.base.errors import WorkspaceError
from goalport.base.introspection import Origin, lacking_in
from goalport.tools import McpToolExport, Tool, mark_of
from goalport.tools.definition import exported_methods
from goalport.workspace.declarations import Declaration, declaration_of, table_of
from goalport.workspace.importer import install_importer
from goalport.workspace.loading import LoadedModule, LoadProblem, attempt, find_modules, load_module
from goalport.workspace.settings import share_environment

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "__goalport_command__"


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

    Its parameters are the arguments of the command: positional-only ones are given by place, the others by name. A
    parameter whose type is `AgentPlatform`, or that of another service of the platform, gets that service. The
    docstring is the help, and what it returns is printed. `name` defaults to the function's, with dashes.
    """
    if function is None:
        return partial(_put, name)
    return _put(name, function)


def command_of(function: object) -> Command | None:
    """The command that a function is marked as."""
    found = getattr(function, _ATTRIBUTE, None)
    return found if isinstance(found, Command) else None


def _put(name: str, function: Any) -> Any:
    if not callable(function) or isinstance(function, type):
        raise TypeError(f"@command marks functions, but came to {function!r}. Mark the function itself.")
    setattr(function, _ATTRIBUTE, Command(name or function.__name__.strip("_").replace("_", "-"), function))
    return function


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

    def commands(self) -> tuple[Command, ...]:
        """The functions that are marked as commands of the shell, in file and definition order."""
        functions = (value for _, value in values_in(self.modules, object) if isfunction(value))
        return tuple(found for value in functions if (found := command_of(value)) is not None)

    def settings(self) -> tuple[tuple[str, type[BaseModel]], ...]:
        """The classes that are marked as settings, each after the name of its table, in file and definition order."""
        classes = (value for _, value in values_in(self.modules, type))
        return tuple((table, value) for value in classes if (table := table_of(value)) is not None)

    def declarations(self) -> tuple[Declaration, ...]:
        """The services and all else that is marked to be made by the platform, in file and definition order."""
        values = (value for _, value in values_in(self.modules, object))
        return tuple(found for value in values if (found := declaration_of(value)) is not None)

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
    share_environment(root)
    install_importer(root, fresh=fresh)
    results = [each if isinstance(each, LoadProblem) else load_module(each) for each in find_modules(root)]
    modules = tuple(each for each in results if isinstance(each, LoadedModule))
    exports = collect_exports(modules)
    problems = [*(each for each in results if isinstance(each, LoadProblem)), *exports.problems, *unmarked_in(modules)]
    tools = tuple(exports.tools[name] for name in sorted(exports.tools))
    return Workspace(root, modules, tuple(problems), tools, tuple(_hints(root, modules, problems)))


def _hints(root: Path, modules: Sequence[LoadedModule], problems: Sequence[LoadProblem]) -> Iterator[str]:
    for each in modules:
        if each.file.is_package and not each.namespace:
            yield f"{each.path} defines nothing, so nothing of its folder is served. Import the agent there."
    for module, value in values_in(modules, object):
        unserved = getattr(type(value), "__goalport_unserved__", None)
        if unserved is not None and (why := unserved(value)):
            yield f"{module.path}: {why}"
    if not (root / "agents").exists():
        yield f"{root} has no agents/ folder. Put an agent in agents/NAME.py, or let `goalport new` make an example."
    elif not problems and not agents_in([each for each in modules if each.name.startswith("agents.")]):
        yield f"There is no agent in {root / 'agents'}. Mark a class with @agent, at the top level of a module there."


@dataclass
class Exports:
    """The tools to publish, and the problems that keep others from being published."""

    tools: dict[str, Tool] = field(default_factory=dict[str, Tool])
    problems: list[LoadProblem] = field(default_factory=list[LoadProblem])


def values_in(modules: Iterable[LoadedModule], kind: type[T]) -> Iterator[tuple[LoadedModule, T]]:
    """The values of a type, each once and in order, with the module in which each was found first."""
    seen: set[int] = set()
    for module in modules:
        for value in module.namespace.values():
            # Uses the type and not the value, as a proxy may fail outside its context when it is asked for its class.
            if issubclass(type(value), kind) and id(value) not in seen:
                seen.add(id(value))
                yield module, cast("T", value)


def agents_in(modules: Sequence[LoadedModule]) -> tuple[object, ...]:
    """Agents, instances of marked classes, and the classes marked in these modules that have no instance."""
    found = [(module, value) for module in modules for value in module.namespace.values()]
    with_instance: set[object] = {type(value) for _, value in found}
    deployable = {
        id(value): value
        for module, value in found
        if issubclass(type(value), Agent)
        or is_marked(type(value))
        or (_is_own_class(module, value) and value not in with_instance)
    }
    return tuple(deployable.values())


def collect_exports(modules: Sequence[LoadedModule]) -> Exports:
    """The exported functions, methods of objects, and tools of exports; of those with one name the first is kept."""
    collected = Exports()
    for module, value in values_in(modules, object):
        marked = (value,) if isfunction(value) and (mark := mark_of(value)) is not None and mark.export else ()
        for function in marked or (getattr(value, name) for name in exported_methods(type(value))):
            line = getattr(Origin(function).written, "__code__").co_firstlineno  # noqa: B009 - of any callable
            _add(collected, module, attempt(module.file, lambda found=function: (Tool.of(found),)), line)
        if type(value) is McpToolExport:
            _add(collected, module, attempt(module.file, value.tools))
            twins = attempt(module.file, value.duplicates)
            collected.problems += [
                module.file.problem(_taken(name)) for name in (() if isinstance(twins, LoadProblem) else twins)
            ]
    return collected


def unmarked_in(modules: Sequence[LoadedModule]) -> Iterator[LoadProblem]:
    """A problem for each class that has actions but is not marked as an agent, or is marked and cannot be made one."""
    served = [each if isinstance(each, type) else type(each) for each in agents_in(modules)]
    for module in modules:
        for value in module.namespace.values():
            if not isinstance(value, type) or not module.defines(value):
                continue
            lacking = lacking_in(value) if is_marked(value) else ()
            if lacking and not any(issubclass(each, value) for each in served):
                yield module.file.problem(
                    f"{value.__name__} is marked as an agent, but abstract: it lacks"
                    f" {', '.join(lacking)}. Write that, or mark a subclass that has it."
                )
            if not is_state(value) and lacks_mark(value):
                yield module.file.problem(
                    f"{value.__name__} has methods that are marked as actions, but is not marked as an agent. Put"
                    ' @agent(description="…") above it; or @component, or @state for a state.'
                )


def _is_own_class(module: LoadedModule, value: object) -> bool:
    return isinstance(value, type) and is_marked(value) and module.defines(value) and not isabstract(value)


def _add(
    collected: Exports, module: LoadedModule, found: tuple[Tool, ...] | LoadProblem, line: int | None = None
) -> None:
    if isinstance(found, LoadProblem):
        collected.problems.append(found if found.line else module.file.problem(found.message, line))
        return
    for each in found:
        if _same(collected.tools.get(each.name), each):
            continue
        if each.name in collected.tools:
            collected.problems.append(module.file.problem(_taken(each.name), line))
        else:
            collected.tools[each.name] = each


def _same(first: Tool | None, second: Tool) -> bool:
    """Whether two tools are one method of one object, which is marked and in an export too."""
    function = getattr(second.handler, "function", None)
    return function is not None and getattr(first and first.handler, "function", None) == function


def _taken(name: str) -> str:
    return (
        f"several exported tools are called {name!r}; the first is published, this one is not. "
        "Rename one of them, or give the export a naming such as prefixed('…_')."
    )
