"""What must not be shown, and taking it out of a text: errors, logs and reports of upstream servers all pass here."""

import logging
from collections.abc import Generator, Iterable, Iterator
from contextlib import contextmanager
from urllib.parse import parse_qsl, urlsplit

from goalport.upstream.config import ServerConfig

__all__ = ["Secrecy", "keeping_secrets", "place_of"]

_SHORTEST = 5
"""Shorter values are not looked for: taking out each `1` and `true` would leave nothing to read."""
_LOGGERS = (
    "httpx2",
    "mcp.client.auth.oauth2",
    "mcp.client.session",
    "mcp.client.sse",
    "mcp.client.stdio",
    "mcp.client.streamable_http",
    "mcp.shared.jsonrpc_dispatcher",
)
"""Loggers of libraries that write addresses, headers or messages."""


class Secrecy(logging.Filter):
    """Takes the secrets of servers out of texts, and out of log records when it is a logger's filter."""

    def __init__(self, servers: Iterable[ServerConfig]) -> None:
        super().__init__()
        self.learn(servers)

    def learn(self, servers: Iterable[ServerConfig]) -> None:
        """Look for the secrets of these servers from now on, and for no others."""
        found = {each for server in servers for each in _secrets(server) if len(each) >= _SHORTEST}
        # The longest first: one that is a part of another would leave the other's rest.
        self._secrets = sorted(found, key=len, reverse=True)

    def hide(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text

    def filter(self, record: logging.LogRecord) -> bool:
        shown = record.getMessage()
        hidden = self.hide(shown)
        if hidden != shown:
            record.msg, record.args = hidden, ()
        if record.exc_info and self._secrets:
            # Formatted here: an exception's own text is out of a filter's reach later.
            record.exc_text = self.hide(_FORMATTER.formatException(record.exc_info))
        return True


_FORMATTER = logging.Formatter()


@contextmanager
def keeping_secrets(secrecy: Secrecy) -> Generator[None]:
    """Filter what the libraries underneath log, for as long as the block lasts."""
    loggers = [logging.getLogger(name) for name in _LOGGERS]
    for each in loggers:
        each.addFilter(secrecy)
    try:
        yield
    finally:
        for each in loggers:
            each.removeFilter(secrecy)


def place_of(config: ServerConfig) -> str:
    """Where a server is, without anything that may be secret: its command, or its address without user and query."""
    if config.transport == "stdio":
        return config.command
    parts = urlsplit(config.url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


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
        yield parts.password or ""
        yield from (value for _, value in parse_qsl(parts.query))
        yield parts.query
