"""Calling functions of users so that nothing comes out that would end more than the call.

An event loop takes what is no `Exception` for its own end, or that of a task: a tool that raises such a thing would
take the server with it. Above: the handlers of tools, and the contexts that call actions.
"""

from asyncio import CancelledError, Task, current_task
from types import TracebackType
from typing import Any, cast

from goalport.errors import NonRetryable

__all__ = ["Contained", "Interruption"]


class Interruption(BaseException):
    """What a tool is called for cannot go on until something has happened outside of it: a person has answered.

    No failure, and no `Exception`: no user's code may swallow it. Tools that run at the same time come to their end
    before it goes on to whoever knows when to try again.
    """


class Contained:
    """A block around a call, out of which come exceptions, interruptions and the cancellation of its task only."""

    __slots__ = ("_task",)

    def __enter__(self) -> None:
        self._task = current_task()

    def __exit__(self, _kind: object, escape: BaseException | None, _traceback: TracebackType | None) -> None:
        if escape is None or isinstance(escape, (Exception, Interruption)):
            return
        task = self._task
        if isinstance(escape, CancelledError):
            if task is None or not task.cancelling():
                words = "Something that it waited for was cancelled. Catch that where it is awaited."
                raise NonRetryable(words) from None
        elif not _belongs_to_the_loop(escape) and _runs_in(task):
            raise NonRetryable(_in_words(escape)) from escape


def _belongs_to_the_loop(escape: BaseException) -> bool:
    """Whether this is how waiting for a person or a cancellation comes out of a task group."""
    kinds = (Interruption, CancelledError)
    return isinstance(escape, BaseExceptionGroup) and bool(cast("BaseExceptionGroup[Any]", escape).subgroup(kinds))


def _runs_in(task: Task[Any] | None) -> bool:
    """Whether the calling code still runs in a task; not when its coroutine is closed, which nothing may stop."""
    try:
        return current_task() is task
    except RuntimeError:
        return False


def _in_words(escape: BaseException) -> str:
    if isinstance(escape, SystemExit):
        return "It tried to exit the program (SystemExit). Raise an error instead."
    return (
        f"It raised {type(escape).__name__}, which is no Exception and is for ending programs. Raise an error instead."
    )
