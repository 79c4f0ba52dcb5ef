"""The secrets of upstream servers: which they are, and keeping them out of what libraries and servers write to the log.

`goalport.secrecy`, below, replaces known secrets in a text. This module knows the secrets of a configuration, and the
loggers of the libraries that write them. Servers also decide how much is logged: bursts are cut.
"""

import logging
import re
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final
from urllib.parse import parse_qsl, urlsplit

from goalport.secrecy import hide, keep
from goalport.upstream.config import ServerConfig

__all__ = ["BurstLimit", "SecretFilter", "secrets_filtered", "shown_address"]

_KEY_IN_PATH: Final = re.compile(r"(?=[^/]*\d)(?=[^/]*[A-Za-z])[\w=~-]{20,}")
"""A random part of an address; some services know their customers by such an address alone."""
_BURST: Final = 20
"""Records from one line of a library that are logged in one period."""
_PERIOD: Final = 10.0
"""Seconds in which bursts are counted."""
_LOGGERS = (
    # The SDK's session logs under this name.
    "client",
    "httpcore2.connection",
    "httpcore2.http11",
    "httpcore2.http2",
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.client",
    "mcp.client.sse",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
"""Loggers of libraries that write addresses, headers or messages."""
_TRANSPORTS = frozenset({"mcp.client.sse", "mcp.client.streamable_http"})
"""Those of these that write a traceback when a connection is lost; `server` logs that in one line, with the reason."""


class BurstLimit:
    """Lets so many log records of one kind through in ten seconds: a server decides how many are written."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._since = 0.0
        self._counts: Counter[object] = Counter()

    def allows(self, kind: object = None) -> bool:
        """Whether one more record of this kind is to be logged now."""
        if monotonic() - self._since > _PERIOD:
            self._since, self._counts = monotonic(), Counter()
        self._counts[kind] += 1
        return self._counts[kind] <= self._limit


class SecretFilter(logging.Filter):
    """Hides the secrets of servers: in texts, and as a filter of loggers, which also cuts bursts of equal records."""

    def __init__(self, servers: Iterable[ServerConfig]) -> None:
        super().__init__()
        self._limit = BurstLimit(_BURST)
        self.learn(servers)

    def learn(self, servers: Iterable[ServerConfig]) -> None:
        """Hide the secrets of these servers from now on, and no others."""
        keep(self, (each for server in servers for each in _secrets(server)))

    def hide(self, text: str) -> str:
        """The text with every known secret replaced by `***`."""
        return hide(text)

    def filter(self, record: logging.LogRecord) -> bool:
        if record.name in _TRANSPORTS and record.exc_info:
            return logging.getLogger(record.name).isEnabledFor(logging.DEBUG) and self._hidden(record)
        return self._hidden(record)

    def _hidden(self, record: logging.LogRecord) -> bool:
        if not self._limit.allows((record.name, record.lineno)) and not record.name.startswith("http"):
            return False
        shown = record.getMessage()
        hidden = hide(shown)
        if hidden != shown:
            record.msg, record.args = hidden, ()
        if record.exc_info:
            # Formatted here: an exception's own text is out of a filter's reach later.
            record.exc_text = hide(_FORMATTER.formatException(record.exc_info))
        return True


_FORMATTER = logging.Formatter()


@contextmanager
def secrets_filtered(secrecy: SecretFilter) -> Generator[None]:
    """Filter what the libraries below log, for as long as the block lasts."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for each in loggers:
        each.addFilter(secrecy)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(secrecy)


def shown_address(config: ServerConfig) -> str:
    """The command of a server, or its address without user, query and random parts: nothing that may be secret."""
    if config.transport == "stdio":
        return config.command
    parts = urlsplit(config.url)
    path = "/".join("***" if _KEY_IN_PATH.fullmatch(each) else each for each in parts.path.split("/"))
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{path}"


def _secrets(config: ServerConfig) -> Iterator[str]:
    yield from config.secrets
    yield from config.env.values()
    for value in config.headers.values():
        yield value
        # `Bearer x`: the second word alone is the secret.
        yield value.rpartition(" ")[2]
    if config.oauth is not None:
        yield config.oauth.client_secret
    if config.url:
        parts = urlsplit(config.url)
        # A user without a password is a key.
        yield parts.password or parts.username or ""
        yield from (each for each in parts.path.split("/") if _KEY_IN_PATH.fullmatch(each))
        yield from (value for _, value in parse_qsl(parts.query))
        yield parts.query
