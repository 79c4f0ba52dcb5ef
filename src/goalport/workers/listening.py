"""The listening socket of a server, and its address for clients on this machine. Above: the supervisor, and `site`."""

import socket

from goalport.errors import SettingsError
from goalport.settings import Settings

__all__ = ["address_of", "bind"]


def bind(settings: Settings) -> socket.socket:
    """A socket that listens on the host and port of the settings. Raises `SettingsError` if that is not possible."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    try:
        return socket.create_server((settings.host, settings.port), family=family, backlog=2048)
    except OSError as error:
        reason = error.strerror or str(error)
        raise SettingsError(
            f"Cannot listen on {settings.host} port {settings.port}: {reason}."
            " Choose another with --port (0 takes a free one) and --host, or stop the program that has it."
        ) from None


def address_of(listener: socket.socket) -> str:
    """The URL of a server on this socket, for a client on this machine."""
    bound: tuple[str, int] = listener.getsockname()[:2]
    host, port = bound
    host = "127.0.0.1" if host == "0.0.0.0" else "::1" if host == "::" else host  # noqa: S104 - compared, not bound
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
