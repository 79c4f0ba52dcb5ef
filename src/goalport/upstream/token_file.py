"""The tokens of one server at rest: in a file that its owner alone may read, and encrypted with a key of this server.

`oauth`, above, gives it to the flows of the SDK, whose protocol `TokenStorage` it keeps.
"""

import json
from collections.abc import Iterator, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from time import time
from typing import TYPE_CHECKING, Final, Protocol

from anyio import to_thread
from pydantic import BaseModel, ValidationError

from goalport.errors import SettingsError
from goalport.files import replace_file
from goalport.secrecy import register_secrets

if TYPE_CHECKING:
    from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata

__all__ = ["Seal", "TokenFile", "token_path"]


_SECRET: Final = ("access_token", "refresh_token", "id_token", "client_secret", "registration_access_token")


class Seal(Protocol):
    """Encrypts what is kept. `unseal` raises `SettingsError` where the key of old is not there any more."""

    def seal(self, secret: bytes, /) -> str: ...
    def unseal(self, sealed: str, /) -> bytes: ...


class _Record(BaseModel):
    """What the file holds."""

    url: str
    """The server that the tokens are for."""
    tokens: dict[str, object] | None = None
    expires_at: float | None = None
    """When the access token ends, in seconds since 1970; None: it does not say."""
    client: dict[str, object] | None = None
    """The client that was registered."""
    metadata: dict[str, object] | None = None
    """The authorization server's, so that a token can be renewed after a restart."""
    resource: dict[str, object] | None = None
    """The server's own metadata, as a protected resource."""

    def secrets(self) -> Iterator[str]:
        """What a credential is made of."""
        known = {**(self.tokens or {}), **(self.client or {})}
        return (str(known[name]) for name in _SECRET if known.get(name))


class TokenFile:
    """The tokens of one server, or of one caller at it. Another address of the server finds nothing in the file.

    `owner` is empty for the tokens that all callers share. What it reads and writes is hidden in what others are shown.
    """

    def __init__(self, folder: Path, server: str, url: str, seal: Seal, owner: str = "") -> None:
        self._path = token_path(folder, server, owner)
        self._url = url
        self._seal = seal

    async def get_tokens(self) -> "OAuthToken | None":
        """The tokens, of which the access token may have ended."""
        from mcp.shared.auth import OAuthToken

        found = await self._found()
        if found.tokens is None:
            return None
        left = {} if found.expires_at is None else {"expires_in": int(found.expires_at - time())}
        return OAuthToken.model_validate({**found.tokens, **left})

    async def set_tokens(self, tokens: "OAuthToken") -> None:
        ends = None if tokens.expires_in is None else time() + tokens.expires_in
        await self._keep({"tokens": _plain(tokens), "expires_at": ends})

    async def get_client_info(self) -> "OAuthClientInformationFull | None":
        from mcp.shared.auth import OAuthClientInformationFull

        found = (await self._found()).client
        return OAuthClientInformationFull.model_validate(found) if found else None

    async def set_client_info(self, client_info: "OAuthClientInformationFull") -> None:
        await self._keep({"client": _plain(client_info)})

    async def metadata(self) -> "tuple[OAuthMetadata | None, ProtectedResourceMetadata | None]":
        """What is known of the authorization server, and of the server as its resource."""
        from mcp.shared.auth import OAuthMetadata, ProtectedResourceMetadata

        found = await self._found()
        return (
            OAuthMetadata.model_validate(found.metadata) if found.metadata else None,
            ProtectedResourceMetadata.model_validate(found.resource) if found.resource else None,
        )

    async def set_metadata(
        self, metadata: "OAuthMetadata | None", resource: "ProtectedResourceMetadata | None"
    ) -> None:
        await self._keep({"metadata": _plain(metadata), "resource": _plain(resource)})

    async def _found(self) -> _Record:
        found = await to_thread.run_sync(self._read)
        register_secrets(self, found.secrets())
        return found

    async def _keep(self, parts: Mapping[str, object]) -> None:
        kept = await to_thread.run_sync(self._write, parts)
        register_secrets(self, kept.secrets())

    def _read(self) -> _Record:
        # Whoever cannot be read any more is asked to sign in again.
        with suppress(FileNotFoundError, ValidationError, ValueError, SettingsError):
            written = self._path.read_text("utf-8")
            members = json.loads(written)
            # Files of earlier versions are not sealed; they are with the next token.
            plain = self._seal.unseal(members["sealed"]) if "sealed" in members else written
            kept = _Record.model_validate_json(plain)
            if kept.url == self._url:
                return kept
        return _Record(url=self._url)

    def _write(self, parts: Mapping[str, object]) -> _Record:
        kept = self._read().model_copy(update=parts)
        sealed = self._seal.seal(kept.model_dump_json().encode())
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(self._path, json.dumps({"sealed": sealed}))
        return kept


def token_path(folder: Path, server: str, owner: str) -> Path:
    """The file with the tokens of an owner at a server."""
    # A hash as well: two names may differ in what a file's name cannot have.
    safe = "".join(each if each.isalnum() or each in "-_" else "_" for each in server)[:60]
    whose = f"{server}\0{owner}" if owner else server
    return folder / f"{safe}-{sha256(whose.encode()).hexdigest()[: 32 if owner else 8]}.json"


def _plain(value: BaseModel | None) -> dict[str, object] | None:
    return None if value is None else value.model_dump(mode="json", exclude_none=True)
