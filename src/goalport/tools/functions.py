"""Calling a function as a tool: arguments in, result out.

Sync functions run in a worker thread so that they cannot hold the server; a cancelled call abandons its thread.
Failures are not handled here: the tool turns them into results.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from anyio import CapacityLimiter, to_thread

from goalport.tools.arguments import Arguments
from goalport.tools.escapes import Contained
from goalport.tools.outputs import Output
from goalport.tools.results import ToolResult
from goalport.tools.threads import in_thread

__all__ = ["FunctionHandler", "MappingHandler"]


@dataclass(frozen=True, slots=True)
class FunctionHandler:
    """The handler of a tool that is a function."""

    function: Callable[..., Any]
    arguments: Arguments
    output: Output

    def check(self, arguments: Mapping[str, object]) -> None:
        """Raises BadInput for arguments that the function cannot be called with."""
        self.arguments.check(arguments)

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        positional, named = self.arguments.bind(arguments)
        return self.output.result(await _called(self.function, *positional, **named))


@dataclass(frozen=True, slots=True)
class MappingHandler:
    """The handler of a tool whose function takes all arguments as one mapping."""

    function: Callable[[Mapping[str, object]], Any]
    arguments: Arguments | None
    """None: they come as they were sent."""
    output: Output

    def check(self, arguments: Mapping[str, object]) -> None:
        """Raises BadInput for arguments that were not listed so."""
        if self.arguments is not None:
            self.arguments.check(arguments)

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        given = arguments if self.arguments is None else self.arguments.bind(arguments)[1]
        return self.output.result(await _called(self.function, given))


async def _called(function: Callable[..., Any], *positional: object, **named: object) -> object:
    call = partial(function, *positional, **named)
    with Contained():
        value = call() if _is_async(function) else await in_thread(call, _limiter())
        return await value if inspect.isawaitable(value) else cast("object", value)


def _limiter() -> CapacityLimiter:
    return to_thread.current_default_thread_limiter()


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = cast("Callable[..., Any]", function.func)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004
