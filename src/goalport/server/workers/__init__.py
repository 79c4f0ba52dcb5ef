"""Several processes that serve on one port: the socket that they share, their supervisor, and its channel to each.

How a worker accepts connections is in `site`, above; `cli` starts both.
"""

from goalport.server.workers.channel import WorkerChannel, WorkerState
from goalport.server.workers.supervisor import (
    DRAINING,
    Terminal,
    address_of,
    bind,
    check_workers,
    reload_signals,
    supervise,
)

__all__ = [
    "DRAINING",
    "Terminal",
    "WorkerChannel",
    "WorkerState",
    "address_of",
    "bind",
    "check_workers",
    "reload_signals",
    "supervise",
]
