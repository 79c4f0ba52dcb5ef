"""What callers do, as the audit log of a server has it, through every door; and `goalport audit`, which prints it."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from goalport.base.observe.audit import read_audit
from goalport.cli.upkeep import audit as print_audit
from goalport.server.auth import Authentication, Challenges
from goalport.server.publish.publisher import Publisher
from goalport.workspace.settings import Settings, audit_file_of
from tests.rooms.rest.web import web
from tests.rooms.serve.served import ERAS, as_caller, served, state_of
from tests.rooms.serve.test_call_log import Asker, Greeter
from tests.rooms.site.test_health import OneToken, client_of

ON = {"enabled": True}
SECRET = "nobody-may-know-4711"


def deeds(publisher: Publisher, *names: str) -> Sequence[tuple[Any, ...]]:
    """What was done, by whom, and these facts about it."""
    publisher.audit_trail.close()
    entries = read_audit(audit_file_of(publisher.settings))
    return [tuple(each.get(name) for name in ("deed", "caller", *names)) for each in entries]


@pytest.mark.parametrize("era", ERAS)
async def test_calls_answers_and_ends_over_mcp_are_written_without_values(tmp_path: Path, era: str) -> None:
    with as_caller("ada"):
        async with served(tmp_path, Greeter(), Asker(), audit=ON) as server, server.client(era) as client:
            await client.call_tool("greet", {"content": SECRET})
            await client.call_tool("greet", {"content": "fail"})
            ids = [(await client.call_tool("judge", {"content": SECRET})).structured_content for _ in range(3)]
            first, second, third = (each["processId"] for each in ids if each is not None)
            await client.call_tool("process_answer", {"processId": first, "answer": True})
            await client.call_tool("process_answer", {"processId": second, "answer": False})
            await client.call_tool("process_cancel", {"processId": third})
            found = deeds(server.state.publisher, "call", "status", "process_id")
    file = audit_file_of(server.state.settings).read_text()
    assert [each[:4] for each in found] == [
        ("called", "ada", "greet", "completed"),
        ("called", "ada", "greet", "failed"),
        *[("called", "ada", "judge", "waiting")] * 3,
        ("approved", "ada", None, None),
        ("called", "ada", "process_answer", "completed"),
        ("declined", "ada", None, None),
        ("called", "ada", "process_answer", "failed"),
        ("ended", "ada", None, None),
        ("called", "ada", "process_cancel", "killed"),
    ]
    assert [each[4] for each in found[5:]] == [first, first, second, second, third, third]
    assert SECRET not in file
    assert json.loads(file.splitlines()[0])["arguments"] == ["content"]


async def test_answers_and_ends_over_rest_are_written_and_reading_is_not(tmp_path: Path) -> None:
    async with web(tmp_path, Asker(), audit=ON) as server:
        server.http.headers["Caller"] = "bob"
        first = (await server.start("judge", {"content": SECRET}, wait=20)).json()
        await server.resume(first, False, wait=20)
        second = (await server.start("judge", {"content": SECRET}, wait=20)).json()
        for _ in range(2):
            await server.http.delete(f"/api/v1/process/{second['processId']}")
        await server.http.get("/api/v1/processes")
        found = deeds(server.publisher, "process_id")
    assert [each for each in found if each[0] != "called"] == [
        ("declined", "bob", first["processId"]),
        ("ended", "bob", second["processId"]),
    ]
    assert len(found) == 7


async def test_denials_are_written_and_a_flood_of_them_drives_out_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def known(_: Settings) -> Authentication:
        return Authentication([OneToken(["goals:read"])], Challenges("goals:read"))

    monkeypatch.setattr(Authentication, "of", known)
    publisher = state_of(tmp_path, audit=ON).publisher
    async with client_of(publisher) as client:
        await client.get("/metrics", headers={"Authorization": "Bearer sesame"})
        for _ in range(100):
            await client.get("/mcp", headers={"Authorization": f"Bearer {SECRET}"})
        found = deeds(publisher, "http_status", "path")
    assert found[:2] == [("denied", "ada", 403, "/metrics"), ("denied", "anonymous", 401, "/mcp")]
    assert len(found) == 60
    assert SECRET not in audit_file_of(publisher.settings).read_text()


async def test_without_authentication_no_audit_log_is_written_unless_somebody_wants_it(tmp_path: Path) -> None:
    async with served(tmp_path, Greeter()) as server, server.client() as client:
        await client.call_tool("greet", {"content": "x"})
        server.state.publisher.audit_trail.close()
    assert not audit_file_of(server.state.settings).exists()


async def test_the_log_is_printed_and_chosen_from(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "server").mkdir()
    (tmp_path / "server/settings.toml").write_text("[audit]\nenabled = true\n")
    async with served(tmp_path, Greeter()) as server:
        for name in ("ada", "bob"):
            with as_caller(name):
                async with server.client() as client:
                    await client.call_tool("greet", {"content": "x"})
        server.state.publisher.audit_trail.close()
    print_audit(workspace=tmp_path, since="1h")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "ada of https://issuer called" in lines[0]
    assert "call=greet arguments=content status=completed" in lines[0]
    print_audit(workspace=tmp_path, caller="bob", deed="called", format="json")
    assert json.loads(capsys.readouterr().out)["caller"] == "bob"
    print_audit(workspace=tmp_path, process="no such")
    assert "Nothing of that" in capsys.readouterr().err
