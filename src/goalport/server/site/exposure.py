"""Who could call without being authenticated: what the startup report says of it, and what is refused.

`goalport serve` does not listen to other machines unless callers are authenticated. Where another program listens, only
a request tells by which address it came. Above: `app` and `startup`; `guard` checks Host and Origin beside it.
"""

import logging
from collections.abc import Collection, Iterator
from functools import lru_cache
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from goalport.base.hosts import is_loopback, is_wildcard
from goalport.models.llm import TRIAL_MODEL
from goalport.server.auth.guard import route_path
from goalport.server.site.guard import ANY, host_patterns
from goalport.server.web.problems import problem
from goalport.workspace.settings import Settings

_log = logging.getLogger(__name__)
_NOBODY: Final = (
    "Nobody is authenticated: whoever reaches it can call its tools, and see and end what others began. A key for each"
    " who calls (goalport keys new NAME) ends that."
)
_REFUSED: Final = (
    "Refused a request that came to %s: nobody is authenticated here, so only this machine may call. Make a key for"
    " each who is to call (goalport keys new NAME) and start the server again. If what stands before it authenticates"
    " callers, or everybody may do everything, set GOALPORT_AUTH__INSECURE_NO_AUTH=true."
)
_TOLD: Final = "This server authenticates nobody, so it answers its own machine only. Its log says what can be done."


def exposures(settings: Settings) -> Iterator[str]:
    """One sentence for each setting that admits callers from elsewhere, or is not made for them."""
    public = urlsplit(settings.public_url).hostname
    if settings.open_to_others:
        where = "on all interfaces" if is_wildcard(settings.host) else "on an address that other machines may reach"
        yield f"It listens {where} ({settings.host}). {_NOBODY}"
    elif public and not is_loopback(public) and not settings.authenticates:
        yield f"Clients reach it at {settings.public_url}. {_NOBODY}"
    elif not settings.authenticates and (names := _names_of_others(settings)):
        yield f"It answers for {', '.join(sorted(names))}, so others may reach it through a proxy. {_NOBODY}"
    if settings.models.default_llm == TRIAL_MODEL and not settings.on_loopback:
        yield "Its model is `test`, which makes everything up. Choose another default_llm before others call it."
    if ANY in host_patterns(settings.allowed_hosts):
        yield (
            "allowed_hosts is '*', so any Host is answered: a web page can reach this server by a name that it points"
            " at it (DNS rebinding). Name the hosts by which clients call instead."
        )
    if ANY in host_patterns(settings.allowed_origins):
        yield "allowed_origins is '*', so every web page may call this server. Name the pages' origins instead."


def _names_of_others(settings: Settings) -> frozenset[str]:
    """The host names for which the server answers that are not those of the machine itself."""
    names = {each.removesuffix(":*") for each in host_patterns(settings.allowed_hosts)}
    return frozenset(each for each in names if each != ANY and not is_loopback(each))


class LocalCallers:
    """ASGI middleware that refuses requests which came to an address of this machine that others can reach.

    For a server that authenticates nobody. A request that an app around this one has authenticated passes, and one for
    `open_paths`.
    """

    def __init__(self, app: ASGIApp, open_paths: Collection[str]) -> None:
        self._app = app
        self._open_paths = open_paths
        self._has_logged = False

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or _is_local(_address(scope)) or self._may_pass(scope):
            await self._app(scope, receive, send)
            return
        if not self._has_logged:
            _log.warning(_REFUSED, _address(scope))
        self._has_logged = True
        await problem(HTTPStatus.FORBIDDEN, "no-authentication", _TOLD)(scope, receive, send)

    def _may_pass(self, scope: Scope) -> bool:
        """Whether a request needs no authentication, or an app around this one says who calls, as Starlette has it."""
        user: Any = scope.get("user")
        return route_path(scope) in self._open_paths or bool(getattr(user, "is_authenticated", False))


def _address(scope: Scope) -> str:
    """The address of this machine to which a connection was made; empty if the ASGI server does not tell it."""
    server = scope.get("server")
    return str(server[0]) if server else ""


@lru_cache(maxsize=256)
def _is_local(address: str) -> bool:
    """Whether only this machine can reach an address. A name or the path of a socket is no address of a network."""
    try:
        found: IPv4Address | IPv6Address = ip_address(address)
    except ValueError:
        return True
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback
