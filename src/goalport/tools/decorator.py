"""The decorator `@tool`. It marks a function and returns it unchanged; the function is read when its tool is made."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, overload

from goalport.base.caller import require_scopes

F = TypeVar("F", bound=Callable[..., Any])
_ATTRIBUTE = "__goalport_tool__"


@dataclass(frozen=True, kw_only=True, slots=True)
class ToolMark:
    """The settings that `@tool` gave to a function."""

    name: str = ""
    title: str = ""
    description: str = ""
    read_only: bool | None = None
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool | None = None
    return_direct: bool = False
    export: bool = False
    scopes: Sequence[str] | None = None

    def __post_init__(self) -> None:
        require_scopes("scopes", self.scopes)


@overload
def tool(function: F, /) -> F: ...
@overload
def tool(
    *,
    name: str = "",
    title: str = "",
    description: str = "",
    read_only: bool | None = None,
    destructive: bool | None = None,
    idempotent: bool | None = None,
    open_world: bool | None = None,
    return_direct: bool = False,
    export: bool = False,
    scopes: Sequence[str] | None = None,
) -> Callable[[F], F]: ...
def tool(function: Callable[..., Any] | None = None, /, **settings: Any) -> Any:
    """Mark a function or method as a tool that a model may call; its signature is the schema.

    `name` defaults to the function's and `description` to its docstring; `title` is for people. `read_only`,
    `destructive`, `idempotent` and `open_world` are hints for the host that asks its user before a call.
    `return_direct`: the result goes to the user and not back to the model. `export`: it is published over MCP, as a
    <<<<<<< HEAD
    function or as a method of an object at the top level of a module. `scopes`: those that a client needs to call it,
    =======
    function, or as a method of an object, at the top level of a module. `scopes`: those that a client needs to call it,
    >>>>>>> tools32
    all of them; by default the scope to read for a tool that is `read_only`, else the scope to write.
    """
    mark = ToolMark(**settings)
    return partial(_put, mark) if function is None else _put(mark, function)


def mark_of(function: object) -> ToolMark | None:
    """The mark on a function, also on one inside a staticmethod, classmethod or bound method."""
    for marked in (function, getattr(function, "__func__", None)):
        mark = getattr(marked, _ATTRIBUTE, None)
        if isinstance(mark, ToolMark):
            return mark
    return None


def _put(mark: ToolMark, function: Any) -> Any:
    is_function = callable(function) or hasattr(function, "__func__")
    if not is_function or isinstance(function, type):
        raise TypeError(f"@tool marks functions and methods, but came to {function!r}. Mark the function itself.")
    setattr(function, _ATTRIBUTE, mark)
    return function
