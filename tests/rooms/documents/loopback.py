"""A web server of a test: pages by path, on a free port of the loopback interface."""

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from ssl import PROTOCOL_TLS_SERVER, SSLContext, create_default_context
from threading import Thread

from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

__all__ = ["Page", "Site", "certificate_for", "serving"]


@dataclass(frozen=True)
class Page:
    content: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass
class Site:
    """What is served; a test may change it at any time."""

    address: str
    """As `http://127.0.0.1:PORT`."""
    pages: dict[str, Page] = field(default_factory=dict[str, Page])
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list[tuple[str, dict[str, str]]])
    """The paths that were asked for, and the headers, with names in lower case."""

    @property
    def host(self) -> str:
        return self.address.partition("//")[2]

    def text(self, path: str, text: str, media_type: str = "text/html; charset=utf-8") -> str:
        """Serve a text; its address."""
        self.pages[path] = Page(text.encode(), headers={"content-type": media_type})
        return self.address + path

    def redirect(self, path: str, target: str) -> str:
        self.pages[path] = Page(status=302, headers={"location": target})
        return self.address + path


@contextmanager
def serving(certificate: SSLContext | None = None) -> Generator[Site]:
    """A site, over HTTPS where a certificate is given."""
    site = Site("")

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            site.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}))
            page = site.pages.get(self.path, Page(status=404))
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            if "content-length" not in page.headers:
                self.send_header("content-length", str(len(page.content)))
            self.end_headers()
            self.wfile.write(page.content)

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["content-length"]))
            self.do_GET()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - its name in the standard library
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    if certificate is not None:
        server.socket = certificate.wrap_socket(server.socket, server_side=True)
    site.address = f"http{'s' if certificate else ''}://127.0.0.1:{server.server_port}"
    thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield site
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def certificate_for(host: str, folder: Path) -> tuple[SSLContext, SSLContext]:
    """A certificate that a host signed itself, for its server, and for clients that trust it."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host)])
    start = datetime.now(UTC) - timedelta(days=1)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(start + timedelta(days=3))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName(host)]), critical=False)
        .sign(key, SHA256())
    )
    file = folder / "certificate.pem"
    secret = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(made.public_bytes(Encoding.PEM) + secret)
    server = SSLContext(PROTOCOL_TLS_SERVER)
    server.load_cert_chain(file)
    return server, create_default_context(cafile=str(file))
