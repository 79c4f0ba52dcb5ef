"""API keys at a server: who passes, as whom, and what happens while the key file changes."""

import json
import logging
import os
import re
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest

from goalport import AgentPlatform, AgentProcess, Export, UserInput, achieves_goal, agent
from goalport.base.errors import SettingsError
from goalport.server.auth.keys import KeyFile, KeyUses, is_whole, new_key
from goalport.server.site import create_app
from goalport.workspace.settings import load_settings
from tests.stories.servers import READY, running

READ = ("goals:read",)


@agent(description="Says who calls")
class Porter:
    @achieves_goal(description="Who calls", export=Export(remote=True, name="who", read_only=True))
    def who(self, asked: UserInput) -> str:
        process = AgentProcess.current()
        assert process is not None
        caller = process.caller
        return f"{caller.id} of {caller.issuer}: {' '.join(sorted(caller.scopes))}"


def file_of(root: Path) -> KeyFile:
    return KeyFile(load_settings(root).key_file)


def make_key(root: Path, name: str = "anna", scopes: tuple[str, ...] = READ, **changes: Any) -> str:
    made = new_key(name, scopes, changes.pop("expires", None))
    with file_of(root).changing() as entries:
        entries.append(made.entry.model_copy(update=changes))
    return made.key.get_secret_value()


