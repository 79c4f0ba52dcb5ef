"""Requests that nobody should send: each gets an error of the protocol with a sentence, and begins nothing."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.rooms.a2a.other_agents import VERSION, message, other_agent
from tests.rooms.agui.talkers import Cook

JSON = {"content-type": "application/json", **VERSION}


def rpc(**more: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": message("peas")}, **more}


STRANGE: dict[str, tuple[bytes | dict[str, Any], int]] = {
    "no json": (b"{", -32700),
    "bytes that are no text": (b"\xff\xfe", -32700),
    "half a character": (json.dumps(rpc(params={"message": message("\ud800")})).encode(), -32700),
    "lists in lists": (b"[" * 5_000 + b"]" * 5_000, -32700),
    "a number that nothing holds": (rpc(method="tasks/get", params={"id": "t", "historyLength": 2**70}), -32602),
    "not an object": (b"3", -32600),
    "a batch": (json.dumps([rpc()]).encode(), -32600),
    "another version": (rpc(jsonrpc="1.0"), -32600),
    "an unknown method": (rpc(method="EatMessage"), -32601),
    "no message": (rpc(params={}), -32602),
    "params that are a list": (rpc(params=[1]), -32602),
    "no parts": (rpc(params={"message": {**message(), "parts": []}}), -32602),
    "an empty part": (rpc(params={"message": {**message(), "parts": [{}]}}), -32602),
    "no id": (rpc(params={"message": {**message("peas"), "messageId": ""}}), -32602),
    "a long id": (rpc(params={"message": {**message("peas"), "messageId": "x" * 300}}), -32602),
    "the role of an agent": (rpc(params={"message": {**message("peas"), "role": "ROLE_AGENT"}}), -32602),
    "a file": (
        rpc(params={"message": {**message(), "parts": [{"raw": "AAAA", "mediaType": "application/zip"}]}}),
        -32005,
    ),
    "an address": (
        rpc(
            params={"message": {**message(), "parts": [{"url": "http://127.0.0.1/secret", "mediaType": "text/plain"}]}}
        ),
        -32005,
    ),
    "text of another type": (
        rpc(params={"message": {**message(), "parts": [{"text": "peas", "mediaType": "application/pdf"}]}}),
        -32005,
    ),
    "a number that is none": (json.dumps(rpc(params={"message": message({"x": float("nan")})})).encode(), -32602),
    "a task that is not there": (rpc(params={"message": message("yes", taskId="../../etc/passwd")}), -32001),
    "a skill that is no name": (rpc(params={"message": message("peas", metadata={"skill": ["cook"]})}), -32602),
    "a negative history": (rpc(params={"message": message("peas"), "configuration": {"historyLength": -1}}), -32602),
}


@pytest.mark.parametrize("name", STRANGE)
async def test_a_strange_request_gets_the_error_of_the_protocol(tmp_path: Path, name: str) -> None:
    body, code = STRANGE[name]
    async with other_agent(tmp_path, Cook()) as other:
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        answer = await other.http.post("/a2a", content=content, headers=JSON)
        assert answer.status_code == 200
        assert answer.json()["error"]["code"] == code
        assert answer.json()["error"]["message"]
        assert "Traceback" not in answer.text
        assert await other.platform.processes.records() == []


async def test_an_error_names_the_fields_as_they_are_in_json_and_says_why(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook()) as other:

        async def told(given: Any) -> tuple[str, str]:
            both = [
                await other.http.post("/a2a", json=rpc(params={"message": given}), headers=VERSION),
                await other.http.post("/a2a/message:send", json={"message": given}, headers=VERSION),
            ]
            rest = both[1].json()["error"]
            assert rest["status"] == "INVALID_ARGUMENT"
            return both[0].json()["error"]["message"], rest["message"]

        missing = "message.messageId: Field is required; message.parts: Field must contain at least one element"
        assert await told({"role": "ROLE_USER"}) == (missing, missing)
        for words in await told({**message("peas"), "parts": [{"text": 5}]}):
            assert "text field: expected string" in words
        assert (await other.http.put("/a2a", json={}, headers=VERSION)).json()["error"]["code"] == -32600


async def test_a_method_of_the_new_version_without_its_header_is_told_which(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook()) as other:
        answers = [
            await other.http.post("/a2a", json=rpc(), headers={"content-type": "application/json"}),
            await other.http.post("/a2a/message:send", json={"message": message("peas")}),
        ]
        for answer in answers:
            assert answer.json()["error"]["message"].endswith("Send the header A2A-Version: 1.0.")
        assert await other.platform.processes.records() == []


async def test_what_is_wrong_with_the_http_request_is_its_status(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook(), max_body_bytes=10_000) as other:
        for media, words in (("text/plain", "Content-Type"), ("application/grpc", "gRPC is not served here")):
            refused = await other.http.post("/a2a", content=b"{}", headers={**JSON, "content-type": media})
            assert (refused.status_code, refused.json()["error"]["code"]) == (415, -32005)
            assert words in refused.json()["error"]["message"]
        large = await other.http.post("/a2a", json=rpc(params={"message": message("x" * 20_000)}), headers=VERSION)
        assert (large.status_code, "10,000 bytes" in large.json()["error"]["message"]) == (413, True)
        for wrong in (b"{", b"\xff\xfe", b"[" * 5_000 + b"]" * 5_000):
            refused = await other.http.post("/a2a/message:send", content=wrong, headers=JSON)
            assert (refused.status_code, "is not JSON" in refused.json()["error"]["message"]) == (400, True)
        assert (await other.http.get("/a2a/nothing/here")).status_code == 404
        wrong = await other.http.delete("/a2a/message:send")
        assert (wrong.status_code, wrong.headers["allow"]) == (405, "POST")
        later = await other.http.post("/a2a", json=rpc(), headers={"A2A-Version": "7.0"})
        assert later.json()["error"]["code"] == -32009
        assert await other.platform.processes.records() == []


async def test_a_limit_is_a_status_with_the_time_to_try_again(tmp_path: Path) -> None:
    async with other_agent(tmp_path, Cook(), limits={"calls_per_minute": 1}) as other:
        assert "result" in (await other.http.post("/a2a", json=rpc(), headers=VERSION)).json()
        refused = await other.http.post("/a2a", json=rpc(params={"message": message("more")}), headers=VERSION)
        assert (refused.status_code, int(refused.headers["retry-after"]) > 0) == (429, True)
