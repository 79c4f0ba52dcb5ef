"""`/metrics`: what is counted, under which names, for whom; and the dashboard, which shows what is there."""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client.parser import text_string_to_metric_families as read_text

from goalport import Export, UserInput, achieves_goal, agent
from goalport.server.auth import Authentication, Challenges
from goalport.workspace.settings import Settings
from tests.rooms.rest.web import Web, web
from tests.rooms.serve.served import state_of
from tests.rooms.serve.test_call_log import MODELS, Asker, Greeter, Writer
from tests.rooms.site.test_health import OneToken, client_of
from tests.stories.fleets import FILES as CRAFT
from tests.stories.servers import running
from tests.stories.test_workers import numbers_of

ROOT = Path(__file__).parents[3]
OPEN_METRICS = "application/openmetrics-text; version=1.0.0"


@dataclass(frozen=True)
class Nap:
    name: str


async def numbers(http: httpx2.AsyncClient) -> Mapping[str, float]:
    """Each sample by its name and its labels."""
    answer = await http.get("/metrics")
    assert answer.headers["content-type"].startswith("text/plain")
    lines = (each.rpartition(" ") for each in answer.text.splitlines() if not each.startswith("#"))
    return {name: float(value) for name, _, value in lines}


async def some_calls(server: Web) -> None:
    await server.start("greet", {"content": "Ada"}, wait=20)
    await server.start("greet", {"content": "fail"}, wait=20)
    await server.start("judge", {"content": "it"}, wait=20)
    await server.start("write", {"content": "it"}, wait=20)
    await server.start("no such goal", {})


async def test_calls_models_and_processes_are_counted(tmp_path: Path) -> None:
    agents = Greeter(), Asker(), Writer()
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools/models.py").write_text(MODELS)
    async with web(tmp_path, *agents, store="sqlite", models={"default_llm": "scripted"}) as server:
        server.http.event_hooks = {}
        await some_calls(server)
        found = await numbers(server.http)
    expected = {
        'goalport_calls_total{door="rest",goal="greet",status="completed"}': 1,
        'goalport_calls_total{door="rest",goal="greet",status="failed"}': 1,
        'goalport_calls_total{door="rest",goal="judge",status="waiting"}': 1,
        'goalport_calls_total{door="rest",goal="POST /api/v1/process",status="refused"}': 1,
        'goalport_call_seconds_count{door="rest",goal="greet"}': 2,
        'goalport_http_responses_total{status="200"}': 2,
        'goalport_http_responses_total{status="422"}': 2,
        'goalport_model_requests_total{model="scripted"}': 1,
        'goalport_model_tokens_total{model="scripted",type="input"}': 60,
        'goalport_model_tokens_total{model="scripted",type="output"}': 40,
        'goalport_model_cost_dollars_total{model="scripted"}': 0.25,
        'goalport_model_seconds_count{model="scripted"}': 1,
        'goalport_store_errors_total{kind="write"}': 0,
        'goalport_processes{status="completed"}': 2,
        'goalport_processes{status="waiting"}': 1,
        "goalport_open_calls": 0,
        "goalport_ready": 1,
        "goalport_workers": 1,
    }
    assert {name: found.get(name) for name in expected} == expected
    assert found["goalport_oldest_question_seconds"] > 0
    assert found['goalport_store_seconds_count{kind="write"}'] > 0
    assert found["goalport_store_bytes"] > 0
    assert found["goalport_store_free_bytes"] > 0
    if sys.platform == "linux":
        assert found["goalport_resident_bytes"] > 2**20
        assert 0 < found["goalport_open_descriptors"] < found["goalport_max_descriptors"]


@agent(description="Sleeps")
class Sleeper:
    @achieves_goal(description="Sleep", export=Export(remote=True, name="sleep"))
    async def sleep(self, user_input: UserInput) -> Nap:
        await anyio.sleep_forever()
        raise AssertionError


async def test_counting_processes_reads_the_store_no_more_often_if_more_run(tmp_path: Path) -> None:
    reads = 'goalport_store_seconds_count{kind="read"}'
    async with web(tmp_path, Sleeper(), store="sqlite") as server:
        server.http.event_hooks = {}
        for _ in range(30):
            await server.start("sleep", {"content": "well"}, wait=0)
        before, after = [await numbers(server.http) for _ in range(2)]
    assert after['goalport_processes{status="running"}'] == 30
    assert after[reads] - before[reads] < 30


async def test_a_request_of_a_model_that_fails_is_counted_with_its_time(tmp_path: Path) -> None:
    (tmp_path / "tools").mkdir()
    fails = "from goalport.base.errors import ModelRefused\n" + MODELS.replace('"a line"', 'ModelRefused("No.")')
    (tmp_path / "tools/models.py").write_text(fails)
    async with web(tmp_path, Writer(), models={"default_llm": "scripted"}) as server:
        server.http.event_hooks = {}
        await server.start("write", {"content": "it"}, wait=20)
        found = await numbers(server.http)
    assert found['goalport_model_failures_total{model="scripted"}'] == 1
    assert found['goalport_model_seconds_count{model="scripted"}'] == 1