@asynccontextmanager
async def served(root: Path, **settings: Any) -> AsyncGenerator[httpx2.AsyncClient]:
    app = create_app(AgentPlatform([Porter]), settings=load_settings(root, **settings))
    transport = httpx2.ASGITransport(app)
    async with (
        app.router.lifespan_context(app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http,
    ):
        yield http


async def ask(http: httpx2.AsyncClient, key: str) -> httpx2.Response:
    given = {"goal": "who", "input": {"content": ""}, "wait": 20}
    return await http.post("/api/v1/process", json=given, headers={"Authorization": f"Bearer {key}"} if key else {})


async def test_a_key_makes_its_holder_the_caller_of_that_name_with_its_scopes(tmp_path: Path) -> None:
    anna, bob = make_key(tmp_path), make_key(tmp_path, "bob", ("goals:write", "x"))
    async with served(tmp_path) as http:
        assert (await ask(http, anna)).json()["result"] == "anna of goalport:keys: goals:read"
        assert (await ask(http, bob)).json()["result"] == "bob of goalport:keys: goals:read goals:write x"
        by_header = await http.get("/api/v1/processes", headers={"X-API-Key": anna})
        assert [each["agent"] for each in by_header.json()["processes"]] == ["Porter"]


async def test_several_keys_of_one_name_are_one_caller_so_that_a_key_can_be_replaced(tmp_path: Path) -> None:
    old, new = make_key(tmp_path), make_key(tmp_path)
    async with served(tmp_path) as http:
        begun = (await ask(http, old)).json()["links"]["self"]
        assert (await http.get(begun, headers={"X-API-Key": new})).status_code == 200


async def test_without_a_valid_key_nobody_passes_and_is_told_why(tmp_path: Path) -> None:
    past = datetime.now(UTC) - timedelta(seconds=1)
    key, stranger = make_key(tmp_path), new_key("anna", READ, None).key.get_secret_value()
    expired, revoked = make_key(tmp_path, expires=past), make_key(tmp_path, revoked=past)
    async with served(tmp_path) as http:
        refused = {
            "": "in the header Authorization: Bearer TOKEN or X-API-Key: KEY",
            stranger: "not known",
            key[:-1]: "mistyped or cut off",
            key[:-1] + ("0" if key[-1] != "0" else "1"): "mistyped or cut off",
            expired: "expired",
            revoked: "revoked",
            "another-token": "no kind that this server knows",
        }
        for token, words in refused.items():
            answer = await ask(http, token)
            assert answer.status_code == 401
            assert words in answer.json()["error_description"]
            assert answer.headers["WWW-Authenticate"].startswith("Bearer")
            assert "resource_metadata" not in answer.headers["WWW-Authenticate"]
        assert (await http.get("/health")).status_code == 200


async def test_a_running_server_follows_the_key_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("goalport.server.auth.keys._LOOK_SECONDS", 0.0)
    anna = make_key(tmp_path)
    async with served(tmp_path) as http:
        bob = make_key(tmp_path, "bob")
        assert [(await ask(http, each)).status_code for each in (anna, bob)] == [200, 200]
        with file_of(tmp_path).changing() as entries:
            entries[:] = [each.model_copy(update={"revoked": each.created}) for each in entries]
        assert [(await ask(http, each)).status_code for each in (anna, bob)] == [401, 401]


async def test_the_file_is_looked_at_a_second_later_at_most(tmp_path: Path) -> None:
    anna = make_key(tmp_path)
    async with served(tmp_path) as http:
        assert (await ask(http, anna)).status_code == 200
        file_of(tmp_path).path.unlink()
        with anyio.fail_after(60):
            while (await http.get("/api/v1/processes", headers={"X-API-Key": anna})).status_code == 200:
                pass


IS_ROOT = hasattr(os, "geteuid") and os.geteuid() == 0
SPOILT = [
    *("broken", "a field that is not known", "open to others", "a link to nothing", "a pipe", "large"),
    "in a folder of everybody",
    *(("of another user", "in a folder of another user") if IS_ROOT else ()),  # nobody else can give a file away
]


@pytest.mark.parametrize("how", [*SPOILT, "gone"])
async def test_while_the_file_cannot_be_read_nobody_passes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    monkeypatch.setattr("goalport.server.auth.keys._LOOK_SECONDS", 0.0)
    anna, path = make_key(tmp_path), file_of(tmp_path).path
    whole = path.read_text()
    async with served(tmp_path) as http:
        spoil(path, how)
        for _ in range(2):
            answer = await ask(http, anna)
            assert (answer.status_code, "Retry-After" in answer.headers) == (503, True)
        logged = [each for each in caplog.messages if str(path) in each]
        assert len([each for each in caplog.records if each.levelno == logging.ERROR]) == 1, logged
        path.unlink(missing_ok=True)
        path.write_text(whole)
        path.chmod(0o600)
        path.parent.chmod(0o700)
        if "another user" in how:
            os.chown(path.parent, os.geteuid(), -1)
        assert (await ask(http, anna)).status_code == 200
    assert anna not in caplog.text


@pytest.mark.parametrize("how", SPOILT)
async def test_a_server_does_not_start_with_a_file_that_cannot_be_read(tmp_path: Path, how: str) -> None:
    make_key(tmp_path)
    spoil(file_of(tmp_path).path, how)
    with pytest.raises(SettingsError, match=r"keys\.json cannot be used"):
        create_app(AgentPlatform([Porter]), settings=load_settings(tmp_path))


def spoil(path: Path, how: str) -> None:
    match how:
        case "broken":
            path.write_text(path.read_text()[:-10])
        case "gone":
            path.unlink()
        case "a field that is not known":
            path.write_text(path.read_text().replace('"expires"', '"expired"'))
        case "open to others":
            path.chmod(0o622)
        case "in a folder of everybody":
            path.parent.chmod(0o777)
        case "of another user":
            os.chown(path, 12345, -1)
        case "in a folder of another user":
            os.chown(path.parent, 12345, -1)
        case "a pipe":
            path.unlink()
            os.mkfifo(path)
        case "large":
            path.write_text(path.read_text() + " " * 5_000_000)
        case _:
            path.unlink()
            path.symlink_to(path.with_name("nowhere.json"))


async def test_a_server_stays_closed_when_the_last_key_is_revoked_or_none_was_made_yet(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    make_key(tmp_path / "a", revoked=datetime.now(UTC))
    for root, settings in ((tmp_path / "a", {}), (tmp_path, {"auth": {"keys": True}})):
        async with served(root, **settings) as http:
            assert (await ask(http, "")).status_code == 401


async def test_keys_can_come_from_a_variable_and_be_revoked_by_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = [new_key(name, READ, None) for name in ("anna", "bob")]
    keys = [each.key.get_secret_value() for each in made]
    monkeypatch.setenv("GOALPORT_AUTH__KEY_ENTRIES", json.dumps([each.entry.record() for each in made]))
    async with served(tmp_path) as http:
        assert [(await ask(http, each)).status_code for each in keys] == [200, 200]
    with file_of(tmp_path).changing() as entries:
        entries.append(made[0].entry.model_copy(update={"revoked": made[0].entry.created}))
    async with served(tmp_path) as http:
        assert [(await ask(http, each)).status_code for each in keys] == [401, 200]


async def test_keys_can_be_switched_off(tmp_path: Path) -> None:
    make_key(tmp_path)
    async with served(tmp_path, auth={"keys": False}) as http:
        assert (await ask(http, "")).json()["result"] == "anonymous of : "


async def test_the_last_use_of_a_key_is_written_beside_the_answers(tmp_path: Path) -> None:
    anna = make_key(tmp_path)
    make_key(tmp_path, "bob")
    async with served(tmp_path) as http:
        before = datetime.now(UTC)
        await ask(http, anna)
        uses = KeyUses(load_settings(tmp_path).data_dir)
        with anyio.fail_after(60):
            while not (known := uses.times()):
                await anyio.sleep(0.01)
    (entry, _) = file_of(tmp_path).read()
    assert list(known) == [entry.id]
    assert abs(known[entry.id] - before) < timedelta(seconds=5)


def test_a_key_is_random_and_only_its_hash_is_kept(tmp_path: Path) -> None:
    keys = {make_key(tmp_path) for _ in range(50)}
    assert len(keys) == 50
    assert all(re.fullmatch(r"gp_[0-9A-Za-z]{38}", each) and is_whole(each) for each in keys)
    file = file_of(tmp_path).path
    assert not any(each[3:20] in file.read_text() for each in keys)
    assert file.stat().st_mode & 0o077 == 0


async def test_no_key_is_lost_when_several_programs_write_at_once(tmp_path: Path) -> None:
    async with anyio.create_task_group() as tasks:
        for number in range(8):
            tasks.start_soon(anyio.to_thread.run_sync, make_key, tmp_path, f"n{number}")
    assert sorted(each.name for each in file_of(tmp_path).read()) == [f"n{number}" for number in range(8)]


async def test_every_worker_asks_for_keys(tmp_path: Path) -> None:
    anna = make_key(tmp_path)
    async with running(tmp_path, {"agents/none.py": ""}, host="0.0.0.0", workers="2") as server:  # noqa: S104
        assert READY in server.announced
        address = f"http://127.0.0.1:{server.port}/api/v1/processes"
        for key, status in ((anna, 200), ("", 401)):
            for _ in range(4):
                async with httpx2.AsyncClient() as http:  # a connection each, so that both workers answer
                    answer = await http.get(address, headers={"X-API-Key": key} if key else {})
                    assert answer.status_code == status
