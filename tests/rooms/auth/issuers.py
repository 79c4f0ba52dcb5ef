"""An identity provider on a socket of this machine, and the tokens that it signs. No test is in here."""

import base64
import json
import time
from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import jwt
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from jwt.algorithms import ECAlgorithm, RSAAlgorithm
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from tests.listening import listening

RESOURCE = "https://goalport.example"
"""The address of the server that the tokens are for."""


class SigningKey:
    """A key of an issuer, of an elliptic curve unless RSA is asked for."""

    def __init__(self, kid: str, algorithm: str = "ES256") -> None:
        self.kid, self.algorithm = kid, algorithm
        self.private: Any = (
            ec.generate_private_key(ec.SECP256R1()) if algorithm == "ES256" else rsa.generate_private_key(65_537, 2048)
        )

    @property
    def public(self) -> dict[str, Any]:
        """As an entry of a key set."""
        kind = ECAlgorithm if self.algorithm == "ES256" else RSAAlgorithm
        entry = kind.to_jwk(self.private.public_key(), as_dict=True)
        return {**entry, "kid": self.kid, "alg": self.algorithm, "use": "sig"}


@dataclass
class Issuer:
    """An identity provider; what it answers can be changed while it runs."""

    address: str = ""
    path: str = ""
    keys: list[SigningKey] = field(default_factory=lambda: [SigningKey("one")])
    more_entries: list[dict[str, Any]] = field(default_factory=list[dict[str, Any]])
    active: dict[str, dict[str, Any]] = field(default_factory=dict[str, dict[str, Any]])
    """What introspection tells about tokens."""
    requests: Counter[str] = field(default_factory=Counter[str])
    is_down: bool = False
    is_silent: bool = False
    """Whether it never answers."""
    holds_unknown: anyio.Event | None = None
    """Until this is set, it does not answer about tokens that are not active."""
    named: str = ""
    """What its metadata names as the issuer, in place of the truth."""
    jwks_uri: str = ""
    """Where its metadata says that its keys are, in place of the truth."""
    large: int = 0
    """How many bytes too many its key set has."""

    @property
    def issuer(self) -> str:
        return f"{self.address}{self.path}"

    @property
    def claims(self) -> dict[str, Any]:
        """The claims of a token that is valid for a minute."""
        now = int(time.time())
        return {
            "iss": self.issuer,
            "aud": f"{RESOURCE}/mcp",
            "sub": "anna",
            "client_id": "host",
            "iat": now,
            "exp": now + 60,
            "scope": "goals:read goals:write",
        }

    def token(self, key: SigningKey | None = None, header: Mapping[str, Any] | None = None, **claims: Any) -> str:
        """A token with these claims in place of the usual ones; one that is None is left out."""
        key = key or self.keys[0]
        said = {name: value for name, value in {**self.claims, **claims}.items() if value is not None}
        parameters = {"typ": "at+jwt", "kid": key.kid, **(header or {})}
        if parameters["kid"] is None:
            del parameters["kid"]
        return jwt.encode(said, key.private, key.algorithm, parameters)

    def signed(self, header: str, claims: str, key: SigningKey | None = None) -> str:
        """A token of these texts, as they are, with a valid signature."""
        key = key or self.keys[0]
        text = f"{encoded(header.encode())}.{encoded(claims.encode())}"
        algorithm = jwt.get_algorithm_by_name(key.algorithm)
        return f"{text}.{encoded(algorithm.sign(text.encode(), key.private))}"

    async def answer(self, request: Request) -> Response:
        path = request.url.path
        self.requests[path] += 1
        if self.is_down:
            return Response(status_code=503)
        if self.is_silent:
            await request.receive()
            while (await request.receive())["type"] != "http.disconnect":
                pass
        if path == f"/.well-known/oauth-authorization-server{self.path}":
            uri = self.jwks_uri or f"{self.address}/jwks"
            return JSONResponse({"issuer": self.named or self.issuer, "jwks_uri": uri})
        if path == "/jwks":
            entries = [*self.more_entries, *(each.public for each in self.keys)]
            return JSONResponse({"keys": entries, "more": " " * self.large})
        if path == "/introspect":
            form = dict(item.split("=") for item in (await request.body()).decode().split("&"))
            if request.headers["authorization"] != f"Basic {base64.b64encode(b'us%3Aer:s%2Fecret').decode()}":
                return Response(status_code=401)
            if form["token"].count(".") == 2:  # A JWT: oidc-provider answers in this way.
                return JSONResponse({"error": "unsupported_token_type"}, 400)
            if form["token"] not in self.active and self.holds_unknown is not None:
                self.requests["held"] += 1
                await self.holds_unknown.wait()
            return JSONResponse(self.active.get(form["token"], {"active": False}))
        return Response(status_code=404)


@asynccontextmanager
async def issuing(**fields: Any) -> AsyncGenerator[Issuer]:
    """An issuer, for as long as the block lasts."""
    issuer = Issuer(**fields)
    app = Starlette(routes=[Route("/{path:path}", issuer.answer, methods=["GET", "POST"])])
    async with listening(app) as address:
        issuer.address = address
        yield issuer


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def encoded_json(value: object) -> str:
    return encoded(json.dumps(value).encode())