async def test_a_process_that_goes_on_after_its_program_has_ended_is_counted(tmp_path: Path) -> None:
    async with running(tmp_path, CRAFT, lease_seconds="1") as server, server.client("http", "auto") as client:
        handle = (await client.call_tool("forge", {"content": "it"})).structured_content
        assert handle is not None
        server.process.kill()
    (tmp_path / "agents/hot").touch()
    async with running(tmp_path, CRAFT, lease_seconds="1") as server, server.client("http", "auto") as client:
        followed = {"processId": handle["processId"], "waitSeconds": 25}
        assert (await client.call_tool("process_status", followed)).structured_content == {"name": "it"}
        assert (await numbers_of(server))["goalport_take_overs_total"] == 1


async def test_what_a_client_makes_up_becomes_no_label(tmp_path: Path) -> None:
    async with web(tmp_path, Greeter()) as server:
        server.http.event_hooks = {}
        async with Client(streamable_http_client(f"{server.http.base_url}/mcp", http_client=server.http)) as client:
            with pytest.raises(MCPError):
                await client.call_tool("made up", {})
        await server.http.patch("/api/v1/process")
        found = await numbers(server.http)
    assert not [each for each in found if "made up" in each]
    assert found['goalport_calls_total{door="mcp",goal="unknown",status="refused"}'] == 1
    assert found['goalport_calls_total{door="rest",goal="unknown",status="refused"}'] == 1


async def test_what_a_limit_refuses_is_counted(tmp_path: Path) -> None:
    publisher = state_of(tmp_path).publisher
    async with client_of(publisher) as client:
        publisher.calls.refused("calls_per_minute")
        assert (await numbers(client))['goalport_refusals_total{limit="calls_per_minute"}'] == 1


async def test_both_formats_of_prometheus_are_spoken(tmp_path: Path) -> None:
    async with client_of(state_of(tmp_path).publisher) as client:
        text = (await client.get("/metrics")).text
        assert {each.name for each in read_text(text)} >= {"goalport_info", "goalport_event_loop_lag_seconds"}
        answer = await client.get("/metrics", headers={"Accept": OPEN_METRICS})
        assert answer.headers["content-type"].startswith("application/openmetrics-text")
        parser: Any = openmetrics  # which has no annotations
        assert {each.name for each in parser.text_string_to_metric_families(answer.text)} >= {
            "goalport_info",
            "goalport_calls",
        }


@pytest.mark.parametrize(
    ("settings", "status"),
    [
        ({}, 200),
        ({"metrics": False}, 404),
        ({"host": "192.0.2.1"}, 403),
        ({"host": "192.0.2.1", "metrics": "open"}, 200),
    ],
)
async def test_without_authentication_metrics_are_for_the_own_machine(
    tmp_path: Path, settings: Mapping[str, Any], status: int
) -> None:
    async with client_of(state_of(tmp_path, **settings).publisher) as client:
        assert (await client.get("/metrics")).status_code == status


@pytest.mark.parametrize(
    ("scopes", "statuses"), [(["goals:read"], (401, 403)), (["goals:metrics"], (401, 200)), (["*"], (401, 200))]
)
async def test_with_authentication_metrics_need_a_scope(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scopes: list[str], statuses: tuple[int, int]
) -> None:
    def known(_: Settings) -> Authentication:
        return Authentication([OneToken(scopes)], Challenges("goals:read"))

    monkeypatch.setattr(Authentication, "of", known)
    async with client_of(state_of(tmp_path).publisher) as client:
        answer = await client.get("/metrics", headers={"Authorization": "Bearer sesame"})
        assert ((await client.get("/metrics")).status_code, answer.status_code) == statuses
        if answer.status_code == 403:
            assert 'scope="goals:metrics"' in answer.headers["www-authenticate"]


async def test_the_dashboard_and_the_table_name_metrics_that_exist(tmp_path: Path) -> None:
    async with client_of(state_of(tmp_path, store="sqlite").publisher) as client:
        told = (await client.get("/metrics", headers={"Accept": OPEN_METRICS})).text
    families = set(re.findall(r"^# TYPE (\w+)", told, re.MULTILINE))
    known = families | {f"{each}{end}" for each in families for end in ("_total", "_bucket", "_sum", "_count")}
    dashboard = json.loads((ROOT / "server/grafana-dashboard.json").read_text())
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    alerts = (ROOT / "server/alerts.yml").read_text()
    shown = {name for each in (*queries, alerts) for name in re.findall(r"goalport_\w+", each)}
    assert shown <= known
    rows = re.findall(r"^\| (`goalport_\w+.*?) \|", (ROOT / "docs/operations.md").read_text(), re.MULTILINE)
    listed = {name for each in rows for name in re.findall(r"goalport_\w+", each)}
    assert {each.removesuffix("_total") for each in listed} == families
    assert all(each["title"] for each in dashboard["panels"])


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is in the package prometheus of Debian")
def test_the_alerts_fire_when_they_should() -> None:
    tested = Path(__file__).with_name("alerts.yml")
    for kind, file in (("check", ROOT / "server/alerts.yml"), ("test", tested)):
        done = subprocess.run(["promtool", kind, "rules", file], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stdout + done.stderr
