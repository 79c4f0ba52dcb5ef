"""What is around a tool while it is called: a way to ask models, and the process that all this is for.

The tool loop notes the engine that it is part of, `process` notes processes and actions. Tools that ask models
themselves look here; they belong to whatever calls them.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace

from goalport.ai.engine import Engine

__all__ = ["Around", "around", "asking_through", "within"]


@dataclass(frozen=True, slots=True)
class Around:
    """What is around the calling code."""

    process: object = None
    """The process on whose behalf it runs, which is a matter of the floors above; None: there is none."""
    engine: Callable[[], Engine] | None = None
    """What models are asked through; None: nothing here asks models."""
    line: tuple[str, ...] = ()
    """The names of the agentic tools that it is called from, the outermost first."""


_around: ContextVar[Around] = ContextVar("goalport_around")


def around() -> Around:
    """What is around the calling code."""
    return _around.get(Around())


@contextmanager
def within(now: Around) -> Generator[None]:
    """The time in which this is around."""
    token = _around.set(now)
    try:
        yield
    finally:
        _around.reset(token)


@contextmanager
def asking_through(engine: Engine) -> Generator[None]:
    """The time in which a tool that asks models does so through this engine."""
    with within(replace(around(), engine=lambda: engine)):
        yield
