"""No token that is not exactly right passes, whatever its sender has thought of."""

import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jwt

from goalport.workspace.settings.tables import ASYMMETRIC
from tests.rooms.auth.guarded import by, guarded
from tests.rooms.auth.issuers import RESOURCE, Issuer, SigningKey, encoded, encoded_json, issuing

STRANGER = SigningKey("one")
"""A key that nobody published, under the id of one that is."""


def _unsigned(issuer: Issuer, algorithm: str) -> str:
    return f"{encoded_json({'alg': algorithm, 'typ': 'at+jwt'})}.{encoded_json(issuer.claims)}."


def _by_public_key(issuer: Issuer) -> str:
    """Signed with the public key as if it were a secret, which it is for a verifier that believes the header."""
    text = f"{encoded_json({'alg': 'HS256', 'typ': 'at+jwt', 'kid': 'one'})}.{encoded_json(issuer.claims)}"
    secret = encoded_json(issuer.keys[0].public).encode()
    return f"{text}.{encoded(jwt.get_algorithm_by_name('HS256').sign(text.encode(), secret))}"


def _changed(issuer: Issuer) -> str:
    head, _, signature = issuer.token().split(".")
    return f"{head}.{encoded_json({**issuer.claims, 'sub': 'root'})}.{signature}"


def _with_key_in_header(issuer: Issuer, name: str, value: Any) -> str:
    return issuer.token(STRANGER, {name: value})


def _texts(issuer: Issuer, header: str = '{"alg":"ES256","kid":"one"}', **parts: str) -> str:
    """A token that is signed well, of a text that no library would write."""
    known = {"iss": f'"{issuer.issuer}"', "aud": f'"{RESOURCE}"', "sub": '"anna"', "exp": str(int(time.time()) + 60)}
    given = {**known, **parts}
    return issuer.signed(header, "{" + ",".join(f'"{name}":{value}' for name, value in given.items()) + "}")


def _readable(text: str) -> bool:
    try:
        json.loads(text)
    except RecursionError:
        return False
    return True


_FUTURE = 3_600
HOSTILE: dict[str, Callable[[Issuer], str]] = {
    # how it is signed
    "not signed": lambda it: _unsigned(it, "none"),
    "not signed, in capitals": lambda it: _unsigned(it, "NONE"),
    "a signature without bytes": lambda it: it.token().rsplit(".", 1)[0] + ".",
    "signed with the public key": _by_public_key,
    "signed with a stranger's key": lambda it: it.token(STRANGER),
    "signed with a key of an unknown id": lambda it: it.token(header={"kid": "unknown"}),
    "the signature of another token": _changed,
    "an algorithm in small letters": lambda it: _texts(it, '{"alg":"es256","kid":"one"}'),
    "a list of algorithms": lambda it: _texts(it, '{"alg":["ES256"],"kid":"one"}'),
    "RSA with a key of a curve": lambda it: _texts(it, '{"alg":"RS256","kid":"one"}'),
    "an id of a key that is a path": lambda it: it.token(STRANGER, {"kid": "../../../../dev/null"}),
    "an id of a key that is SQL": lambda it: it.token(STRANGER, {"kid": "' UNION SELECT 'secret'--"}),
    "an id of a key that is a number": lambda it: _texts(it, '{"alg":"ES256","kid":1}'),
    "an id of a key as long as a book": lambda it: it.token(header={"kid": "k" * 2_000}),
    "a key set of its own": lambda it: _with_key_in_header(it, "jku", "http://127.0.0.1:9/jwks"),
    "a key of its own": lambda it: _with_key_in_header(it, "jwk", STRANGER.public),
    "a certificate's address": lambda it: _with_key_in_header(it, "x5u", "http://127.0.0.1:9/x"),
    "a certificate": lambda it: _with_key_in_header(it, "x5c", ["AAAA"]),
    "critical extensions": lambda it: it.token(header={"crit": ["b64"], "b64": True}),
    "a critical extension that nobody knows": lambda it: _texts(it, '{"alg":"ES256","crit":["x"],"x":1}'),
    "a payload beside it": lambda it: _texts(it, '{"alg":"ES256","kid":"one","b64":false}'),
    "another token within": lambda it: it.signed('{"alg":"ES256","kid":"one","cty":"JWT"}', it.token()),
    "encrypted": lambda _: f"{encoded_json({'alg': 'dir', 'enc': 'A256GCM'})}..AAAA.AAAA.AAAA",
    # how it is written
    "two parts": lambda it: it.token().rsplit(".", 1)[0],
    "four parts": lambda it: it.token() + ".AAAA",
    "no JSON": lambda it: it.signed("{", "{}"),
    "a list of claims": lambda it: it.signed('{"alg":"ES256","kid":"one"}', "[]"),
    "a claim twice": lambda it: _texts(it, sub='"anna","sub":"root"'),
    "a header twice": lambda it: _texts(it, '{"alg":"none","alg":"ES256","kid":"one"}'),
    "half a surrogate pair": lambda it: _texts(it, sub=r'"\ud800"'),
    "a number that is none": lambda it: _texts(it, exp="NaN"),
    "a signature with other last bits": lambda it: it.token()[:-1] + "_",
    "too large": lambda it: it.token(x="x" * 20_000),
    # what it says
    "no end": lambda it: it.token(exp=None),
    "no issuer": lambda it: it.token(iss=None),
    "no audience": lambda it: it.token(aud=None),
    "nobody": lambda it: it.token(sub=None, client_id=None),
    "expired": lambda it: it.token(exp=int(time.time()) - 1),
    "expires never, as a number": lambda it: _texts(it, exp="1e999"),
    "expires at a text": lambda it: it.token(exp=str(int(time.time()) + 60)),
    "expires at true": lambda it: _texts(it, exp="true"),
    "issued in the future": lambda it: it.token(iat=int(time.time()) + _FUTURE),
    "valid in the future": lambda it: it.token(nbf=int(time.time()) + _FUTURE),
    "another issuer": lambda it: it.token(iss="http://127.0.0.1:9"),
    "the same issuer with a slash": lambda it: it.token(iss=f"{it.issuer}/"),
    "a list of issuers": lambda it: _texts(it, iss=f'["{it.issuer}"]'),
    "another audience": lambda it: it.token(aud="https://elsewhere.example"),
    "an audience that begins alike": lambda it: it.token(aud=f"{RESOURCE}.evil.example/mcp"),
    "an audience that is a mapping": lambda it: it.token(aud={RESOURCE: 1}),
    "an audience of none": lambda it: it.token(aud=[]),
    "a subject that is a number": lambda it: _texts(it, sub="1"),
    "a subject with a line break": lambda it: it.token(sub="anna\nroot"),
    "scopes that are a mapping": lambda it: it.token(scope={"goals:admin": True}),
    "an id token by its type": lambda it: it.token(header={"typ": "id+jwt"}),
    "an id token by its nonce": lambda it: it.token(header={"typ": "JWT"}, nonce="n"),
    "an id token by a hash": lambda it: it.token(header={"typ": "JWT"}, at_hash="h"),
    "an id token as Keycloak has it": lambda it: it.token(header={"typ": "JWT"}, typ="ID"),
    "an id token as Cognito has it": lambda it: it.token(header={"typ": "JWT"}, token_use="id"),
    "a refresh token": lambda it: it.token(header={"typ": "JWT"}, typ="Refresh"),
    "a logout token": lambda it: it.token(header={"typ": "logout+jwt"}),
    "a proof of possession": lambda it: it.token(header={"typ": "dpop+jwt"}),
    "bound to a key": lambda it: it.token(cnf={"jkt": "thumb"}),
}


