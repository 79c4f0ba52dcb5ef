"""Several processes that serve on one port: the socket, the supervisor that accepts, and a worker's end of its channel.

The supervisor accepts connections and hands each to the worker that has the fewest. It loads no workspace, so nothing
that agents do can end it. How a worker serves the connections that it gets is in `site`, above; `cli` starts both.
Below: settings, and the words of errors.
"""

from goalport.server.workers.channel import SESSION_HEADER, WorkerChannel, WorkerState
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
    "SESSION_HEADER",
    "Terminal",
    "WorkerChannel",
    "WorkerState",
    "address_of",
    "bind",
    "check_workers",
    "reload_signals",
    "supervise",
]
