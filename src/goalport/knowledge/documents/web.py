"""Requests to the web, GET and POST: with limits, and never to servers of the local network by accident.

A URL in a document may lead to a server that only this machine can reach (SSRF). Therefore each host is resolved and
checked first, also after each redirect. The connection goes to the checked IP address, even if the name resolves to
another one a moment later. Below: errors. Above: `github`, references to pages, ingestion, and the notifications of
A2A. httpx2 is imported at first use.
"""

import re
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Collection, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from socket import SOCK_STREAM
from ssl import SSLContext
from typing import TYPE_CHECKING, Final

import anyio

from goalport.base.errors import DocumentError
from goalport.base.words import listed, one_line

if TYPE_CHECKING:
    from httpx2 import URL, AsyncBaseTransport, AsyncClient, Response

Address = IPv4Address | IPv6Address
Resolve = Callable[[str, int], Awaitable[Sequence[str]]]
"""Returns the IP addresses of a host and port."""
_REDIRECTS: Final = frozenset({301, 302, 303, 307, 308})
_PORTS: Final = {"http": 80, "https": 443}
_OK: Final = 200
_NAT64: Final = IPv6Network("64:ff9b::/96")
_PIECE: Final = 65_536
"""Bytes that are decompressed at a time."""
_GZIP: Final = 16 + zlib.MAX_WBITS
_PASSWORD: Final = re.compile(r"//[^/?#]*@")
"""User name and password in a URL. They are neither sent nor shown."""
_USER_AGENT: Final = "goalport (+https://pypi.org/project/goalport/)"


@dataclass(frozen=True, slots=True)
class WebLimits:
    """Limits for fetching one URL."""

    max_bytes: int = 20_000_000
    """Bytes of the content after decompression."""
    seconds: float = 30.0
    """Seconds for the whole request, with all redirects."""
    redirects: int = 5


@dataclass(frozen=True, slots=True)
class WebContent:
    """The content at a URL."""

    uri: str
    """The URL after redirects."""
    media_type: str
    """In lower case and without parameters, such as `text/html`; empty: the server did not say."""
    content: bytes = field(repr=False)
    charset: str = ""
    """The charset in the header of the response; empty: the server did not say."""

    @property
    def text(self) -> str:
        """The content as text: in the charset of a byte order mark, of the server, or UTF-8; bad bytes are replaced."""
        if self.content.startswith((b"\xff\xfe", b"\xfe\xff")):
            return self.content.decode("utf-16", "replace")
        try:
            return self.content.decode(self.charset or "utf-8", "replace").removeprefix("\ufeff")
        except (LookupError, UnicodeError):  # an unknown charset, or one that is no encoding of text
            return self.content.decode("utf-8", "replace").removeprefix("\ufeff")


async def resolved(host: str, port: int) -> Sequence[str]:
    """The IP addresses of a host, as the system resolves it."""
    found = await anyio.getaddrinfo(host, port, type=SOCK_STREAM)
    return tuple(dict.fromkeys(str(address[0]) for _, _, _, _, address in found))


