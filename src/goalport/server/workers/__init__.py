"""Several processes that serve on one port: the socket that they share, their supervisor, and its channel to each.

How a worker accepts connections is in `site`, above; `cli` starts both.
"""

from goalport.server.workers.supervisor import (
    DRAINING,
    WorkerChannel,
    WorkerState,
    address_of,
    bind,
    check_workers,
    closed_terminal,
    reload_signals,
    supervise,
)

__all__ = [
    "DRAINING",
    "WorkerChannel",
    "WorkerState",
    "address_of",
    "bind",
    "check_workers",
    "closed_terminal",
    "reload_signals",
    "supervise",
]
