"""When Python looks for garbage: not during the start of a server, and not among what the start made.

Above: the program, which starts servers, and the site, which knows when one is ready.
"""

import gc
from collections.abc import Generator
from contextlib import contextmanager


@contextmanager
def without_collection() -> Generator[None]:
    """Look for no garbage in this context, until it ends or `collect_among_calls` is called.

    Almost all that a start makes is kept, so looking would take a fifth of its time and find nothing.
    """
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def collect_among_calls() -> None:
    """Look for garbage from now on, but not among what exists now: that halves the latency of the slowest answers.

    Calls leave reference cycles of the SDK's objects behind. The thresholds collect them often enough that a pause is
    short, but not so often that the objects of open calls are scanned again and again. The little garbage of the start
    is frozen too: looking for it would take a tenth of the time that a start takes.
    """
    gc.freeze()
    gc.enable()
    gc.set_threshold(5_000, 50, 50)
