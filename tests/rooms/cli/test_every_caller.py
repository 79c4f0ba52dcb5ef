"""`goalport ps --every-caller` lists the processes that all callers have at a server, for an admin."""

from pathlib import Path

import pytest
from anyio import to_thread

from goalport.server.auth import Authentication
from goalport.server.auth.keys import new_key
from goalport.workspace.settings import load_settings
from tests.rooms.cli.conftest import Command
from tests.rooms.rest.web import PROCESS, web
from tests.rooms.serve.askers import Pizzeria


async def test_an_admin_lists_and_ends_the_processes_of_all_callers(
    tmp_path: Path, goalport: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {name: new_key(name, [f"goals:{scope}"], None) for name, scope in (("anna", "write"), ("root", "admin"))}
    auth = {"key_entries": [each.entry.record() for each in keys.values()]}
    authentication = Authentication.of(load_settings(tmp_path, auth=auth))
    async with web(tmp_path, Pizzeria(), authentication=authentication, auth=auth) as server:
        headers = {"Documented": "no", "Authorization": f"Bearer {keys['anna'].key.get_secret_value()}"}
        body = {"goal": "order_pizza", "input": {"size": 30}}
        process = (await server.http.post(PROCESS, json=body, headers=headers)).json()["processId"]
        at = ("--server", str(server.http.base_url))

        monkeypatch.setenv("GOALPORT_KEY", keys["anna"].key.get_secret_value())
        refused = await to_thread.run_sync(goalport, "ps", "--every-caller", *at)
        assert refused.code != 0
        assert "goals:admin" in refused.err

        monkeypatch.setenv("GOALPORT_KEY", keys["root"].key.get_secret_value())
        assert process not in (await to_thread.run_sync(goalport, "ps", *at)).out
        listed = await to_thread.run_sync(goalport, "ps", "--every-caller", *at)
        assert process in listed.out
        assert "anna" in listed.out
        killed = await to_thread.run_sync(goalport, "kill", process, *at)
        assert "is killed" in killed.out + killed.err
