"""A free port for a baseline server to listen on. It needs the standard library alone: each has its own environment."""

import socket
import sys

__all__ = ["listen"]


def listen() -> socket.socket:
    """Listen on a free port of this machine, and say on standard error that we do."""
    # asyncio switches Nagle's delay off (40 ms per answer) only for sockets that were made with their protocol named.
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.bind(("127.0.0.1", 0))
    listening.listen(512)
    print(f"ready on http://127.0.0.1:{listening.getsockname()[1]}/mcp", file=sys.stderr, flush=True)
    return listening