@dataclass(frozen=True, slots=True)
class WebFetcher:
    """Fetches over HTTP and HTTPS: `await WebFetcher().fetch("https://example.com/page")`.

    It connects to public addresses only. `allow` names exceptions: hosts (`localhost`), hosts with a port
    (`127.0.0.1:8080`) and networks (`10.1.0.0/16`). Proxies of the environment are not used. `transport` creates
    another transport of httpx2, for example `lambda: httpx2.AsyncHTTPTransport(proxy="http://proxy:3128")`; addresses
    that only the proxy connects to are not checked.
    """

    allow: Collection[str] = ()
    limits: WebLimits = WebLimits()
    transport: "Callable[[], AsyncBaseTransport] | None" = field(default=None, repr=False)
    resolve: Resolve = field(default=resolved, repr=False)

    async def fetch(
        self, url: str, *, media_types: Collection[str] = (), headers: Mapping[str, str] | None = None
    ) -> WebContent:
        """The content at a URL, if it has one of the media types (`text/`: all types of text; empty: any type).

        `headers` are sent to the host of the URL only, and not to another host after a redirect. Raises
        `DocumentError` with a sentence that says why it could not be fetched.
        """
        import httpx2

        async with self._client(url) as client:
            place = first = httpx2.URL(url)
            for _ in range(self.limits.redirects + 1):
                same_origin = (first.scheme, first.host, first.port) == (place.scheme, place.host, place.port)
                async with self._answer(client, url, place, headers if same_origin else None) as response:
                    target = response.headers.get("location")
                    if response.status_code not in _REDIRECTS or target is None:
                        return await self._content(url, place, response, media_types)
                    before, place = place, place.join(target)
                    if before.scheme == "https" and place.scheme != "https":
                        raise _refused(url, "it redirects from HTTPS to an address without it")
            raise _refused(url, f"it redirects more than {self.limits.redirects} times")

    async def post(self, url: str, content: bytes, headers: Mapping[str, str]) -> None:
        """POST content to a URL. Redirects are not followed. Raises `DocumentError` unless the status is 2xx."""
        import httpx2

        async with (
            self._client(url) as client,
            self._answer(client, url, httpx2.URL(url), headers, content) as response,
        ):
            if not response.is_success:
                raise _refused(url, _answered(response))

    async def check(self, url: str) -> None:
        """Raise `DocumentError` if a URL may not be fetched. Hosts that `allow` names are not resolved."""
        import httpx2

        async with self._client(url):
            await self._checked(url, httpx2.URL(url), resolve_named=False)

    @asynccontextmanager
    async def _client(self, url: str) -> "AsyncGenerator[AsyncClient]":
        """A client for a block with a time limit. Timeouts and errors of httpx2 in the block become `DocumentError`."""
        import httpx2

        try:
            with anyio.fail_after(self.limits.seconds):
                if self.transport is not None:
                    transport = self.transport()
                else:
                    context = await anyio.to_thread.run_sync(_certificates)
                    transport = httpx2.AsyncHTTPTransport(verify=context, trust_env=False)
                async with httpx2.AsyncClient(
                    transport=transport, timeout=None, follow_redirects=False, trust_env=False
                ) as client:
                    yield client
        except TimeoutError:
            raise _refused(url, f"there was no answer within {self.limits.seconds:g} seconds") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, httpx2.StreamError) as error:
            raise _refused(url, str(error) or type(error).__name__) from error

    async def _content(self, url: str, place: "URL", response: "Response", media_types: Collection[str]) -> WebContent:
        if response.status_code != _OK:
            raise _refused(url, _answered(response))
        media_type = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        wanted = (media_type.startswith(each) if each.endswith("/") else media_type == each for each in media_types)
        if media_types and not any(wanted):
            raise _refused(url, f"it is of type {one_line(media_type) or 'unknown'}, not {listed(media_types)}")
        content = bytearray()
        async for piece in _decompressed(url, response):
            content += piece
            if len(content) > self.limits.max_bytes:
                raise _refused(url, f"it has more than {self.limits.max_bytes} bytes")
        found = str(place.copy_with(username="", password=""))
        return WebContent(found, media_type, bytes(content), response.charset_encoding or "")

    @asynccontextmanager
    async def _answer(
        self,
        client: "AsyncClient",
        url: str,
        place: "URL",
        headers: Mapping[str, str] | None,
        posted: bytes | None = None,
    ) -> "AsyncGenerator[Response]":
        """The response of the checked IP address. The `host` header and TLS use the name of the host."""
        checked = await self._checked(url, place)
        request = client.build_request(
            "GET" if posted is None else "POST",
            place.copy_with(host=checked, username="", password=""),
            content=posted,
            headers={
                "accept": "*/*",
                "accept-encoding": "gzip",
                "user-agent": _USER_AGENT,
                **(headers or {}),
                "host": place.netloc.decode("ascii"),
            },
            extensions={"sni_hostname": place.raw_host.decode("ascii")},
        )
        response = await client.send(request, stream=True)
        try:
            yield response
        finally:
            with anyio.CancelScope(shield=True):
                await response.aclose()

    async def _checked(self, url: str, place: "URL", *, resolve_named: bool = True) -> str:
        """The IP address to connect to. Raises `DocumentError` if any address of the host may not be used."""
        if place.scheme not in _PORTS or not place.host:
            fix = " Give the path of a file instead" if place.scheme == "file" else ""
            raise _refused(url, f"only http:// and https:// addresses with a host are fetched.{fix}")
        host, port = place.host, place.port or _PORTS[place.scheme]
        named = host.lower() in self.allow or f"{host.lower()}:{port}" in self.allow
        if named and not resolve_named:
            return host
        try:
            found = await self.resolve(host, port)
        except (OSError, UnicodeError) as error:
            raise _refused(url, f"the host {one_line(host)!r} cannot be found ({error})") from error
        if not found:
            raise _refused(url, f"the host {one_line(host)!r} has no address")
        if named:
            return found[0]
        networks: list[IPv4Network | IPv6Network] = []
        for each in self.allow:
            with suppress(ValueError):
                networks.append(ip_network(each, strict=False))
        for each in found:
            address = ip_address(each.partition("%")[0])
            if not _is_public(address) and not any(address in network for network in networks):
                raise _refused(
                    url,
                    f"its address {each} is not a public one. If it is meant to be read, allow {host!r} or its network",
                )
        return found[0]


async def _decompressed(url: str, response: "Response") -> AsyncIterator[bytes]:
    """The content in small pieces: decompressed at once, it could be a thousand times as long as the response."""
    encoding = response.headers.get("content-encoding", "").strip().lower()
    if encoding in {"", "identity"}:
        async for piece in response.aiter_raw():
            yield piece
        return
    if encoding not in {"gzip", "x-gzip"}:
        raise _refused(url, f"it is compressed as {one_line(encoding)!r}, which was not asked for")
    reader = zlib.decompressobj(_GZIP)
    try:
        async for piece in response.aiter_raw():
            waiting = piece
            while waiting:
                reader = zlib.decompressobj(_GZIP) if reader.eof else reader
                yield reader.decompress(waiting, _PIECE)
                waiting = reader.unused_data or reader.unconsumed_tail
        yield reader.flush()
    except zlib.error as error:
        raise _refused(url, f"its compressed content is damaged ({error})") from error
    if not reader.eof:
        raise _refused(url, "its compressed content ends too early")


@cache
def _certificates() -> SSLContext:
    """The certificates that servers are checked against. Reading them is slow, so it is done once, in a thread."""
    import httpx2

    return httpx2.create_ssl_context(trust_env=False)


def _is_public(address: Address) -> bool:
    """Whether an address is public. If an IPv6 address contains an IPv4 address, that one is checked."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if address.teredo is not None:
            inner = address.teredo[1]
        if address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFF_FFFF)
        if inner is not None:
            return _is_public(inner)
    return address.is_global and not address.is_multicast and not address.is_reserved


def _answered(response: "Response") -> str:
    return f"the server answers {response.status_code} {one_line(response.reason_phrase)}".strip()


def _refused(url: str, why: str) -> DocumentError:
    url = _PASSWORD.sub("//", url)
    return DocumentError(f"{one_line(url, 300)} could not be fetched: {one_line(why).rstrip('.')}.")
