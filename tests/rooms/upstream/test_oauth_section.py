"""Reading how a server's access tokens are obtained, and what is said of what is wrong."""

import json
from pathlib import Path
from typing import Any

import pytest

from goalport.tools.upstream.config import McpConfig, OAuthConfig, read_config

ENVIRONMENT = {"SECRET": "our-client-secret", "PEM": "-----BEGIN PRIVATE KEY-----", "ID_TOKEN": "the-id-token"}
PROVIDER = {"tokenEndpoint": "https://id.example/token", "clientId": "us", "idToken": "${ID_TOKEN}"}
COMPANY = {
    "clientId": "us",
    "clientSecret": "${SECRET}",
    "issuer": "https://auth.example",
    "identityProvider": PROVIDER,
}
CREDENTIALS = {"clientId": "us", "clientSecret": "${SECRET}"}


def read(folder: Path, oauth: object) -> McpConfig:
    path = folder / "mcp_config.json"
    path.write_text(json.dumps({"mcpServers": {"it": {"url": "https://it.example/mcp", "oauth": oauth}}}, indent=1))
    return read_config(path, ENVIRONMENT)


def told(folder: Path, **oauth: object) -> OAuthConfig:
    config = read(folder, oauth)
    assert config.problems == ()
    found = config.servers["it"].oauth
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("written", "grant"),
    [
        ({}, "authorization_code"),
        ({"clientId": "us"}, "authorization_code"),
        ({**CREDENTIALS, "grant": "authorization_code"}, "authorization_code"),
        (CREDENTIALS, "client_credentials"),
        ({"clientId": "us", "privateKey": "${PEM}"}, "client_credentials"),
        (COMPANY, "jwt_bearer"),
    ],
)
def test_the_grant_is_told_from_what_is_there(tmp_path: Path, written: Any, grant: str) -> None:
    assert told(tmp_path, **written).grant == grant


def test_secrets_come_from_variables_and_files_and_are_known_as_secrets(tmp_path: Path) -> None:
    (tmp_path / "key.pem").write_text("-----BEGIN EC PRIVATE KEY-----\n")
    company = told(tmp_path, **COMPANY)
    signing = told(tmp_path, clientId="us", privateKeyFile="key.pem", signingAlgorithm="ES256")

    assert (signing.private_key, signing.signing_algorithm) == ("-----BEGIN EC PRIVATE KEY-----", "ES256")
    assert {"our-client-secret", "the-id-token"} <= set(company.all_secrets())
    assert signing.private_key in set(signing.all_secrets())
    assert "secret" not in repr(company).replace("secret_in='client_secret_basic'", "")
    assert "the-id-token" not in repr(company)


def test_the_file_of_an_id_token_is_beside_the_configuration(tmp_path: Path) -> None:
    provider = {**PROVIDER, "idToken": None, "idTokenFile": "id.jwt"}
    found = told(tmp_path, **COMPANY | {"identityProvider": provider}).identity_provider

    assert found is not None
    assert found.id_token_file == tmp_path / "id.jwt"


WRITTEN_OUT = "is written out. Put it into an environment variable, and write ${NAME} here."


@pytest.mark.parametrize(
    ("written", "reason"),
    [
        ({"clientId": "us", "privateKey": "-----BEGIN"}, f"privateKey {WRITTEN_OUT}"),
        ({"clientId": "us", "privateKeyFile": "none.pem"}, "privateKeyFile cannot be read."),
        (
            {**CREDENTIALS, "privateKey": "${PEM}"},
            "its oauth has both a clientSecret and a privateKey; give one.",
        ),
        (
            {"clientSecret": "${SECRET}"},
            "its oauth needs a clientId, and a clientSecret or a privateKey, for the grant client_credentials.",
        ),
        (
            {"grant": "authorization_code", "clientSecret": "${SECRET}"},
            "its oauth has a clientSecret and no clientId.",
        ),
        (
            {"grant": "authorization_code", "clientId": "us", "privateKey": "${PEM}"},
            "its oauth has a privateKey, which the grant authorization_code does not take.",
        ),
        (
            {"clientMetadataUrl": "http://it.example/us"},
            "its oauth has a clientMetadataUrl that is no https:// address of a document.",
        ),
        (
            {"clientMetadataUrl": "https://it.example/"},
            "its oauth has a clientMetadataUrl that is no https:// address of a document.",
        ),
        (
            {**CREDENTIALS, "issuer": "auth.example"},
            "its oauth has an issuer that is no address; it should begin with https://.",
        ),
        (
            {"grant": "jwt_bearer", **CREDENTIALS, "issuer": "https://auth.example"},
            "its oauth needs an identityProvider with tokenEndpoint and clientId for the grant jwt_bearer.",
        ),
        (
            COMPANY | {"issuer": ""},
            "its oauth needs clientId, clientSecret and issuer for the grant jwt_bearer.",
        ),
        (
            COMPANY | {"identityProvider": {**PROVIDER, "idToken": None}},
            "its oauth needs an idToken or an idTokenFile in its identityProvider.",
        ),
        (COMPANY | {"identityProvider": {**PROVIDER, "idToken": "eyJ.x.y"}}, f"idToken {WRITTEN_OUT}"),
    ],
)
def test_what_gets_no_token_is_said_in_one_line(tmp_path: Path, written: Any, reason: str) -> None:
    (problem,) = read(tmp_path, written).problems

    assert problem.message == f"server 'it' cannot be used: {reason}"
    assert (problem.line or 0) > 1


def test_a_client_secret_that_is_written_out_is_taken_with_a_warning(tmp_path: Path) -> None:
    config = read(tmp_path, {"clientId": "us", "clientSecret": "written-out"})

    assert config.servers["it"].oauth is not None
    assert [each.message for each in config.problems] == [f"clientSecret {WRITTEN_OUT}"]
