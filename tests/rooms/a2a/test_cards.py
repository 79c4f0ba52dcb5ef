"""Agent cards say what there is, to clients of both versions; those of 0.3 are served too."""

from pathlib import Path
from typing import Any

import pytest
from a2a.types import AgentCard
from a2a.utils.signing import create_signature_verifier
from google.protobuf.json_format import ParseDict
from jwt import PyJWK

from goalport.server.auth import Authentication
from goalport.server.auth.keys import new_key
from goalport.workspace.settings import load_settings
from tests.rooms.a2a.other_agents import Other, Refused, other_agent
from tests.rooms.agui.talkers import Cook, Kitchen, Thinker

CARD = "/.well-known/agent-card.json"


async def test_a_server_and_each_agent_has_a_card(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook(), Kitchen(), Thinker(), name="kitchens") as other:
        whole = (await other.http.get(CARD)).json()
        assert whole["name"] == "kitchens"
        assert [each["id"] for each in whole["skills"]] == ["Thinker", "cook", "prepare"]
        cook = next(each for each in whole["skills"] if each["id"] == "cook")
        assert (cook["inputModes"], cook["outputModes"]) == (
            ["application/json", "text/plain"],
            ["application/json", "text/plain"],
        )
        address = str(other.http.base_url).rstrip("/")
        assert [(each["url"], each["protocolBinding"]) for each in whole["supportedInterfaces"][:2]] == [
            (f"{address}/a2a", "JSONRPC"),
            (f"{address}/a2a", "HTTP+JSON"),
        ]
        assert (whole["url"], whole["preferredTransport"], whole["protocolVersion"]) == (
            f"{address}/a2a",
            "JSONRPC",
            "0.3",
        )
        of_agent = await other.http.get(f"/a2a/agents/Kitchen{CARD}")
        assert (of_agent.json()["name"], [each["id"] for each in of_agent.json()["skills"]]) == ("Kitchen", ["prepare"])
        assert of_agent.json()["url"] == f"{address}/a2a/agents/Kitchen"
        assert (await other.http.get(f"/a2a/agents/Nobody{CARD}")).status_code == 404


async def test_a_card_is_kept_until_it_changes(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook()) as other:
        first = await other.http.get(CARD)
        assert first.headers["cache-control"] == "public, max-age=60"
        again = await other.http.get(CARD, headers={"If-None-Match": first.headers["etag"]})
        assert (again.status_code, again.headers["last-modified"]) == (304, first.headers["last-modified"])
        other.platform.deploy(Kitchen())
        await other.publisher.republish()
        assert (await other.http.get(CARD)).headers["etag"] != first.headers["etag"]


async def test_a_card_is_signed_by_the_key_of_the_server(tmp_path: Path) -> None:
    from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    pem = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (tmp_path / "card.pem").write_bytes(pem)
    async with other_agent(tmp_path, Cook(), a2a_signing_key="card.pem") as other:
        keys = (await other.http.get("/.well-known/a2a-keys.json")).json()["keys"]
        content = (await other.http.get(CARD)).json()
        card = ParseDict(content, AgentCard(), ignore_unknown_fields=True)
        verify = create_signature_verifier(
            lambda kid, _: next(PyJWK(each) for each in keys if each["kid"] == kid), ["ES256"]
        )
        verify(card)
        card.name = "somebody else"
        with pytest.raises(Exception, match="signature"):
            verify(card)


async def test_who_is_unknown_sees_how_to_sign_in_and_who_is_known_what_there_is(tmp_path: Path) -> None:
    key = new_key("ada", ["goals:write"], None)
    options: dict[str, Any] = {"auth": {"key_entries": [key.entry.record()]}}
    settings = load_settings(tmp_path, **options)
    async with other_agent(tmp_path, Cook(), authentication=Authentication.of(settings), **options) as other:
        card = (await other.http.get(CARD)).json()
        assert [each["id"] for each in card["skills"]] == ["goals"]
        assert card["capabilities"]["extendedAgentCard"] is True
        assert {"apiKey", "apiKeyHeader"} == card["securitySchemes"].keys()
        assert (await other.http.post("/a2a", json={})).status_code == 401
        assert (await other.http.get(f"/a2a/agents/Cook{CARD}")).status_code == 401
        other.http.headers["authorization"] = f"Bearer {key.key.get_secret_value()}"
        extended = await other.call("GetExtendedAgentCard")
        assert [each["id"] for each in extended["skills"]] == ["cook"]
        known = await other.http.get(CARD)
        assert [each["id"] for each in known.json()["skills"]] == ["cook"]
        assert known.headers["cache-control"] == "private, max-age=60"


async def test_without_authentication_there_is_no_extended_card(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook()) as other:
        with pytest.raises(Refused, match="EXTENDED_AGENT_CARD_NOT_CONFIGURED"):
            await other.call("GetExtendedAgentCard")


async def test_clients_of_the_earlier_version_are_served(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook(), Kitchen()) as other:
        said = {"messageId": "m-1", "role": "user", "parts": [{"kind": "text", "text": "peas"}]}
        params = {"message": {**said, "kind": "message", "metadata": {"skill": "cook"}}}
        answer = await _by_rpc(other, "message/send", params)
        assert (answer["kind"], answer["status"]["state"]) == ("task", "completed")
        assert answer["artifacts"][0]["parts"][0]["data"] == {"text": "A plate of peas"}
        assert (await _by_rpc(other, "tasks/get", {"id": answer["id"]}))["id"] == answer["id"]
        body = {"message": {"messageId": "m-2", "role": "ROLE_USER", "content": [{"text": "peas"}]}}
        sent = await other.http.post("/a2a/agents/Cook/v1/message:send", json=body)
        assert sent.json()["task"]["status"]["state"] == "TASK_STATE_COMPLETED"


async def _by_rpc(other: Other, method: str, params: dict[str, Any]) -> dict[str, Any]:
    answer = await other.http.post("/a2a", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
    return answer.json()["result"]
