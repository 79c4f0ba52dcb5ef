"""What a call gives whose `await` may be forgotten: to be awaited, and refused as a yes, a text or an object.

A coroutine is true, so that `if context.ask("Delete all?", bool):` would delete.
"""

from collections.abc import Callable, Coroutine, Generator
from functools import wraps
from typing import Any, NoReturn, ParamSpec, TypeVar

from goalport.base.errors import NonRetryable

P = ParamSpec("P")
T = TypeVar("T")


def to_be_awaited(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Coroutine[Any, Any, T]]:
    """The same async function; whoever uses what it gives without `await` is told so."""

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, T]:
        return _Unawaited(function(*args, **kwargs), function.__name__)

    return call


class _Unawaited(Coroutine[Any, Any, T]):
    """A coroutine that cannot be taken for its result."""

    __slots__ = ("_coroutine", "_name")

    def __init__(self, coroutine: Coroutine[Any, Any, T], name: str) -> None:
        self._coroutine, self._name = coroutine, name

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: object, /) -> Any:
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coroutine.throw(*error)

    def close(self) -> None:
        self._coroutine.close()

    def __bool__(self) -> NoReturn:
        raise NonRetryable(self._refuse())

    __str__ = __iter__ = __bool__

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith(("_", "cr_", "gi_")):  # asyncio looks whether a coroutine has some of these
            raise AttributeError(name)
        raise AttributeError(self._refuse())

    def _refuse(self) -> str:
        self.close()  # otherwise Python warns of it a second time, later and elsewhere
        return f"The result of {self._name}(…) was not awaited. Write `await` before it, in an `async def`."
