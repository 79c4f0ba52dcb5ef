"""The guard: Host and Origin checks before the body of a request is read.

They keep web pages from reaching a server on a user's own machine (DNS rebinding). A refusal tells the client little;
the log says which setting would allow the request.
"""

import asyncio
import logging
import re
from collections.abc import Awaitable, Collection, Iterable, Iterator
from functools import lru_cache, partial
from http import HTTPStatus
from ipaddress import IPv4Address, IPv6Address, ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.hosts import is_loopback, is_wildcard
from goalport.models.llm import TRIAL_MODEL
from goalport.server.auth.guard import route_path
from goalport.server.site.body_limit import LingeringClose
from goalport.server.site.health import HEALTH_PATHS
from goalport.server.site.protocol import RETRY_SECONDS
from goalport.server.web.problems import problem
from goalport.workspace.settings import Settings

_log = logging.getLogger(__name__)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?")
"""A host name, an IPv4 address or an IPv6 address in brackets, with or without a port, and nothing else."""
_MOST_LOGGED: Final = 100
_MOST_REMEMBERED: Final = 256
_TOO_MANY: Final = 503
_WHITESPACE: Final = b" \t"
ANY: Final = "*"


class HostGuard:
    """ASGI middleware that refuses requests for hosts and from web pages that the settings do not allow.

    `exposed_headers` are the response headers that pages may read, besides the usual ones. `closing` is set when the
    server shuts down.
    """

    def __init__(
        self, app: ASGIApp, settings: Settings, exposed_headers: Iterable[str], closing: asyncio.Event
    ) -> None:
        self._app = app
        self._closing = closing
        self._for_pages = CORSMiddleware(
            app,
            allow_origin_regex=".*",  # only requests whose origin the guard allowed come here
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=[*exposed_headers, "WWW-Authenticate"],
        )
        own = host_patterns(() if is_wildcard(settings.host) else [_bracketed(settings.host)])
        self._hosts = host_patterns(settings.allowed_hosts) | _LOOPBACK | own
        self._origins = host_patterns(settings.allowed_origins)
        self._logged: set[str] = set()
        self._serves = lru_cache(_MOST_REMEMBERED)(partial(_allowed, patterns=self._hosts))
        """Whether a Host header is that of this server. Most clients send the same one with each request."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host, origin = _read(scope["headers"])
        if not origin and self._serves(host):
            await self._app(scope, receive, _with_retry_after(send))
            return
        is_health = route_path(scope) in HEALTH_PATHS
        # Load balancers request these by the server's IP address; a DNS rebinding page cannot send that as its Host.
        refusal = self._refusal(host, "" if is_health else origin, _local_address(scope) if is_health else "")
        # Requests that do not come from web pages skip the CORS middleware.
        is_page = bool(origin) and (not is_health or self._origin_allowed(origin, host))
        app = self._for_pages if is_page else self._app
        answer = LingeringClose(refusal, self._closing) if refusal else app
        await answer(scope, receive, _with_retry_after(send))

    def _refusal(self, host: str, origin: str, local: str) -> Response | None:
        if not self._serves(host) and (not local or _without_port(host) != local):
            self._log_refusal("host", host, "allowed_hosts", _without_port(host))
            told = "This server does not answer for that host. Its log says how to allow it."
            return problem(HTTPStatus.MISDIRECTED_REQUEST, "wrong-host", told)
        if origin and not self._origin_allowed(origin, host):
            self._log_refusal("origin", origin, "allowed_origins", origin)
            told = "Pages from there may not call this server. Its log says how to allow it."
            return problem(HTTPStatus.FORBIDDEN, "wrong-origin", told)
        return None

    def _origin_allowed(self, origin: str, host: str) -> bool:
        scheme, _, authority = origin.partition("://")
        name = _without_port(authority)
        if not name:
            return ANY in self._origins or origin in self._origins
        if name in _LOOPBACK or (scheme in {"http", "https"} and authority == host):
            return True
        return ANY in self._origins or origin in self._origins or f"{scheme}://{name}:*" in self._origins

    def _log_refusal(self, kind: str, value: str, setting: str, entry: str) -> None:
        if value in self._logged or len(self._logged) >= _MOST_LOGGED:
            return
        self._logged.add(value)
        _log.warning(
            "Refused a request with the %s %r. If that is how clients reach this server, allow it: GOALPORT_%s=%s,"
            ' or %s = ["%s"] in server/settings.toml.',
            kind,
            value[:200],
            setting.upper(),
            entry[:200],
            setting,
            entry[:200],
        )


def _with_retry_after(send: Send) -> Send:
    """A `send` that adds `retry-after` to a response 503 that has none."""

    def explain(message: Message) -> Awaitable[None]:
        if message["type"] == "http.response.start" and message["status"] == _TOO_MANY:
            later = (b"retry-after", b"%d" % RETRY_SECONDS)
            if not any(name.lower() == later[0] for name, _ in message["headers"]):
                message = {**message, "headers": [*message["headers"], later]}
        return send(message)

    return explain


def _read(headers: list[tuple[bytes, bytes]]) -> tuple[str, str]:
    """The Host and Origin headers; of two Host headers, none counts, since a proxy may have looked at the other one.

    Removes whitespace around all values, as RFC 9110 wants and httptools does not.
    """
    host = origin = b""
    hosts = 0
    for index, (name, value) in enumerate(headers):
        if (stripped := value.strip(_WHITESPACE)) != value:
            headers[index] = (name, stripped)
        if name == b"host":
            host, hosts = value, hosts + 1
        elif name == b"origin":
            origin = value
    if hosts > 1:
        host = b""
    return host.strip().decode("latin-1").lower(), origin.strip().decode("latin-1").lower()


def _local_address(scope: Scope) -> str:
    """The local address of a connection, written as in a Host header."""
    server = scope.get("server")
    return _bracketed(str(server[0])) if server else ""


def host_patterns(entries: Iterable[str]) -> frozenset[str]:
    """Hosts or origins of the settings, as they are compared; `ANY` allows each one."""
    return frozenset(each.strip().rstrip("/").lower() for each in entries)


def _allowed(host: str, patterns: frozenset[str]) -> bool:
    """Whether a Host header matches one of the patterns; a pattern without a port, or with `:*`, allows any port."""
    name = _without_port(host)
    return bool(name) and (ANY in patterns or host in patterns or name in patterns or f"{name}:*" in patterns)


def _without_port(host: str) -> str:
    """The host name, or the IPv6 address in brackets, of a Host header; empty if it is not valid."""
    read = _AUTHORITY.fullmatch(host)
    return read[1] if read else ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


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
    hosts = {each.removesuffix(":*") for each in host_patterns(settings.allowed_hosts)}
    others = [each for each in sorted(hosts) if each != ANY and not is_loopback(each)]
    if settings.open_to_others:
        where = "on all interfaces" if is_wildcard(settings.host) else "on an address that other machines may reach"
        yield f"It listens {where} ({settings.host}). {_NOBODY}"
    elif public and not is_loopback(public) and not settings.authenticates:
        yield f"Clients reach it at {settings.public_url}. {_NOBODY}"
    elif not settings.authenticates and others:
        yield f"It answers for {', '.join(others)}, so others may reach it through a proxy. {_NOBODY}"
    if settings.models.default_llm == TRIAL_MODEL and not settings.on_loopback:
        yield "Its model is `test`, which makes everything up. Choose another default_llm before others call it."
    if ANY in host_patterns(settings.allowed_hosts):
        yield (
            "allowed_hosts is '*', so any Host is answered: a web page can reach this server by a name that it points"
            " at it (DNS rebinding). Name the hosts by which clients call instead."
        )
    if ANY in host_patterns(settings.allowed_origins):
        yield "allowed_origins is '*', so every web page may call this server. Name the pages' origins instead."


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
