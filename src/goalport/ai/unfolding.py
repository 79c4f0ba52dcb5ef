"""Unfolding tools: one tool in front of several, which a model gets to see once it has called the one.

So that a model that may call hundreds of tools chooses between a few first. Above: `loop` unfolds them between turns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from goalport.ai.calling import Called, arguments_of
from goalport.ai.toolbox import Toolbox
from goalport.tools import Tool, ToolResult, tools_of

__all__ = ["UnfoldingTool", "unfold"]

_CATEGORY: Final = "category"
_NOTHING: Final[Mapping[str, object]] = {"type": "object", "properties": {}}


@dataclass(frozen=True, slots=True)
class _Fold:
    """The handler of an unfolding tool: it tells what there is."""

    notes: str = ""
    always: tuple[Tool, ...] = ()
    """Those of no category."""
    categories: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict[str, tuple[Tool, ...]])

    def chosen(self, arguments: Mapping[str, object]) -> tuple[Tool, ...]:
        """The tools that a call is for: of its category, or all where it names none that there is."""
        category = arguments.get(_CATEGORY)
        known = self.categories.get(category) if isinstance(category, str) else None
        wanted = [known] if known is not None else self.categories.values()
        return (*self.always, *(tool for tools in wanted for tool in tools))

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        tools = self.chosen(arguments)
        if not tools:
            return ToolResult.of_error("There are no tools behind this one. Do without them.")
        listed = "\n".join(f"- {each.name}: {_first_line(each.description)}" for each in tools)
        notes = f"\n\n{self.notes}" if self.notes else ""
        return ToolResult.of_text(f"From now on you can call these tools:\n{listed}{notes}")

    @property
    def schema(self) -> Mapping[str, object]:
        """The arguments: which category is wanted, where there are some."""
        if not self.categories:
            return _NOTHING
        described = "Which tools are wanted; all when it is left out."
        category = {"type": "string", "enum": list(self.categories), "description": described}
        return {"type": "object", "properties": {_CATEGORY: category}}


@dataclass(frozen=True)
class UnfoldingTool(Tool):
    """A tool that stands for others: `UnfoldingTool("files", "Work with files").with_tools(read, write)`.

    Immutable: each `with_*` gives a copy. A model sees only this one; once it has called it, the others are offered too
    from its next turn on, and calling it again lists them. Tools behind it may be unfolding tools themselves. Elsewhere
    than in a conversation with a model, over MCP for example, it can only list.
    """

    input_schema: Mapping[str, object] = field(default_factory=lambda: _NOTHING)
    handler: Any = field(default_factory=_Fold)
    read_only: bool | None = True
    checks_arguments: bool = True
    fold: _Fold = field(default_factory=_Fold)

    def with_tools(self, *tools: Tool | Callable[..., Any]) -> Self:
        """Stand for these tools too; a function is one, marked with `@tool` or not."""
        return self._but(replace(self.fold, always=(*self.fold.always, *tools_of(*tools))))

    def with_tool_objects(self, *objects: object) -> Self:
        """Stand for the `@tool` methods of these objects too."""
        return self._but(replace(self.fold, always=(*self.fold.always, *tools_of(*objects))))

    def with_category(self, name: str, *objects: object) -> Self:
        """Stand for these functions, tools and objects too, which appear when this category, or none, is asked for."""
        of_it = (*self.fold.categories.get(name, ()), *tools_of(*objects))
        return self._but(replace(self.fold, categories={**self.fold.categories, name: of_it}))

    def with_usage_notes(self, text: str) -> Self:
        """Say this of the tools when they appear, and not before."""
        return self._but(replace(self.fold, notes=text))

    def _but(self, fold: _Fold) -> Self:
        return replace(self, fold=fold, handler=fold, input_schema=fold.schema)


def unfold(called: Sequence[Called], box: Toolbox) -> tuple[list[Called], Toolbox]:
    """What was called, and the tools that are offered from now on: those behind what was unfolded among them.

    Where such a tool needs another name than its own, because that is taken, the result says so.
    """
    results: list[Called] = []
    for each in called:
        tool = each.tool
        if isinstance(tool, UnfoldingTool) and not each.result.is_error:
            box, renamed = box.plus(each.call.name, tool.fold.chosen(_readable(each)))
            results.append(replace(each, result=_noted(each.result, renamed)))
        else:
            results.append(each)
    return results, box


def _readable(called: Called) -> Mapping[str, object]:
    arguments = arguments_of(called.call)
    return {} if isinstance(arguments, str) else arguments


def _noted(result: ToolResult, renamed: Iterable[tuple[str, str]]) -> ToolResult:
    notes = "".join(f"\nHere {own!r} is called {name!r}." for own, name in renamed)
    return replace(result, text=result.text + notes) if notes else result


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
