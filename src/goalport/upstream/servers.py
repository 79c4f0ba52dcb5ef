"""The entries for servers in a configuration file, in the spelling of any of the hosts that have such files.

Above: `reading`. What a variable stands for is filled in here, so that the records hold what is used.
"""

import re
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from dotenv import dotenv_values

from goalport.upstream.config import OAuthConfig, ServerConfig, Transport
from goalport.upstream.section import Section

__all__ = ["read_server"]

_TRANSPORTS: Final[dict[str, Transport]] = {
    "stdio": "stdio",
    "local": "stdio",
    "http": "http",
    "remote": "http",
    "streamablehttp": "http",
    "sse": "sse",
}
_OF_OTHER_HOSTS: Final = (
    "alwaysAllow autoApprove description dev icon name title gallery id version roots protocolEra sandboxEnabled trust"
    " sseReadTimeout toolCallTimeout"
)
"""What hosts keep in an entry beside how its server is reached: for their own windows, and their own approvals."""
_HEADER_NAME: Final = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_HEADER_VALUE: Final = re.compile(r"[\t\x20-\x7e]*")
_CONNECT_TIMEOUT: Final = ("connectTimeout", "connectionTimeout", "startupTimeout")
_MOST_AT_ONCE: Final = 10_000


def read_server(name: str, section: Section) -> ServerConfig | None:
    """One server. What is wrong is noted; None: it cannot be used. One that is disabled is not looked at closely."""
    command, args = _command(section)
    url = section.text("url", "serverUrl", "httpUrl")
    transport = _transport(section)
    disabled = section.flag("disabled", careful=True) or section.get("enabled")[0] is False
    required = section.flag("required")
    found = ServerConfig(
        name,
        transport or "stdio",
        command=command,
        args=args,
        env=_environment(section),
        cwd=_folder(section),
        url=url,
        headers=_headers(section),
        oauth=_oauth(section),
        connect_timeout=section.seconds(*_CONNECT_TIMEOUT, default=ServerConfig.connect_timeout),
        timeout=section.seconds("timeout", "requestTimeout", default=ServerConfig.timeout),
        concurrency=section.count("concurrency", ServerConfig.concurrency, _MOST_AT_ONCE, least=1),
        max_message_bytes=section.count("maxMessageBytes", ServerConfig.max_message_bytes, 2**31, least=1),
        shutdown_timeout=section.seconds("shutdownTimeout", default=ServerConfig.shutdown_timeout),
        disabled=disabled,
        required=required,
        sampling=section.flag("sampling"),
        pin=section.flag("pin", careful=True),
        enabled_tools=section.texts("enabledTools", "includeTools", "tools"),
        disabled_tools=section.texts("disabledTools", "excludeTools"),
        secrets=tuple(section.secrets),
    )
    section.ignore(*_OF_OTHER_HOSTS.split())
    section.tell_strangers()
    if disabled:
        return ServerConfig(name, found.transport, disabled=True)
    _check(found, section)
    for message, at in section.mistakes:
        needed = " It is required." if required else ""
        section.notes.add(f"server {name!r} cannot be used: {message}{needed}", at, server=name, is_fatal=required)
    return None if section.mistakes else found


def _transport(section: Section) -> Transport | None:
    """How a server is reached: as it says, else by what there is to reach it with."""
    said, at = section.get("type", "transport")
    if isinstance(said, str):
        spelled = said.lower().replace("-", "").replace("_", "")
        if spelled not in _TRANSPORTS:
            section.mistakes.append((f"type should be stdio, http or sse, but is {said!r}.", at))
        return _TRANSPORTS.get(spelled)
    if said is not None:
        section.mistakes.append(("type should be stdio, http or sse.", at))
    if section.get("command")[0] is not None:
        return "stdio"
    if section.get("httpUrl")[0] is not None:
        return "http"
    url, _ = section.get("url", "serverUrl")
    return "sse" if isinstance(url, str) and _path_of(url).rstrip("/").endswith("/sse") else "http"


def _command(section: Section) -> tuple[str, tuple[str, ...]]:
    """The program and its arguments; a command that is a list holds both."""
    written = section.texts("command")
    command, more = (written[0].strip(), written[1:]) if written else ("", ())
    return command, (*more, *section.texts("args"))


def _environment(section: Section) -> dict[str, str]:
    """The variables for a server's process: those of its file, then those of its entry."""
    written = section.text("envFile")
    found: dict[str, str] = {}
    if written:
        file = section.variables.folder / Path(written).expanduser()
        if file.is_file():
            found = {key: value for key, value in dotenv_values(file, interpolate=False).items() if value is not None}
        else:
            section.mistakes.append(("its envFile is no file.", (*section.at, "envFile")))
    return found | section.table("env", "environment")


def _folder(section: Section) -> Path:
    """Where a server's process runs: in the file's folder unless it says; what is relative is inside it."""
    return section.variables.folder / Path(section.text("cwd")).expanduser()


def _headers(section: Section) -> dict[str, str]:
    headers = {name: value.strip() for name, value in section.table("headers").items()}
    auth, _ = section.get("auth")
    token = section.text("auth").strip() if isinstance(auth, str) and auth.lower() != "oauth" else ""
    if token:
        headers = {"Authorization": f"Bearer {token.removeprefix('Bearer ')}", **headers}
    for name, value in headers.items():
        if not (_HEADER_NAME.fullmatch(name) and _HEADER_VALUE.fullmatch(value)):
            reason = f"the header {name!r} cannot be sent: there is a character in it that none can have."
            section.mistakes.append((reason, (*section.at, "headers", name)))
    return headers


def _oauth(section: Section) -> OAuthConfig | None:
    auth, at = section.get("auth")
    if auth is not None and not isinstance(auth, str | dict):
        section.notes.add("auth should be 'oauth', a token or an object.", at)
        auth = None
    inner = section.section("oauth") or (section.section("auth") if isinstance(auth, dict) else None)
    if inner is None:
        return OAuthConfig() if isinstance(auth, str) and auth.lower() == "oauth" else None
    found = OAuthConfig(
        client_id=inner.text("clientId"),
        client_secret=inner.text("clientSecret"),
        scope=" ".join(inner.texts("scope", "scopes")),
        issuer=inner.text("issuer", "authServer"),
        redirect_port=inner.count("redirectPort", 0, 65_535) or inner.count("callbackPort", 0, 65_535),
    )
    inner.tell_strangers()
    section.mistakes += inner.mistakes
    section.secrets += inner.secrets
    return found


def _check(server: ServerConfig, section: Section) -> None:
    """Whether there is what is needed to reach a server."""
    if section.mistakes:
        return
    if server.transport == "stdio" and not server.command:
        fix = "give it one, or say `type`: http." if server.url else "give it one, or a url."
        section.mistakes.append((f"it has no command; {fix}", section.at))
    elif server.transport != "stdio" and not server.url:
        section.mistakes.append(("it has neither a command nor a url.", section.at))
    elif server.transport != "stdio" and not _is_web(server.url):
        section.mistakes.append(("its url should begin with http:// or https:// and name a host.", section.at))
    elif server.cwd is not None and not server.cwd.is_dir():
        section.mistakes.append(("its cwd is no folder.", (*section.at, "cwd")))


def _is_web(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        return False


def _path_of(url: str) -> str:
    try:
        return urlsplit(url).path
    except ValueError:
        return ""
