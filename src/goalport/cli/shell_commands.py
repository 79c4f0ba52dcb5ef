"""The commands that a workspace adds to the shell: functions that are given services of the platform.

Their other parameters are read by the parser of the program. Above: `shell`.
"""

import inspect
from collections import OrderedDict
from collections.abc import Callable
from typing import Any, get_type_hints

from goalport.base.errors import DeclarationError
from goalport.cli.terminal import show_lines, show_markdown, show_result
from goalport.cli.workspace import KeptWorkspace
from goalport.server.publish.output import OutputFormat
from goalport.workspace import Command


def bound(command: Command, kept: KeptWorkspace) -> Callable[..., int]:
    """A function of a workspace as a command: services fill its parameters, and its result is printed."""
    function = command.function
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    platform = kept.loaded.platform
    services = {
        name: service
        for name in signature.parameters
        if isinstance(kind := hints.get(name), type)
        and kind is not object
        and (service := platform.service(kind)) is not None
    }

    own = signature.replace(parameters=[each for name, each in signature.parameters.items() if name not in services])

    def run(*arguments: Any, **named: Any) -> int:
        given = own.bind(*arguments, **named)
        result = _called(function, signature, {**given.arguments, **services}, kept)
        _show(result)
        return 0

    run.__signature__ = own
    run.__annotations__ = {name: hint for name, hint in hints.items() if name not in services}
    run.__doc__, run.__name__ = function.__doc__, function.__name__
    return run


def _called(
    function: Callable[..., Any], signature: inspect.Signature, values: dict[str, Any], kept: KeptWorkspace
) -> object:
    """What the function returns; an async one runs on the event loop of the platform."""
    call = inspect.BoundArguments(
        signature, OrderedDict((name, values[name]) for name in signature.parameters if name in values)
    )
    if not inspect.iscoroutinefunction(function):
        return function(*call.args, **call.kwargs)

    async def awaited() -> object:
        await kept.loaded.platform.upstream.open()
        return await function(*call.args, **call.kwargs)

    return kept.runner.run(awaited())


def _show(result: object) -> None:
    """Print what a command returned, as the result of a goal is printed."""
    if result is None:
        return
    if isinstance(result, str):
        show_markdown(result)
        return
    try:
        written = OutputFormat.of(type(result)).written(result).wire
    except DeclarationError:  # JSON cannot express it
        show_lines([str(result)])
        return
    show_result(written, structured=False)
