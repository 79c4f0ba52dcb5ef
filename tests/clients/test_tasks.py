"""The Tasks extension over real connections: the official client with an extension of its own, the official suite."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import HEADER_MISMATCH

from tests.clients.running import CLIENTS, CONFORMANCE, Served, run, serving_twice
from tests.clients.test_conformance import complaints
from tests.rooms.serve.askers import Answering, call
from tests.rooms.serve.following_tasks import (
    FollowingTasks,
    NamedTask,
    NamingRequest,
    TaskAnswer,
    TaskRequest,
    ask,
    create,
)
from tests.rooms.serve.served import text_of

SCENARIOS = [
    "lifecycle",
    "capability-negotiation",
    "wire-fields",
    "request-state-removal",
    "mrtr-input",
    "request-headers",
    "dispatch-and-envelope",
    "status-notifications",
    "required-task-error",
    "mrtr-composition",
]


class MisnamedTask(NamedTask):
    name: str = "another-task"


class MisnamingRequest(TaskRequest):
    """One whose header names another task than its params."""

    params: MisnamedTask  # pyright: ignore[reportIncompatibleVariableOverride]
    name_param = "name"


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Two servers on one SQLite file, and a proxy that sends the requests to each in turn."""
    with serving_twice(CLIENTS / "conformance", tmp_path_factory.mktemp("tasks")) as server:
        yield server


@pytest.mark.parametrize(
    ("tool", "arguments", "answers", "result"),
    [
        ("slow_compute", {"seconds": 0.2, "label": "it"}, [], "it took 0.2 s"),
        ("confirm_delete", {"filename": "a.txt"}, [{"confirm": True}], "a.txt was deleted"),
        ("confirm_delete", {"filename": "b.txt"}, [{"confirm": 3}, {"confirm": False}], "b.txt was kept"),
    ],
)
async def test_the_python_client_follows_a_task_that_either_of_two_servers_answers_for(
    fleet: Served, tool: str, arguments: dict[str, Any], answers: list[dict[str, Any]], result: str
) -> None:
    person = Answering.with_(*answers)
    extension = FollowingTasks(person)
    async with Client(fleet.target("http")[0], extensions=[extension], elicitation_callback=person) as client:
        assert text_of(await call(client, tool, **arguments)) == result
        assert len(extension.tasks) == 1
        assert person.answers == []


async def test_a_header_that_names_another_task_is_refused_and_none_is_let_pass(fleet: Served) -> None:
    async with Client(fleet.target("http")[0], extensions=[FollowingTasks()]) as client:
        with anyio.fail_after(60):
            task = await create(client, "slow_compute", seconds=60)
            for kind in (TaskRequest, NamingRequest):
                assert (await ask(client.session, "tasks/get", task, kind=kind))["status"] == "working"
            with pytest.raises(MCPError) as refused:
                await client.session.send_request(
                    MisnamingRequest(method="tasks/get", params=MisnamedTask(task_id=task)), TaskAnswer
                )
            assert refused.value.code == HEADER_MISMATCH
            await ask(client.session, "tasks/cancel", task)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_tasks_scenarios_of_the_official_suite_pass(
    node: str, conformance: Served, tmp_path: Path, scenario: str
) -> None:
    url, results = conformance.target("http")[0], tmp_path / "results"
    command = [node, CONFORMANCE, "server", "--url", url, "--scenario", f"tasks-{scenario}"]
    suite = run([*command, "--output-dir", str(results)], tmp_path)
    assert suite.returncode == 0, "\n".join([*complaints(results), suite.stdout[-4000:], suite.stderr[-2000:]])
    assert "0 failed, 0 warnings" in suite.stdout
