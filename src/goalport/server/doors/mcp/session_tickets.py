"""Session ids that hold what their session was opened with, so that any server with the key can open it again.

They are what session tickets are in TLS: encrypted state that the client keeps. A ticket gives no rights, since each
request is authenticated by itself. `transports.sessions`, above, issues and opens them.
"""

import hmac
import json
import time
import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Final, cast

from mcp.server.request_state import AESGCMRequestStateCodec, InvalidRequestState
from mcp_types import InitializeRequestParams
from mcp_types.version import HANDSHAKE_PROTOCOL_VERSIONS, LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

from goalport.server.auth import Principal

_MOST: Final = 2_048
"""The longest ticket in characters. Proxies allow 4 KiB to 8 KiB for a header; common clients need 200 to 400."""
_MOST_CONTENT: Final = 4_096
"""The most characters that a ticket holds, compressed or not: tickets are remembered as they were decrypted."""
_IDENTITY: Final = ("name", "title", "version")
"""The fields of `clientInfo` that a ticket holds; others, such as icons, may be long."""
_RECENT: Final = 1_000
"""How many tickets are remembered as they were decrypted: one opens with each call of its session."""
_UNNAMED: Final = {"name": "", "version": ""}
"""The client of a ticket that would be too long otherwise; it counts as one that has no capabilities."""
_PURPOSE: Final = "goalport session ticket 1"


class SessionTickets:
    """Issues and opens the tickets of the servers that share `keys` and `name`; the first key encrypts.

    The keys in use are derived from these, the name and the principal. So the ticket of another principal, or of
    another server with the same keys, cannot be decrypted.
    """

    def __init__(self, keys: Sequence[bytes], name: str, ttl_seconds: float) -> None:
        self._keys = keys
        self._name = name
        self._ttl_seconds = ttl_seconds
        self._content = lru_cache(maxsize=_RECENT)(self._decrypted)

    def issue(self, params: object, principal: Principal | None) -> bytes | None:
        """A ticket for a session opened by `initialize` with `params`; None if they are invalid."""
        try:
            opened = InitializeRequestParams.model_validate(params, by_name=False)
        except ValidationError:
            return None
        requested, given = opened.protocol_version, cast("dict[str, Any]", params)
        agreed = requested if requested in HANDSHAKE_PROTOCOL_VERSIONS else LATEST_HANDSHAKE_VERSION
        client = {name: given["clientInfo"][name] for name in _IDENTITY if name in given["clientInfo"]}
        known = [int(time.time()), agreed, client, given["capabilities"]]
        return self._sealed(known, principal) or self._sealed([*known[:2], _UNNAMED, {}], principal)

    def _sealed(self, content: list[Any], principal: Principal | None) -> bytes | None:
        text = json.dumps(content, separators=(",", ":"))
        if len(text) > _MOST_CONTENT:
            return None
        ticket = self._codec(principal).seal(zlib.compress(text.encode()))
        return ticket.encode() if len(ticket) <= _MOST else None

    def open(self, ticket: bytes, principal: Principal | None) -> InitializeRequestParams | None:
        """The `params` of the session; None if the ticket is expired, or is not one of this principal.

        A revision that this server no longer speaks counts as expired: the client has to agree on another one.
        """
        if len(ticket) > _MOST:
            return None
        try:
            issued, params = self._content(ticket, principal)
        except InvalidRequestState:
            return None
        if time.time() > issued + self._ttl_seconds or params.protocol_version not in HANDSHAKE_PROTOCOL_VERSIONS:
            return None
        return params

    def _decrypted(self, ticket: bytes, principal: Principal | None) -> tuple[float, InitializeRequestParams]:
        """When a session was opened, and with what. Raises `InvalidRequestState`."""
        issued, agreed, client, capabilities = json.loads(
            zlib.decompress(self._codec(principal).unseal(ticket.decode("latin-1")))
        )
        given = {"protocolVersion": agreed, "clientInfo": client, "capabilities": capabilities}
        return issued, InitializeRequestParams.model_validate(given, by_name=False)

    def _codec(self, principal: Principal | None) -> AESGCMRequestStateCodec:
        bound = json.dumps([_PURPOSE, self._name, principal]).encode()
        return AESGCMRequestStateCodec([hmac.digest(key, bound, "sha256") for key in self._keys])
