"""The hosts at which servers listen: which only this machine can reach, and how they stand in a URL. Floor 0."""

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

__all__ = ["http_url", "is_loopback", "is_secure", "is_wildcard"]

_LOCAL: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1", "[::]": "::1"}  # noqa: S104 - compared, not bound
"""Hosts that stand for all interfaces of a machine, and the one by which the machine itself reaches them."""


def is_loopback(host: str) -> bool:
    """Whether this machine alone can reach what listens at a host."""
    try:
        return host.lower() == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Whether a host stands for all interfaces of a machine."""
    return host in _LOCAL


def http_url(host: str, port: int) -> str:
    """The URL of a server that listens there, for a client on the same machine."""
    reached = _LOCAL.get(host, host)
    return (
        f"http://[{reached}]:{port}" if ":" in reached and not reached.startswith("[") else f"http://{reached}:{port}"
    )


def is_secure(url: str) -> bool:
    """Whether nobody can listen to a request for a URL: it is `https`, or stays on this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))
