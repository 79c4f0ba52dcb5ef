"""What every test may use, and how properties are tried."""

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.measured import measured
from tests.postgres import own_postgres, postgres, postgres_files_of_worker
from tests.providers import aimock, provider_process

__all__ = ["aimock", "measured", "own_postgres", "postgres", "postgres_files_of_worker", "provider_process"]

# A busy machine makes examples slow, and the limit that each test has ends a hang: time proves nothing here. Each run
# tries other examples, so many runs of few find what one of many would.
settings.register_profile("goalport", deadline=None, max_examples=30, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("goalport")

# A job in the background ignores Ctrl-C, and so would the programs that tests start and stop with it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
# `nohup make test` ignores SIGHUP likewise. A handler keeps these tests alive, and is not inherited by what they start.
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda number, frame: None)  # noqa: ARG005 - handlers are given both


@pytest.fixture(autouse=True)
def variables_stay_in_their_test() -> Iterator[None]:
    """A workspace that is loaded brings its `.env` into this process; servers of later tests must not inherit it."""
    before = {*os.environ}
    yield
    for name in os.environ.keys() - before - {"PYTEST_CURRENT_TEST"}:
        del os.environ[name]


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Bytes are in no name of a test: an archive holds the time, and all workers have to collect the same names."""
    return argname if isinstance(val, bytes) else None


def pytest_collection_finish() -> None:
    """Keep what collecting has made out of garbage collection, which would look at it throughout the run."""
    gc.freeze()


def pytest_xdist_auto_num_workers() -> int:
    """Two workers for each core, because tests of servers wait for clocks and for other programs."""
    return 2 * (os.cpu_count() or 1)
