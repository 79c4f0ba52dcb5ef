"""Finds what goalport can use in loaded modules: agents, exported tools, and values of a type.

Only the top level of modules is searched, and nothing is changed.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from inspect import isabstract, isfunction
from typing import TypeVar, cast

from goalport.domain import Agent, is_marked, is_state, lacks_mark
from goalport.tools import McpToolExport, Tool, mark_of
from goalport.workspace.loading import LoadedModule, attempt
from goalport.workspace.problems import LoadProblem

__all__ = ["Exports", "agents_in", "collect_exports", "unmarked_in", "values_in"]

T = TypeVar("T")


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
        if _is_agent(value) or (_is_own_class(module, value) and value not in with_instance)
    }
    return tuple(deployable.values())


def collect_exports(modules: Sequence[LoadedModule]) -> Exports:
    """The exported functions and the tools of exports; of several tools with one name the first is kept."""
    collected = Exports()
    for module, value in values_in(modules, object):
        if isfunction(value) and (mark := mark_of(value)) is not None and mark.export:
            line = value.__code__.co_firstlineno
            _add(collected, module, attempt(module.place, lambda found=value: (Tool.of(found),)), line)
        elif type(value) is McpToolExport:
            _add(collected, module, attempt(module.place, value.tools))
            _add_duplicates(collected, module, attempt(module.place, value.duplicates))
    return collected


def unmarked_in(modules: Sequence[LoadedModule]) -> Iterator[LoadProblem]:
    """A problem for each class that has actions but is not marked as an agent."""
    for module in modules:
        for value in module.namespace.values():
            if isinstance(value, type) and module.defines(value) and not is_state(value) and lacks_mark(value):
                yield module.place.problem(
                    f"{value.__name__} has methods that are marked as actions, but is not marked as an agent. Put"
                    ' @agent(description="…") above it; or @component, or @state for a state.'
                )


def _is_agent(value: object) -> bool:
    return issubclass(type(value), Agent) or is_marked(type(value))


def _is_own_class(module: LoadedModule, value: object) -> bool:
    return isinstance(value, type) and is_marked(value) and module.defines(value) and not isabstract(value)


def _add(
    collected: Exports, module: LoadedModule, found: tuple[Tool, ...] | LoadProblem, line: int | None = None
) -> None:
    if isinstance(found, LoadProblem):
        collected.problems.append(found if found.line else module.place.problem(found.message, line))
        return
    for each in found:
        if each.name in collected.tools:
            collected.problems.append(module.place.problem(_taken(each.name), line))
        else:
            collected.tools[each.name] = each


def _add_duplicates(collected: Exports, module: LoadedModule, names: tuple[str, ...] | LoadProblem) -> None:
    if not isinstance(names, LoadProblem):
        collected.problems += [module.place.problem(_taken(name)) for name in names]


def _taken(name: str) -> str:
    return (
        f"several exported tools are called {name!r}; the first is published, this one is not. "
        "Rename one of them, or give the export a naming such as prefixed('…_')."
    )
