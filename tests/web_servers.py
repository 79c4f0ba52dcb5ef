"""nginx and Caddy before servers of a test, configured by the files in `server/`. No test is in here.

Of the files, only what belongs to a machine is replaced: addresses, ports and where the certificate is.
"""

import json
import os
import random
import re
import socket
import ssl
import subprocess
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractContextManager, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.clients.running import installed, started

__all__ = ["HOST", "WEB_SERVERS", "WebServer", "caddy", "free_port", "nginx"]

SERVER: Final = Path(__file__).parents[1] / "server"
HOST: Final = "agents.example.com"
"""The name by which clients call. It leads nowhere: they connect to this machine."""
_BESIDE: Final = """
daemon off;
pid nginx.pid;
error_log stderr notice;
{user}
events {{}}
http {{
    access_log off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include goalport.conf;
}}
"""
"""What the nginx.conf of a distribution is to the file in conf.d."""
_NGINX_READY: Final = re.compile("start worker process ")
_CADDY_READY: Final = re.compile("serving initial configuration")


@dataclass(frozen=True)
class WebServer:
    """A proxy that listens."""

    address: str
    certificate: Path | None = None

    @asynccontextmanager
    async def http(self, **headers: str) -> AsyncGenerator[httpx2.AsyncClient]:
        """A client that trusts its certificate, and calls it by its name."""
        trusted = ssl.create_default_context(cafile=self.certificate) if self.certificate else True
        hooks = {"request": [_calls_by_name]}
        async with httpx2.AsyncClient(
            base_url=self.address, headers=headers, verify=trusted, event_hooks=hooks, timeout=60, trust_env=False
        ) as client:
            yield client

    @asynccontextmanager
    async def client(self, era: str, headers: dict[str, str] | None = None, **options: Any) -> AsyncGenerator[Client]:
        """The official client, in an era of the protocol."""
        async with self.http(**(headers or {})) as http:
            transport = streamable_http_client(f"{self.address}/mcp", http_client=http)
            async with Client(transport, mode=cast("Any", era), **options) as client:
                yield client


async def _calls_by_name(request: httpx2.Request) -> None:
    request.headers["Host"] = HOST
    request.extensions = {**request.extensions, "sni_hostname": HOST}


@contextmanager
def nginx(folder: Path, servers: Sequence[str]) -> Generator[WebServer]:
    """The distribution's nginx, with a certificate of its own; skips the test where there is none."""
    program = installed("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    folder.mkdir()
    certificate = make_certificate(folder)
    port, plain = free_port(), free_port()
    site = (SERVER / "nginx.conf").read_text()
    line = next(each for each in site.splitlines() if "127.0.0.1:8081" in each)
    for told, here in {
        line: "\n".join(line.replace("127.0.0.1:8081", each.partition("://")[2]) for each in servers),
        next(each for each in site.splitlines() if "127.0.0.1:8082" in each): "",
        "listen 80;": f"listen 127.0.0.1:{plain};",
        "listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
        "/etc/nginx/": f"{folder}/",
    }.items():
        assert told in site, told
        site = site.replace(told, here)
    (folder / "goalport.conf").write_text(site)
    # The workers of root are another user otherwise, who may not read the folders of tests.
    (folder / "nginx.conf").write_text(_BESIDE.format(user="user root;" if os.geteuid() == 0 else ""))
    with started([program, "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"], _NGINX_READY, os.environ):
        yield WebServer(f"https://127.0.0.1:{port}", certificate)


@contextmanager
def caddy(folder: Path, servers: Sequence[str]) -> Generator[WebServer]:
    """The distribution's Caddy, without TLS; skips the test where there is none."""
    program = installed("caddy")
    folder.mkdir()
    port = free_port()
    replicas = " ".join(each.partition("://")[2] for each in servers)
    env = {**os.environ, "HOME": str(folder), "SITE": f"http://{HOST}:{port}", "REPLICAS": replicas}
    adapt = [program, "adapt", "--config", str(SERVER / "Caddyfile")]
    read: Any = json.loads(subprocess.run(adapt, env=env, check=True, capture_output=True, timeout=30).stdout)
    (server,) = read["apps"]["http"]["servers"].values()
    server["listen"] = [f"127.0.0.1:{port}"]
    (folder / "caddy.json").write_text(json.dumps({**read, "admin": {"disabled": True}}))
    with started([program, "run", "--config", str(folder / "caddy.json")], _CADDY_READY, env):
        yield WebServer(f"http://127.0.0.1:{port}")


WEB_SERVERS: Final[dict[str, Callable[[Path, Sequence[str]], AbstractContextManager[WebServer]]]] = {
    "nginx": nginx,
    "caddy": caddy,
}


def free_port() -> int:
    """A port below those that the kernel gives to connections, so that a server can return to it."""
    for port in random.sample(range(20_000, 30_000), 1_000):
        with socket.socket() as tried:
            try:
                tried.bind(("127.0.0.1", port))
            except OSError:
                continue
            return port
    raise AssertionError("1,000 ports are taken")


def make_certificate(folder: Path) -> Path:
    """Make goalport.crt and goalport.key, as docs/deploy.md does for a trial."""
    named = ["-subj", f"/CN={HOST}", "-addext", f"subjectAltName=DNS:{HOST}"]
    made = ["-keyout", str(folder / "goalport.key"), "-out", str(folder / "goalport.crt")]
    command = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", *named, *made]
    subprocess.run(command, check=True, capture_output=True, timeout=30)
    return folder / "goalport.crt"
