"""The environment of programs that are measured by no coverage. No test is in here.

Tracing makes a program start in twice the time. It is left out where a test sees what strangers do (clients, readers of
the documents, benchmarks, servers of others): the same lines of goalport are measured where they are tested.
"""

import os

__all__ = ["unmeasured"]


def unmeasured() -> dict[str, str]:
    """This process's environment, without what makes its children measure themselves."""
    return {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE_")}
