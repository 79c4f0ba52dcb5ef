"""The files of `server/` deploy this workspace as they stand."""

import tomllib
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from importlib import import_module
from pathlib import Path

import httpx2
import pytest

from goalport.models import ModelsSettings
from goalport.runtime import LlmOperations
from goalport.workspace.settings import RetrySettings, Settings, load_settings
from goalport.workspace.settings.tables import LimitSettings, ProcessSettings

ROOT = Path(__file__).parents[2]


async def test_the_asgi_app_serves_the_shipped_workspace(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GOALPORT_DATA_DIR", str(tmp_path))
    app = import_module("server.app").app
    lifespan: Callable[[object], AbstractAsyncContextManager[None]] = app.router.lifespan_context
    transport = httpx2.ASGITransport(app)
    async with lifespan(app), httpx2.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
        told = (await client.get("/health")).json()
    assert (told["status"], told["loadProblems"]) == ("ok", 0)
    assert told["goals"] >= 1


def test_the_settings_file_shows_each_setting_with_the_value_that_it_has(tmp_path: Path) -> None:
    text = (ROOT / "server/settings.toml").read_text()
    lines = [line.removeprefix("# ") for line in text.splitlines() if line.startswith("# ")]
    shown = [line for line in lines if " = " in line or line.startswith("[")]
    usual = load_settings(tmp_path)
    (tmp_path / "server").mkdir()
    (tmp_path / "server/settings.toml").write_text("\n".join(shown))
    doors = {
        "rest": usual.serves("rest"),
        "agui": usual.serves("agui"),
        "openai_api": usual.serves("openai_api"),
        "a2a": True,
    }
    assert load_settings(tmp_path) == usual.model_copy(update=doors)
    found = tomllib.loads("\n".join(shown))
    assert set(Settings.model_fields) - set(found) == {"workspace", "profile", "state_keys", "state_ttl_seconds"}
    assert set(ProcessSettings.model_fields) == {*found["process"], "actions"}
    assert set(LimitSettings.model_fields) == set(found["limits"])
    assert set(ModelsSettings.model_fields) == set(found["models"])
    assert set(LlmOperations.model_fields) == set(found["llm_operations"])
    assert set(RetrySettings.model_fields) == set(found["retry"])
