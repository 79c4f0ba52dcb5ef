"""Calling users' functions as tools, in a task or a worker thread; whatever they raise ends only the call.

An event loop treats an exception that is no `Exception`, such as SystemExit, as its own end or that of a task; raised
by a tool, it would stop the server. A thread cannot be stopped, so an abandoned one counts against the limit of
threads until it has really ended. Above: `definition`, and the contexts that call actions; below: arguments, results.
"""

import asyncio
import inspect
import logging
import math
from asyncio import CancelledError, Task, current_task
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from threading import Lock
from types import CodeType, FunctionType, TracebackType
from typing import Any, Generic, TypeVar, cast

from anyio import CapacityLimiter, WouldBlock, to_thread

from goalport.base.errors import NonRetryable, leaves
from goalport.base.introspection import Origin
from goalport.base.secrecy import hide
from goalport.tools.arguments import CURRENT, PREPARE, Arguments
from goalport.tools.results import Output, ToolResult

V = TypeVar("V")
_log = logging.getLogger(__name__)


class Interruption(BaseException):
    """A tool call cannot go on until something has happened outside of it, such as the answer of a person.

    It is no failure and no `Exception`, so that users' code does not catch it by accident. Tools that run at the same
    time finish first; then it is raised to the caller that knows when to try again.
    """


class Contained:
    """A block around a call that lets through only exceptions, interruptions and the cancellation of its own task."""

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
        elif not _is_for_the_loop(escape) and _runs_in(task):
            raise NonRetryable(_in_words(escape)) from escape


class ContextValue(Generic[V]):
    """A block in which a context variable has a value; several are entered for each action, so it has to be quick."""

    __slots__ = ("token", "value", "variable")

    def __init__(self, variable: ContextVar[V], value: V) -> None:
        self.variable, self.value = variable, value

    def __enter__(self) -> None:
        self.token = self.variable.set(self.value)

    def __exit__(self, *_: object) -> None:
        self.variable.reset(self.token)


class ContextValues:
    """A block in which several context variables, which have defaults, have values; one by one, it takes twice as long.

    One that has its value already is not set: to look takes a tenth of the time.
    """

    __slots__ = ("_tokens", "_values")

    def __init__(self, *values: tuple[ContextVar[Any], object]) -> None:
        self._values = values

    def __enter__(self) -> None:
        self._tokens = [
            (variable, variable.set(value)) for variable, value in self._values if variable.get() is not value
        ]

    def __exit__(self, *_: object) -> None:
        for variable, token in self._tokens:
            variable.reset(token)


def _is_for_the_loop(escape: BaseException) -> bool:
    """Whether this is a group with an interruption or a cancellation, as a task group raises it."""
    return isinstance(escape, BaseExceptionGroup) and any(
        isinstance(each, (Interruption, CancelledError)) for each in leaves(cast("BaseException", escape))
    )


def _runs_in(task: Task[Any] | None) -> bool:
    """Whether the calling code still runs in the task; not while its coroutine is closed, which must not be stopped."""
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


T = TypeVar("T")


async def in_thread(
    function: Callable[[], T], limiter: CapacityLimiter, when_full: Callable[[], None] | None = None
) -> T:
    """Call a function in a worker thread; when the wait is cancelled, the thread keeps its token until it ends.

    `when_full` is called when the limiter has no token left, before one is waited for.
    """
    token = _ThreadToken(function, limiter)
    try:
        limiter.acquire_on_behalf_of_nowait(token)
    except WouldBlock:
        if when_full is not None:
            when_full()
        await limiter.acquire_on_behalf_of(token)
    try:
        result = await to_thread.run_sync(token.call, abandon_on_cancel=True, limiter=CapacityLimiter(math.inf))
    finally:
        token.leave()
    if isinstance(result, _NonException):
        raise result.error
    return result


@dataclass(frozen=True, slots=True)
class _NonException:
    """An exception of a function that is no `Exception`; an event loop would treat it as its own end, or its task's."""

    error: BaseException


