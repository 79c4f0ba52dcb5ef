"""Reading how a server's access tokens are obtained: `auth` and `oauth` in its entry of `mcp_config.json`.

Secrets are named by variables there and never written out. Above: `config_file`.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, cast
from urllib.parse import urlsplit

from goalport.upstream.config import IdentityProvider, OAuthConfig, OAuthGrant
from goalport.upstream.section import Section

__all__ = ["read_oauth"]

_GRANTS: Final = ("authorization_code", "client_credentials", "jwt_bearer")
_LOGINS: Final = ("shared", "per_caller")
_METHODS: Final = ("client_secret_basic", "client_secret_post")


def read_oauth(section: Section) -> OAuthConfig | None:
    """How tokens for the server of this entry are obtained; None: without OAuth. Mistakes are noted in the section."""
    auth, at = section.get("auth")
    if auth is not None and not isinstance(auth, str | dict):
        section.notes.add("auth should be 'oauth', a token or an object.", at)
        auth = None
    inner = section.section("oauth") or (section.section("auth") if isinstance(auth, dict) else None)
    if inner is None:
        return OAuthConfig() if isinstance(auth, str) and auth.lower() == "oauth" else None
    found = _read(inner)
    inner.note_unknown_keys()
    if not inner.mistakes:
        inner.mistakes += ((f"its {inner.at[-1]} {problem}", inner.at) for problem in _problems(found))
    section.mistakes += inner.mistakes
    section.secrets += inner.secrets
    return found


def _read(inner: Section) -> OAuthConfig:
    client_secret, private_key = inner.text("clientSecret"), _text_or_file(inner, "privateKey")
    if client_secret and not inner.has_variable("clientSecret"):
        note = "clientSecret is written out. Put it into an environment variable, and write ${NAME} here."
        inner.notes.add(note, (*inner.at, "clientSecret"))
    return OAuthConfig(
        stated_grant=cast("OAuthGrant", inner.word("grant", _GRANTS)) or None,
        client_id=inner.text("clientId"),
        client_secret=client_secret,
        secret_in="client_secret_post"
        if inner.word("tokenEndpointAuthMethod", _METHODS) == "client_secret_post"
        else "client_secret_basic",
        private_key=private_key,
        signing_algorithm=inner.text("signingAlgorithm") or OAuthConfig.signing_algorithm,
        client_metadata_url=inner.text("clientMetadataUrl"),
        identity_provider=_identity_provider(inner),
        scope=" ".join(inner.texts("scope", "scopes")),
        issuer=inner.text("issuer", "authServer"),
        per_caller=inner.word("login", _LOGINS) == "per_caller",
        redirect_port=inner.count("redirectPort", 0, 65_535) or inner.count("callbackPort", 0, 65_535),
    )


def _identity_provider(inner: Section) -> IdentityProvider | None:
    section = inner.section("identityProvider")
    if section is None:
        return None
    file = section.text("idTokenFile")
    found = IdentityProvider(
        token_endpoint=section.text("tokenEndpoint"),
        client_id=section.text("clientId"),
        client_secret=_secret(section, "clientSecret"),
        id_token=_secret(section, "idToken"),
        id_token_file=section.variables.folder / Path(file).expanduser() if file else None,
    )
    section.note_unknown_keys()
    inner.mistakes += section.mistakes
    inner.secrets += section.secrets
    return found


def _secret(section: Section, name: str) -> str:
    """A text that is secret; one that is written out is a mistake."""
    found = section.text(name)
    if found and not section.has_variable(name):
        problem = f"{name} is written out. Put it into an environment variable, and write ${{NAME}} here."
        section.mistakes.append((problem, (*section.at, name)))
    return found


def _text_or_file(section: Section, name: str) -> str:
    """A secret text, or what the file holds that is named by the same key with `File` at its end."""
    written = section.text(f"{name}File")
    if not written:
        return _secret(section, name)
    try:
        found = (section.variables.folder / Path(written).expanduser()).read_text("utf-8").strip()
    except (OSError, UnicodeDecodeError):
        section.mistakes.append((f"its {name}File cannot be read.", (*section.at, f"{name}File")))
        return ""
    section.secrets.append(found)
    return found


def _problems(oauth: OAuthConfig) -> Iterator[str]:
    """What is missing to obtain a token this way, each as the rest of a sentence."""
    if oauth.client_secret and oauth.private_key:
        yield "has both a clientSecret and a privateKey; give one."
    if oauth.client_metadata_url and not _is_document(oauth.client_metadata_url):
        yield "has a clientMetadataUrl that is no https:// address of a document."
    if oauth.issuer and urlsplit(oauth.issuer).scheme not in {"http", "https"}:
        yield "has an issuer that is no address; it should begin with https://."
    if oauth.per_caller and oauth.grant != "authorization_code":
        yield f"has a login per_caller, and the grant {oauth.grant}, for which nobody signs in."
    match oauth.grant:
        case "authorization_code":
            if oauth.private_key:
                yield "has a privateKey, which the grant authorization_code does not take."
            if oauth.client_secret and not oauth.client_id:
                yield "has a clientSecret and no clientId."
        case "client_credentials":
            if not (oauth.client_id and (oauth.client_secret or oauth.private_key)):
                yield "needs a clientId, and a clientSecret or a privateKey, for the grant client_credentials."
        case "jwt_bearer":
            yield from _problems_of_jwt_bearer(oauth)


def _problems_of_jwt_bearer(oauth: OAuthConfig) -> Iterator[str]:
    if not (oauth.client_id and oauth.client_secret and oauth.issuer):
        yield "needs clientId, clientSecret and issuer for the grant jwt_bearer."
    provider = oauth.identity_provider
    if provider is None or not (provider.token_endpoint and provider.client_id):
        yield "needs an identityProvider with tokenEndpoint and clientId for the grant jwt_bearer."
    elif not (provider.id_token or provider.id_token_file):
        yield "needs an idToken or an idTokenFile in its identityProvider."


def _is_document(url: str) -> bool:
    parts = urlsplit(url)
    return parts.scheme == "https" and bool(parts.hostname) and parts.path not in {"", "/"}
