"""The hosts at which servers listen, and the IP addresses of their clients.

It says which hosts only this machine can reach, how a host is written in a URL, and which IP addresses count as one.
"""

from ipaddress import IPv4Address, IPv6Network, ip_address
from typing import Final
from urllib.parse import urlsplit

_LOCAL: Final = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1", "[::]": "::1"}  # noqa: S104 - compared, not bound
"""Wildcard hosts (all interfaces of a machine), and for each the loopback address to connect to."""
_PREFIX_LENGTH: Final = 64


def is_loopback(host: str) -> bool:
    """Whether this machine alone can reach what listens at a host."""
    try:
        return host.lower() == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def is_wildcard(host: str) -> bool:
    """Whether a host to listen at means all interfaces of a machine, such as `0.0.0.0`."""
    return host in _LOCAL


def http_url(host: str, port: int) -> str:
    """The URL of a server at this host and port, for a client on the same machine."""
    reached = _LOCAL.get(host, host)
    return (
        f"http://[{reached}]:{port}" if ":" in reached and not reached.startswith("[") else f"http://{reached}:{port}"
    )


def is_secure(url: str) -> bool:
    """Whether nobody can eavesdrop on a request to a URL: it is `https`, or does not leave this machine."""
    parts = urlsplit(url)
    return parts.scheme == "https" or (parts.scheme == "http" and is_loopback(parts.hostname or ""))


def source_of(address: str) -> str:
    """The key for limits per client: the IPv4 address, or the /64 network of an IPv6 address; "" for any other text."""
    try:
        found = ip_address(address.partition("%")[0])
    except ValueError:
        return ""
    if isinstance(found, IPv4Address):
        return str(found)
    return str(found.ipv4_mapped or IPv6Network((found, _PREFIX_LENGTH), strict=False))
