"""Which programs that tests start are measured for coverage: those of tests that say so. No test is in here.

Tracing makes a program start in twice the time, and tests start hundreds. Most of what a program does is measured where
it is tested in the tests' own process; `pytestmark = pytest.mark.usefixtures("measured")` is for the rest.
"""

import os
from typing import Final

import pytest

__all__ = ["MEASURED", "measured"]

MEASURED: Final = "COVERAGE_PROCESS_CONFIG"
"""What makes a program measure itself: `coverage run` sets it for the processes below it."""
# pytest's first process keeps it, because the workers that it starts are to be measured.
_CONFIG: Final = os.environ.pop(MEASURED, None) if "PYTEST_XDIST_WORKER" in os.environ else None


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs that this test starts are measured, if tests are."""
    if _CONFIG is not None:
        monkeypatch.setenv(MEASURED, _CONFIG)
