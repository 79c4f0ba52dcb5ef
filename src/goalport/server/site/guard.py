"""The guard: it checks the Host, the Origin and the size of each request before a door gets it.

The checks of Host and Origin keep web pages from reaching a server on a user's own machine (DNS rebinding). A refusal
tells the client little; the log says which setting would allow the request. A body that is too large is refused by its
Content-Length, before anything is read; a body without that header is read first, up to the limit. So a door may read
the whole body. Callers are authenticated in `auth`.
"""

import asyncio
import base64
import binascii
import hashlib
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from http import HTTPStatus
from ipaddress import IPv6Address, ip_address
from typing import Final
from urllib.parse import urlsplit

from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from goalport.base.hosts import is_loopback, is_wildcard
from goalport.base.observe import RateLimitedLog
from goalport.models.llm import TRIAL_MODEL
from goalport.server.auth.guard import answer_until, route_path
from goalport.server.doors.mcp.door import SSE_PATH
from goalport.server.doors.mcp.jsonrpc import replayed
from goalport.server.site.health import HEALTH_PATHS
from goalport.server.web.endpoint import problem
from goalport.workspace.settings import Settings

_log = logging.getLogger(__name__)
_LOOPBACK: Final = frozenset({"localhost", "127.0.0.1", "[::1]"})
_AUTHORITY: Final = re.compile(r"(\[[0-9a-f:.]+\]|[a-z0-9_.-]+)(?::[0-9]{1,5})?")
"""A host name, an IPv4 address or an IPv6 address in brackets, with or without a port, and nothing else."""
_MOST_REMEMBERED: Final = 256
_WHITESPACE: Final = b" \t"
_ANY: Final = "*"


class HostGuard:
    """ASGI middleware that refuses requests for hosts and from web pages that the settings do not allow.

    `exposed_headers` are the response headers that pages may read in addition to the usual ones.
    """

    def __init__(self, app: ASGIApp, settings: Settings, exposed_headers: Iterable[str]) -> None:
        self._app = app
        self._for_pages = CORSMiddleware(
            app,
            allow_origin_regex=".*",  # the guard has checked the origin before
            allow_methods=["GET", "POST", "DELETE"],
            allow_headers=["*"],
            expose_headers=[*exposed_headers, "WWW-Authenticate"],
        )
        own = () if is_wildcard(settings.host) else [_bracketed(settings.host)]
        self._hosts = _LOOPBACK | _patterns([*settings.allowed_hosts, *own])
        self._origins = _patterns(settings.allowed_origins)
        self._rate_limited_log = RateLimitedLog()
        self._serves = lru_cache(_MOST_REMEMBERED)(self._is_served)
        """Whether a Host header names this server; cached, since most clients send the same one each time."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        host, origin = _read(scope["headers"])
        if not origin and self._serves(host):
            await self._app(scope, receive, send)
            return
        is_health = route_path(scope) in HEALTH_PATHS
        # Load balancers request these by the server's IP address; a DNS rebinding page cannot send that as its Host.
        name = _without_port(host) if is_health else ""
        served = self._serves(host) or (name and name == _bracketed(_address(scope)))
        allowed = not origin or self._is_allowed(origin, host)
        if not served:
            answer = self._refusal("host", host, _without_port(host), HTTPStatus.MISDIRECTED_REQUEST)
        elif not allowed and not is_health:
            answer = self._refusal("origin", origin, origin, HTTPStatus.FORBIDDEN)
        else:  # requests that do not come from web pages skip the CORS middleware
            answer = self._for_pages if origin and allowed else self._app
        await answer(scope, receive, send)

    def _is_served(self, host: str) -> bool:
        """Whether a Host header matches a pattern; a pattern without a port, or with `:*`, allows any port."""
        name = _without_port(host)
        return bool(name) and not self._hosts.isdisjoint({_ANY, host, name, f"{name}:*"})

    def _is_allowed(self, origin: str, host: str) -> bool:
        scheme, _, authority = origin.partition("://")
        name = _without_port(authority)
        if name in _LOOPBACK or (name and scheme in {"http", "https"} and authority == host):
            return True
        return not self._origins.isdisjoint({_ANY, origin, *([f"{scheme}://{name}:*"] if name else [])})

    def _refusal(self, kind: str, value: str, entry: str, status: HTTPStatus) -> Response:
        setting, entry = f"allowed_{kind}s", entry[:200]
        text = (
            "Refused a request with the %s %r. If that is how clients reach this server, allow it: GOALPORT_%s=%s,"
            ' or %s = ["%s"] in server/settings.toml.'
        )
        given = (kind, value[:200], setting.upper(), entry, setting, entry)
        self._rate_limited_log.log(_log.warning, value[:200], text, *given)
        detail = "This server does not answer for that host"
        if kind == "origin":
            detail = "Pages from there may not call this server"
        return problem(status, f"wrong-{kind}", f"{detail}. Its log says how to allow it.")


def _read(headers: list[tuple[bytes, bytes]]) -> tuple[str, str]:
    """The Host and Origin headers. Two Host headers count as none, since a proxy may have checked the other one.

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


