"""Keys, tokens and the secrets of authentication are planted, and no output of a server shows one of them."""

import json
import logging
from pathlib import Path

import anyio
import httpx2
import pytest

from goalport.cli import execute
from goalport.runtime import AgentPlatform
from goalport.server import startup_report
from goalport.server.auth.keys import KeyFile, hash_of, new_key
from goalport.server.publish.publisher import Publisher
from goalport.server.site.app import Site
from goalport.workspace import load_workspace
from goalport.workspace.settings import load_settings
from tests.spans import recorded_spans
from tests.stories.servers import workspace

PORTER = """
import logging
import os
from goalport import AgentProcess, Export, UserInput, achieves_goal, agent

@agent(description="Says who calls")
class Porter:
    @achieves_goal(description="Who calls", export=Export(remote=True, name="who"))
    def who(self, asked: UserInput) -> str:
        caller = AgentProcess.current().caller
        logging.getLogger("agents.porter").warning("called by %r at %s", caller, os.environ["SHOP_URL"])
        if asked.content == "fail":
            raise RuntimeError(f"failed for {caller!r} at {os.environ['SHOP_URL']}")
        return caller.id
"""
INTROSPECTION = "introspection-geheim-4711"
PASSWORD = "passwort-geheim-4711"
JWT = "eyJhbGciOiJSUzI1NiJ9.eyJzdWIiOiJhbm5hIiwiaXNzIjoiaHR0cHM6Ly94In0.c2lnbmF0dXJlLWdlaGVpbQ"
OPAQUE = "opaque-geheim-4711-token"


async def contents(folder: Path) -> str:
    files = [each async for each in anyio.Path(folder).rglob("*") if await each.is_file()]
    return "".join([(await each.read_bytes()).decode("latin-1") for each in files if each.name != "keys.json"])


async def ask(http: httpx2.AsyncClient, content: str = "", **headers: str) -> httpx2.Response:
    given = {"goal": "who", "input": {"content": content}, "wait": 20}
    return await http.post("/api/v1/process", json=given, headers=headers)


async def requested(site: Site, keys: list[str]) -> tuple[str, list[httpx2.Response]]:
    """The id of a process, and the answers to requests with good, strange and misplaced credentials."""
    transport = httpx2.ASGITransport(site.app, raise_app_exceptions=False)
    async with (
        site.app.router.lifespan_context(site.app),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost") as http,
    ):
        answers = [
            *[await ask(http, content, **{"X-API-Key": key}) for key in keys[:2] for content in ("", "fail")],
            *[await ask(http, Authorization=f"Bearer {token}") for token in (keys[0], keys[2], JWT, OPAQUE)],
            await ask(http, Authorization=f"Basic {OPAQUE}"),
            await ask(http, **{"X-API-Key": keys[0], "Authorization": f"Bearer {JWT}"}),
            await http.get(f"/api/v1/processes?access_token={keys[1]}"),
            await http.get("/health", headers={"X-API-Key": keys[0]}),
            await http.get("/api/v1/processes", headers={"X-API-Key": keys[0]}),
        ]
        begun = answers[0].json()["processId"]
        answers.append(await http.get(f"/events/process/{begun}", headers={"X-API-Key": keys[0]}))
        return begun, answers


async def told_by_commands(root: Path, begun: str) -> None:
    """Let the commands print what they tell about a process and a workspace."""
    for words in (["ps", "--all"], ["show", begun, "--events"], ["export", begun], ["keys", "list"], ["check"]):
        await anyio.to_thread.run_sync(execute, [*words, "--workspace", str(root)])


async def test_no_secret_of_a_caller_or_of_a_setting_is_in_any_output(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(logging.DEBUG)
    entry, filed, stranger = (new_key("anna", ("goals:write", "goals:admin"), None) for _ in range(3))
    asked = {"issuer": "http://127.0.0.1:9", "endpoint": "http://127.0.0.1:9/introspect", "client_id": "c"}
    monkeypatch.setenv("SHOP_URL", f"https://user:{PASSWORD}@shop.example.com")
    monkeypatch.setenv("GOALPORT_AUTH__INTROSPECTION", json.dumps([{**asked, "client_secret": INTROSPECTION}]))
    monkeypatch.setenv("GOALPORT_AUTH__KEY_ENTRIES", json.dumps([entry.entry.record()]))
    settings = load_settings(workspace(tmp_path, {"agents/porters.py": PORTER}), log_level="debug")
    with KeyFile(settings.key_file).changing() as entries:
        entries.append(filed.entry)
    loaded = load_workspace(tmp_path)
    site = Site(Publisher(AgentPlatform.from_workspace(loaded, settings), loaded, settings))
    keys = [each.key.get_secret_value() for each in (entry, filed, stranger)]
    said = list(startup_report(site.publisher, "http://127.0.0.1:8080", site.doors))

    with recorded_spans() as spans:
        begun, answers = await requested(site, keys)
        said += [each.to_json() for each in spans.all]
        assert spans.all
    said += [f"{each.status_code} {each.headers} {each.text}" for each in answers]
    assert {200, 400, 401, 503} <= {each.status_code for each in answers}

    capsys.readouterr()
    await told_by_commands(tmp_path, begun)
    printed = capsys.readouterr()
    said += [printed.out, printed.err, repr(settings), str(settings)]
    places = {
        "what was said": "\n".join(said),
        "the log": "\n".join(f"{each.getMessage()} {each.exc_text}" for each in caplog.records),
        "stored files": await contents(settings.data_dir),
    }
    assert begun in printed.out
    planted = [*keys, *map(hash_of, keys), INTROSPECTION, PASSWORD, JWT, OPAQUE]
    leaks = {place: each for place, text in places.items() for each in planted if each in text}
    assert not leaks