class _ThreadToken(Generic[T]):
    """A token of a limiter, released by the function or by the one who waits for it, whichever ends last."""

    def __init__(self, function: Callable[[], T], limiter: CapacityLimiter) -> None:
        self._function = function
        self._limiter = limiter
        self._loop = asyncio.get_running_loop()
        self._lock = Lock()
        self._runs = self._left = False

    def call(self) -> T | _NonException:
        """Call the function, in its thread, unless the wait for it was cancelled before."""
        with self._lock:
            if self._left:
                raise RuntimeError("Nobody waits for this any more.")
            self._runs = True
        try:
            return self._function()
        except BaseException as error:
            if isinstance(error, Exception):
                raise
            return _NonException(error)
        finally:
            with self._lock:
                self._runs = False
                abandoned = self._left
            if abandoned:
                with suppress(RuntimeError):  # the event loop is closed, and its limiter is gone with it
                    self._loop.call_soon_threadsafe(self._limiter.release_on_behalf_of, self)

    def leave(self) -> None:
        """Note on the event loop that nobody waits for the result any more."""
        with self._lock:
            self._left = True
            running = self._runs
        if not running:
            self._limiter.release_on_behalf_of(self)


@dataclass(frozen=True, slots=True)
class FunctionHandler:
    """The handler of a tool that is a function."""

    function: Callable[..., Any]
    arguments: Arguments
    output: Output

    def check(self, arguments: Mapping[str, object]) -> None:
        """Raises `BadInput` for arguments that the function cannot be called with."""
        self.arguments.check(arguments)

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        if (prepare := PREPARE.get()) is not None and self.arguments.injected:
            await prepare(self.arguments.injected, None)
        positional, named = self.arguments.bind(arguments)
        return self.output.result(await _called(self.function, *positional, **named))


@dataclass(frozen=True, slots=True)
class MappingHandler:
    """The handler of a tool whose function takes all arguments as one mapping."""

    function: Callable[[Mapping[str, object]], Any]
    arguments: Arguments | None
    """How arguments are validated; None: they are passed as they were sent."""
    output: Output

    def check(self, arguments: Mapping[str, object]) -> None:
        """Raises `BadInput` for arguments that do not fit the listed parameters."""
        if self.arguments is not None:
            self.arguments.check(arguments)

    async def __call__(self, arguments: Mapping[str, object]) -> ToolResult:
        given = arguments if self.arguments is None else self.arguments.bind(arguments)[1]
        return self.output.result(await _called(self.function, given))


async def _called(function: Callable[..., Any], *positional: object, **named: object) -> object:
    call = partial(function, *positional, **named)
    with Contained():
        value = call() if _is_async(function) else await in_thread(call, _limiter())
        value = await value if inspect.isawaitable(value) else cast("object", value)
    if isinstance(value, ToolResult) and value.cause is not None:
        _log.warning("A tool failed: %s", hide(value.text), exc_info=value.cause)
    return value


def _limiter() -> CapacityLimiter:
    return to_thread.current_default_thread_limiter()


def _is_async(function: Callable[..., Any]) -> bool:
    while isinstance(function, partial):
        function = cast("Callable[..., Any]", function.func)
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004


def needs_process(function: Callable[..., object]) -> bool:
    """Whether the code of a function, or of those of its module that it calls, names what only a process has.

    That is a type with a current object, such as `ActionContext`, a function that is marked like one, such as
    `run_subagent`, or a tool that works only in a process.
    """
    written, seen = list[object]([Origin(function).written]), list[object]()
    for each in written:
        if not isinstance(each, FunctionType) or each in seen:
            continue
        seen.append(each)
        for named in (each.__globals__.get(name) for name in _names(each.__code__)):
            if _is_of_process(named):
                return True
            # Uses the type and not the value, as a proxy may fail outside its context when it is asked for its class.
            if issubclass(type(named), FunctionType) and named.__module__ == each.__module__:
                written.append(named)
    return False


def _is_of_process(named: object) -> bool:
    """Whether only a process has what a name stands for: a class, a function or a tool."""
    if issubclass(type(named), type | FunctionType):
        return hasattr(named, CURRENT)
    return hasattr(type(named), "in_process") and getattr(named, "in_process", False) is True


def _names(code: CodeType) -> Iterator[str]:
    """The names that code mentions, also in the functions inside it."""
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names(each)
