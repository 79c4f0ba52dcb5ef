"""What whoever calls a tool hears and is asked while an upstream server works on it.

A tool's handler gets arguments and nothing else, so the hooks travel in the context of the call.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

__all__ = ["Ask", "CallHooks", "Progress", "call_hooks", "current_hooks"]

Ask = Callable[[str, Mapping[str, object]], Awaitable[Mapping[str, object] | None]]
"""Asks a person: the server's message and the JSON Schema of the answer. None: declined. A `Signal` that it raises ends
the call, and is raised to whoever called the tool."""
Progress = Callable[[float, float | None, str | None], Awaitable[None]]
"""Hears how far the server is: how much is done, of how much, and in words."""


@dataclass(frozen=True, slots=True)
class CallHooks:
    """Who is asked and who hears of progress; None: nobody."""

    ask: Ask | None = None
    progress: Progress | None = None


_NOBODY = CallHooks()
_HOOKS: ContextVar[CallHooks] = ContextVar("goalport_upstream_hooks", default=_NOBODY)


@contextmanager
def call_hooks(*, ask: Ask | None = None, progress: Progress | None = None) -> Generator[None]:
    """Tools of upstream servers that are called in this block ask and tell these."""
    token = _HOOKS.set(CallHooks(ask, progress))
    try:
        yield
    finally:
        _HOOKS.reset(token)


def current_hooks() -> CallHooks:
    return _HOOKS.get()
