"""The tokens of one server at rest: in a file that its owner alone may read, and encrypted with a key of this server.

`oauth`, above, gives it to the flows of the SDK, whose protocol `TokenStorage` it keeps.
"""

import json
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from time import time
from typing import Final, Protocol

from anyio import to_thread
from mcp.shared.auth import OAuthClientInformationFull, OAuthMetadata, OAuthToken, ProtectedResourceMetadata
from pydantic import BaseModel

from goalport.errors import SettingsError
from goalport.files import replace_file
from goalport.secrecy import register_secrets

_SECRET: Final = ("access_token", "refresh_token", "id_token", "client_secret", "registration_access_token")


class Seal(Protocol):
    """Encrypts what is kept. `unseal` raises `SettingsError` where the key of old is not there any more."""

    def seal(self, secret: bytes, /) -> str: ...
    def unseal(self, sealed: str, /) -> bytes: ...


class TokenRecord(BaseModel):
    """What the file holds."""

    url: str
    """The server that the tokens are for."""
    tokens: OAuthToken | None = None
    expires_at: float | None = None
    """When the access token ends, in seconds since 1970; None: it does not say."""
    client: OAuthClientInformationFull | None = None
    """The client that was registered."""
    metadata: OAuthMetadata | None = None
    """The authorization server's, so that a token can be renewed after a restart."""
    resource: ProtectedResourceMetadata | None = None
    """The server's own metadata, as a protected resource."""

    def secrets(self) -> Iterator[str]:
        """What a credential is made of."""
        found = (getattr(each, name, None) for each in (self.tokens, self.client) for name in _SECRET)
        return (each for each in found if isinstance(each, str))


class TokenFile:
    """The tokens of one server, or of one caller at it. Another address of the server finds nothing in the file.

    What it reads and writes is hidden in what others are shown.
    """

    def __init__(self, path: Path, url: str, seal: Seal) -> None:
        self._path = path
        self._url = url
        self._seal = seal

    async def get_tokens(self) -> OAuthToken | None:
        """The tokens, of which the access token may have ended."""
        found = await self.found()
        if found.tokens is None or found.expires_at is None:
            return found.tokens
        return found.tokens.model_copy(update={"expires_in": int(found.expires_at - time())})

    async def set_tokens(self, tokens: OAuthToken) -> None:
        await self.keep(tokens=tokens, expires_at=None if tokens.expires_in is None else time() + tokens.expires_in)

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return (await self.found()).client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        await self.keep(client=client_info)

    async def found(self) -> TokenRecord:
        """What is in the file."""
        found = await to_thread.run_sync(self._read)
        register_secrets(self, found.secrets())
        return found

    async def keep(self, **parts: object) -> None:
        """Put these fields of the record into the file, and leave the others."""
        kept = await to_thread.run_sync(self._write, parts)
        register_secrets(self, kept.secrets())

    def _read(self) -> TokenRecord:
        # Whoever cannot be read any more is asked to sign in again.
        with suppress(FileNotFoundError, ValueError, SettingsError):
            written = self._path.read_text("utf-8")
            members = json.loads(written)
            # Files of earlier versions are not sealed; they are with the next token.
            plain = self._seal.unseal(members["sealed"]) if "sealed" in members else written
            kept = TokenRecord.model_validate_json(plain)
            if kept.url == self._url:
                return kept
        return TokenRecord(url=self._url)

    def _write(self, parts: dict[str, object]) -> TokenRecord:
        kept = self._read().model_copy(update=parts)
        sealed = self._seal.seal(kept.model_dump_json(exclude_none=True).encode())
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        replace_file(self._path, json.dumps({"sealed": sealed}))
        return kept