def _patterns(entries: Iterable[str]) -> frozenset[str]:
    """Hosts or origins of the settings, normalized for comparison."""
    return frozenset(each.strip().rstrip("/").lower() for each in entries)


def _without_port(host: str) -> str:
    """The host name, or the IPv6 address in brackets, of a Host header; empty if it is not valid."""
    read = _AUTHORITY.fullmatch(host)
    return read[1] if read else ""


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host and not host.startswith("[") else host


def _address(scope: Scope) -> str:
    """The address of this machine to which a connection was made; empty if the ASGI server does not set it."""
    server = scope.get("server")
    return str(server[0]) if server else ""


_NOBODY: Final = (
    "Nobody is authenticated: whoever reaches it can call its tools, and see and end what others began. A key for each"
    " who calls (goalport keys new NAME) ends that."
)


def exposures(settings: Settings) -> Iterator[str]:
    """A warning for each setting that lets other machines or web pages call, or is unsafe when they can."""
    public, hosts = urlsplit(settings.public_url).hostname, _patterns(settings.allowed_hosts)
    named = {each.removesuffix(":*") for each in hosts}
    others = sorted(each for each in named if each != _ANY and not is_loopback(each))
    if settings.open_to_others:
        where = "on all interfaces" if is_wildcard(settings.host) else "on an address that other machines may reach"
        yield f"It listens {where} ({settings.host}). {_NOBODY}"
    elif public and not is_loopback(public) and not settings.authenticates:
        yield f"Clients reach it at {settings.public_url}. {_NOBODY}"
    elif not settings.authenticates and others:
        yield f"It answers for {', '.join(others)}, so others may reach it through a proxy. {_NOBODY}"
    if settings.models.default_llm == TRIAL_MODEL and not settings.on_loopback:
        yield "Its model is `test`, which makes everything up. Choose another default_llm before others call it."
    if _ANY in hosts:
        yield (
            "allowed_hosts is '*', so any Host is answered: a web page can reach this server by a name that it points"
            " at it (DNS rebinding). Name the hosts by which clients call instead."
        )
    if _ANY in _patterns(settings.allowed_origins):
        yield "allowed_origins is '*', so every web page may call this server. Name the pages' origins instead."


_REFUSED: Final = (
    "Refused a request that came to %s: nobody is authenticated here, so only this machine may call. Make a key for"
    " each who is to call (goalport keys new NAME) and start the server again. If what stands before it authenticates"
    " callers, or everybody may do everything, set GOALPORT_AUTH__INSECURE_NO_AUTH=true."
)
_TOLD: Final = "This server authenticates nobody, so it answers its own machine only. Its log says what can be done."


class LocalCallers:
    """ASGI middleware for a server without authentication: only this machine may call.

    It refuses requests that arrived at an address which other machines can reach. Requests for `open_paths` pass, and
    requests that an app around this one has authenticated in the way of Starlette (`scope["user"]`).
    """

    def __init__(self, app: ASGIApp, open_paths: Collection[str]) -> None:
        self._app = app
        self._open_paths = open_paths
        self._rate_limited_log = RateLimitedLog()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        passes = scope["type"] != "http" or _is_local(_address(scope)) or route_path(scope) in self._open_paths
        if passes or getattr(scope.get("user"), "is_authenticated", False):
            await self._app(scope, receive, send)
            return
        self._rate_limited_log.log(_log.warning, "", _REFUSED, _address(scope))
        await problem(HTTPStatus.FORBIDDEN, "no-authentication", _TOLD)(scope, receive, send)


