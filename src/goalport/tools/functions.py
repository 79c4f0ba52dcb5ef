"""Calling a function as a tool: arguments in, result out.

Sync functions run in a worker thread so that they cannot hold the server; a cancelled call abandons its thread.
Failures are not handled here: the tool turns them into results.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from anyio import to_thread

from goalport.tools.arguments import Arguments
from goalport.tools.outputs import Output
from goalport.tools.results import ToolResult

__all__ = ["FunctionHandler"]


@dataclass(frozen=True, slots=True)
class FunctionHandler:
    """The handler of a tool that is a function."""

    function: Callable[..., Any]
    arguments: Arguments
    output: Output

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        positional, named = self.arguments.bind(arguments)
        call = partial(self.function, *positional, **named)
        value = call() if _is_async(self.function) else await to_thread.run_sync(call, abandon_on_cancel=True)
        return self.output.result(await value if inspect.isawaitable(value) else cast("object", value))


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = cast("Callable[..., Any]", function.func)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
