"""Which requests the SDK answers as one JSON body: its setting is for a whole server, and is asked for each request.

`streamable_http`, above, decides; `session_resumption` sends requests of its own, in whose context a session begins.
"""

from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar

_wanted: ContextVar[bool] = ContextVar("goalport_answers_as_json", default=False)


class AnswersAsJson:
    """A value for the SDK's setting `json_response`."""

    def __bool__(self) -> bool:
        return _wanted.get()


@contextmanager
def answers_as_json(*, wanted: bool = True) -> Generator[None]:
    """A context in which the SDK answers requests as JSON, or as event streams."""
    token = _wanted.set(wanted)
    try:
        yield
    finally:
        _wanted.reset(token)