@lru_cache(maxsize=256)
def _is_local(address: str) -> bool:
    """Whether only this machine can reach an address. A host name or the path of a Unix socket counts as such."""
    try:
        found = ip_address(address)
    except ValueError:
        return True
    mapped = found.ipv4_mapped if isinstance(found, IPv6Address) else None
    return (mapped or found).is_loopback


_EVENTS: Final = b"text/event-stream"


class EndedStreams:
    """ASGI middleware that ends event streams when the server shuts down, which is when `closing` is set.

    A stream that a client opened by GET then ends as if the client had left; not `/sse`, which carries responses to
    calls. If an app returns in the midst of any event stream, the end of the response is sent.
    """

    def __init__(self, app: ASGIApp, closing: asyncio.Event) -> None:
        self._app = app
        self._closing = closing

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        ends_early = scope["type"] == "http" and scope["method"] == "GET" and route_path(scope) != SSE_PATH
        await answer_until(self._closing if ends_early else None, self._app, scope, receive, send, _EVENTS)


_DIGITS: Final = 20
_DIGEST: Final = re.compile(rb"sha-(256|512)=:([A-Za-z0-9+/=]*):")

Refusal = Callable[[HTTPStatus, str, str], Response]
"""Makes a refusal from its status, the end of the `type` of problem details, and its text."""


class BodyLimit:
    """ASGI middleware that answers 413 in place of `app` to a request whose body is larger than `max_bytes`.

    If the body does not match its `Content-Digest` (RFC 9530), it answers 400: a proxy that mixes up bodies would
    otherwise have one caller's request run for another caller. `refusals` are the functions that make these answers for
    the paths of doors, by the first part of a path; elsewhere they are problem details.
    """

    def __init__(self, app: ASGIApp, max_bytes: int, refusals: Mapping[str, Refusal]) -> None:
        self._app = app
        self._max_bytes = max_bytes
        self._refusals = refusals

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        length, in_chunks, digests = 0, False, list[tuple[bytes, bytes]]()
        for name, value in scope["headers"] if scope["type"] == "http" else ():
            if name == b"content-length" and value.isdigit():
                length = int(value.lstrip(b"0")[:_DIGITS] or b"0")  # 20 digits exceed any limit
            elif name == b"transfer-encoding":
                in_chunks = True
            elif name == b"content-digest":
                digests += _DIGEST.findall(value)  # other algorithms are ignored
        if not in_chunks and (length > self._max_bytes or not digests):
            await (self._too_large(scope) if length > self._max_bytes else self._app)(scope, receive, send)
            return
        parts = bytearray()
        message: Message = {}
        while len(parts) <= self._max_bytes and (not message or message.get("more_body")):
            message = await receive()
            parts += message.get("body", b"")
        if message["type"] != "http.request":
            return
        body = {**message, "body": bytes(parts)}
        if len(parts) > self._max_bytes:
            await self._too_large(scope)(scope, receive, send)
        elif not _fit(digests, body["body"]):
            text = "This is not the body whose Content-Digest was sent with it. Send both again."
            await self._refused(scope, HTTPStatus.BAD_REQUEST, "digest-mismatch", text)(scope, receive, send)
        else:
            await self._app(scope, replayed(body, receive), send)

    def _too_large(self, scope: Scope) -> Response:
        _log.warning("Refused a request whose body is larger than %d bytes (max_body_bytes).", self._max_bytes)
        text = f"A request may have {self._max_bytes:,} bytes. Send less, or have the server's max_body_bytes raised."
        return self._refused(scope, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "too-large", text)

    def _refused(self, scope: Scope, status: HTTPStatus, kind: str, text: str) -> Response:
        return self._refusals.get(first_part(route_path(scope)), problem)(status, kind, text)


def first_part(path: str) -> str:
    """The first part of a path, by which the doors are told apart."""
    return path.split("/", 2)[1] if path else ""


def _fit(digests: Iterable[tuple[bytes, bytes]], body: bytes) -> bool:
    try:
        return all(
            hashlib.new(f"sha{bits.decode()}", body).digest() == base64.b64decode(said) for bits, said in digests
        )
    except binascii.Error:
        return False
