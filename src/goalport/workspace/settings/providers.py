"""Tables of settings for identity providers: who issues the tokens of callers, and how they are checked.

Nothing here asks a provider. Above: `tables`, which has these in the table `[auth]`; `auth` verifies tokens by them.
"""

from ipaddress import ip_network
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, SecretStr

from goalport.base.hosts import is_secure
from goalport.workspace.settings.values import Words, listed

ASYMMETRIC = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
"""The algorithms of signatures that only the issuer can make, since the key that verifies them is public."""


def _url(value: str) -> str:
    """A URL of a provider. Raises `ValueError`."""
    parts = urlsplit(value)
    if not parts.hostname or not is_secure(value):
        raise ValueError("should be a URL with https, or with http on this machine")
    if parts.username or parts.password or parts.fragment:
        raise ValueError("should be a URL without a user, a password or a fragment")
    return value


def _optional_url(value: str) -> str:
    return value and _url(value)


def _issuer(value: str) -> str:
    """The identifier of an issuer (RFC 8414, section 2). Raises `ValueError`."""
    if urlsplit(_url(value)).query:
        raise ValueError("should be a URL without a query, as the tokens of the issuer name it")
    return value


def _algorithms(value: tuple[str, ...]) -> tuple[str, ...]:
    if not value or not set(value) <= set(ASYMMETRIC):
        raise ValueError(f"should be some of {', '.join(ASYMMETRIC)}; a key that others have proves nothing")
    return value


def _network(value: str) -> str:
    """An address, or a network in CIDR notation. Raises `ValueError`."""
    if ip_network(value).prefixlen == 0:
        raise ValueError(f"should be addresses or networks of proxies, and {value} is everybody")
    return value


Networks = Annotated[tuple[Annotated[str, AfterValidator(_network)], ...], BeforeValidator(listed)]
HeaderName = Annotated[str, Field(pattern=r"^[A-Za-z0-9-]*$")]
Issuer = Annotated[str, AfterValidator(_issuer)]
Url = Annotated[str, AfterValidator(_url)]


class TokenSettings(BaseModel):
    """What the tokens of one provider look like, however they are verified."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: Issuer
    """The provider's identifier, letter by letter as its tokens have it in `iss`."""
    audience: Words = ()
    """For whom its tokens have to be (`aud`), one of these; empty: the addresses of this server."""
    scope_claims: Words = ("scope", "scp")
    """The claims with what a token grants, each a text with spaces or a list; such as `roles` or `permissions`."""
    subject_claim: str = Field(default="sub", min_length=1)
    """The claim that says who the caller is: the same in every token of one person, and never another's."""


class IssuerSettings(TokenSettings):
    """A provider whose access tokens are JWTs: they are verified here, with its public keys."""

    jwks_uri: Annotated[str, AfterValidator(_optional_url)] = ""
    """Where its keys are; empty: where its metadata says (RFC 8414, OpenID Connect Discovery)."""
    algorithms: Annotated[Words, AfterValidator(_algorithms)] = ASYMMETRIC
    """The algorithms by which its tokens may be signed."""


class IntrospectionSettings(TokenSettings):
    """A provider that is asked about each token (RFC 7662), for tokens that only it can read."""

    endpoint: Url
    """Where it is asked."""
    token_prefix: str = ""
    """What its tokens begin with; of several providers, each needs another, since none is shown another's tokens."""
    client_id: str = Field(min_length=1)
    """As whom this server asks."""
    client_secret: SecretStr = Field(min_length=1)
    require_audience: bool = True
    """Whether a token is refused for which the provider names no audience."""


Issuers = Annotated[tuple[IssuerSettings, ...], BeforeValidator(listed)]
Introspections = Annotated[tuple[IntrospectionSettings, ...], BeforeValidator(listed)]