async def test_no_hostile_token_passes_and_none_makes_the_server_ask_for_more_than_the_keys(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        assert (await server.ask(issuer.token())).status_code == 200

        answers = {  # each from another address, since one that fails often is slowed
            name: await server.ask(make(issuer), **{"X-Forwarded-For": f"203.0.113.{number}"})
            for number, (name, make) in enumerate(HOSTILE.items())
        }

        assert {name: each.status_code for name, each in answers.items() if each.status_code not in {400, 401}} == {}
        assert {name for name, each in answers.items() if each.status_code == 400} == {"too large"}
        refused = [each for each in answers.values() if each.status_code == 401]
        assert all('error="invalid_token"' in each.headers["www-authenticate"] for each in refused)
        assert issuer.requests["/jwks"] == 1
        assert (await server.ask(issuer.token())).status_code == 200


async def test_a_token_may_be_nested_as_deeply_as_this_python_reads(tmp_path: Path) -> None:
    async with issuing() as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        nested = "[" * 5_000 + "]" * 5_000
        deep = await server.ask(_texts(issuer, x=nested))
        assert deep.status_code == (403 if _readable(nested) else 401), "403: it has no scope"
        assert (await server.ask(issuer.token())).status_code == 200


def test_only_signatures_with_a_private_key_are_known() -> None:
    assert not any(each.startswith("HS") or each == "none" for each in ASYMMETRIC)


async def test_a_token_may_be_written_as_providers_write_them(tmp_path: Path) -> None:
    rsa = SigningKey("rsa", "RS256")
    async with issuing(keys=[SigningKey("one"), rsa]) as issuer, guarded(tmp_path, auth=by(issuer)) as server:
        right = {
            "signed with RSA": issuer.token(rsa),
            "of no type": issuer.token(header={"typ": None}),
            "of the usual type": issuer.token(header={"typ": "JWT"}),
            "of the type with all words": issuer.token(header={"typ": "application/AT+JWT"}),
            "without the id of a key": issuer.token(header={"kid": None}),
            "for several": issuer.token(aud=["https://elsewhere.example", RESOURCE]),
            "Keycloak": issuer.token(header={"typ": "JWT"}, typ="Bearer", azp="host", client_id=None),
            "Entra": issuer.token(scope=None, scp="goals:read", appid="host", client_id=None),
            "Okta": issuer.token(scope=None, scp=["goals:read"], cid="host", client_id=None),
            "of a clock that is a little ahead": issuer.token(iat=int(time.time()) + 20),
        }
        refused = {name: (await server.ask(token)).text for name, token in right.items()}
        assert {name: text for name, text in refused.items() if "agents" not in text} == {}
