"""Unfolding tools: one tool in front of several, which a model gets to see once it has called the one.

So that a model that may call hundreds of tools chooses between a few first. Above: `loop` unfolds them between turns.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from goalport.ai.calling import Called, arguments_of
from goalport.ai.toolbox import Toolbox
from goalport.tools import Parameter, Tool, ToolResult, tools_of
from goalport.tools.arguments import Arguments, listed_arguments

__all__ = ["Selector", "UnfoldingTool", "unfold"]

_CATEGORY: Final = "category"
_NOTHING: Final[Mapping[str, object]] = {"type": "object", "properties": {}}
Selector = Callable[[Mapping[str, Any], Sequence[Tool]], Iterable[Tool]]
"""Which tools a call is for, of the call's arguments and all tools that stand behind the unfolding one."""


@dataclass(frozen=True, slots=True)
class _Fold:
    """The handler of an unfolding tool: it tells what there is."""

    notes: str = ""
    always: tuple[Tool, ...] = ()
    """Those of no category."""
    categories: Mapping[str, tuple[Tool, ...]] = field(default_factory=dict[str, tuple[Tool, ...]])
    selector: Selector | None = None
    taken: Arguments | None = None
    """What the selector is given."""
    exclusive: bool = False
    """Whether all other tools go when these appear."""

    def chosen(self, arguments: Mapping[str, object]) -> tuple[Tool, ...]:
        """The tools that a call is for: as the selector says; or of its category, all where it names none there is.

        Raises `BadInput` for arguments that the selector does not take.
        """
        if self.selector is not None and self.taken is not None:
            everything = (*self.always, *(tool for tools in self.categories.values() for tool in tools))
            return tools_of(*self.selector(self.taken.bind(arguments)[1], everything))
        category = arguments.get(_CATEGORY)
        known = self.categories.get(category) if isinstance(category, str) else None
        wanted = [known] if known is not None else self.categories.values()
        return (*self.always, *(tool for tools in wanted for tool in tools))

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        tools = self.chosen(arguments)
        if not tools:
            wanted = "such tools" if self.selector else "tools"
            return ToolResult.of_error(f"There are no {wanted} behind this one. Do without them.")
        listed = "\n".join(f"- {each.name}: {_first_line(each.description)}" for each in tools)
        notes = f"\n\n{self.notes}" if self.notes else ""
        only = ", and no others but this one" if self.exclusive else ""
        return ToolResult.of_text(f"From now on you can call these tools{only}:\n{listed}{notes}")

    @property
    def schema(self) -> Mapping[str, object]:
        """The arguments: what the selector takes, else which category is wanted, where there are some."""
        if self.taken is not None:
            return self.taken.schema({})
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

    def with_selector(self, select: Selector, *parameters: Parameter) -> Self:
        """Let a function choose what appears, in the place of categories.

        It gets the arguments of the call, for which these parameters stand, and all tools behind this one. It must
        choose the same when it is asked again. What it raises is told to the model.
        """
        taken = listed_arguments(f"UnfoldingTool {self.name!r}", parameters)
        return self._but(replace(self.fold, selector=select, taken=taken))

    def with_exclusive(self, exclusive: bool = True) -> Self:  # noqa: FBT001, FBT002 - reads as a sentence
        """Let all other tools go when these appear, for the rest of the conversation; this one stays."""
        return self._but(replace(self.fold, exclusive=exclusive))

    def with_usage_notes(self, text: str) -> Self:
        """Say this of the tools when they appear, and not before."""
        return self._but(replace(self.fold, notes=text))

    def _but(self, fold: _Fold) -> Self:
        return replace(self, fold=fold, handler=fold, input_schema=fold.schema)


def unfold(called: Sequence[Called], box: Toolbox) -> tuple[list[Called], Toolbox]:
    """What was called, and the tools that are offered from now on: those behind what was unfolded among them.

    Where such a tool needs another name than its own, because that is taken, the result says so. Where one of them is
    exclusive, nothing stays but what was unfolded in this turn.
    """
    results: list[Called] = []
    unfolded = {each.call.name: each.tool for each in called if _unfolds(each)}
    if any(each.fold.exclusive for each in unfolded.values() if isinstance(each, UnfoldingTool)):
        box = Toolbox({name: tool for name, tool in box.tools.items() if name in unfolded})
    for each in called:
        tool = each.tool
        if isinstance(tool, UnfoldingTool) and _unfolds(each):
            box, renamed = box.plus(each.call.name, tool.fold.chosen(_readable(each)))
            results.append(replace(each, result=_noted(each.result, renamed)))
        else:
            results.append(each)
    return results, box


def _unfolds(called: Called) -> bool:
    return isinstance(called.tool, UnfoldingTool) and not called.result.is_error


def _readable(called: Called) -> Mapping[str, object]:
    arguments = arguments_of(called.call)
    return {} if isinstance(arguments, str) else arguments


def _noted(result: ToolResult, renamed: Iterable[tuple[str, str]]) -> ToolResult:
    notes = "".join(f"\nHere {own!r} is called {name!r}." for own, name in renamed)
    return replace(result, text=result.text + notes) if notes else result


def _first_line(text: str) -> str:
    return text.strip().partition("\n")[0]
