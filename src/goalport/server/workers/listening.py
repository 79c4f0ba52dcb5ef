"""The listening socket of a server, and its address for clients on this machine. Above: the supervisor, and `site`."""

import socket
from typing import Final

from goalport.base.errors import SettingsError
from goalport.base.hosts import http_url
from goalport.workspace.settings import Settings

DRAINING: Final = "Not ready any more; connections are refused in {:g} s (drain_seconds). A second signal ends at once."

_OPEN: Final = (
    "The host is {!r}, so other machines could call this server, and nobody would be authenticated. Make a key for each"
    " who is to call it: goalport keys new NAME. Or, where everybody who reaches it may do everything, say so:"
    " --insecure-no-auth (GOALPORT_AUTH__INSECURE_NO_AUTH=true, or insecure_no_auth = true under [auth] in"
    " server/settings.toml)."
)


def bind(settings: Settings) -> socket.socket:
    """A socket that listens on the host and port of the settings.

    Raises `SettingsError` if that is not possible, and if others could call there while nobody is authenticated.
    """
    if settings.open_to_others and not settings.auth.insecure_no_auth:
        raise SettingsError(_OPEN.format(settings.host))
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
    return http_url(*bound)
