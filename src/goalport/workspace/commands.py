"""The decorator `@command`: a function of a workspace that becomes a command of `goalport shell`.

It marks a function and returns it unchanged. It is here and not with the command line, because that is the top floor,
which loads every room, and a workspace is loaded without it too. Above: `folder` finds what is marked.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar, overload

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
