"""The command line looks at stored processes and changes them, beside a server and while none runs."""

import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from anyio import to_thread

from tests.rooms.cli.conftest import Command, goalport, home
from tests.stories.servers import Running, running

__all__ = ["goalport", "home"]

pytestmark = pytest.mark.usefixtures("measured")
TRIPS = """
import asyncio
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent

DONE = Path(__file__).with_name("done.txt")


@dataclass(frozen=True)
class Limit:
    amount: int


@dataclass(frozen=True)
class Ticket:
    city: str
    code: SecretStr


@dataclass(frozen=True)
class Trip:
    city: str
    amount: int


@agent(description="Plans trips")
class Planner:
    @action(tool_groups=["atlas"])
    def ask(self, user_input: UserInput) -> WaitFor[Limit]:
        return WaitFor.form_submission("How much may it cost?", Limit)

    @action(repeatable=False)
    async def buy(self, user_input: UserInput, limit: Limit) -> Ticket:
        with DONE.open("a") as done:
            done.write("bought\\n")
        while not DONE.with_name("open").exists():
            await asyncio.sleep(0.02)
        return Ticket(user_input.content, SecretStr("hush"))

    @achieves_goal(description="A trip", export=Export(remote=True, name="plan_trip", long=True, wait_budget=0.2))
    @action
    def plan(self, limit: Limit, ticket: Ticket) -> Trip:
        return Trip(ticket.city, limit.amount)
"""


Run = Callable[..., Awaitable[tuple[str, str]]]


@pytest.fixture
def run(goalport: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run a command in this process, beside what the test awaits; what it prints on standard output and error."""
    monkeypatch.setenv("GOALPORT_STORE", "sqlite")

    async def ran(*words: str, code: int = 0) -> tuple[str, str]:
        done = await to_thread.run_sync(lambda: goalport(*words, "--workspace", str(tmp_path)))
        assert done.code == code, (words, done.out, done.err)
        return done.out, done.err

    return ran


async def shown(run: Run, process_id: str) -> dict[str, Any]:
    return json.loads((await run("show", process_id, "--json"))[0])


async def started(server: Running) -> str:
    """The id of a process that asks for a limit."""
    async with server.client("http", "auto") as client:
        handle = (await client.call_tool("plan_trip", {"content": "Rome"})).structured_content
    assert handle is not None
    return handle["processId"]


async def until_bought(root: Path) -> None:
    with anyio.fail_after(60):
        while not (root / "agents/done.txt").exists():
            await anyio.sleep(0.02)


async def test_a_process_is_listed_answered_shown_and_killed_beside_the_server_that_runs_it(
    tmp_path: Path, run: Run
) -> None:
    async with running(tmp_path, {"agents/trips.py": TRIPS}, store="sqlite") as server:
        process_id = await started(server)
        (listed,) = json.loads((await run("ps", "--json"))[0])
        assert (listed["process"], listed["status"], listed["ended"]) == (process_id, "waiting", "")
        _, refused = await run("answer", process_id, code=2)
        assert "How much may it cost?" in refused
        assert '"amount"' in refused
        await run("answer", process_id, '{"amount": 7}')
        await until_bought(tmp_path)
        view = await shown(run, process_id)
        assert (view["status"], view["runner"]["pid"]) == ("running", server.process.pid)
        assert [(each["action"], each["attempts"]) for each in view["history"]] == [("Planner.ask", 1)]
        (missing,) = view["history"][0]["missingTools"]
        assert missing.startswith("No tool group plays the role 'atlas'.")
        assert f"    {missing}" in (await run("show", process_id))[0]
        await run("kill", process_id, "--reason", "Too hot.")
        async with server.client("http", "auto") as client:
            told = await client.call_tool("process_status", {"processId": process_id})
        assert "Too hot." in str(told.content)


async def test_an_interrupted_purchase_waits_for_a_decision_and_goes_on_here(tmp_path: Path, run: Run) -> None:
    async with running(tmp_path, {"agents/trips.py": TRIPS}, store="sqlite") as server:
        process_id = await started(server)
        await run("answer", process_id, '{"amount": 7}')
        await until_bought(tmp_path)
        server.process.kill()
        await server.process.wait()
    (tmp_path / "agents/open").touch()
    _, refused = await run("resume", process_id, code=2)
    assert "--retry" in refused
    printed, _ = await run("resume", process_id, "--retry", "--wait", "--json")
    assert json.loads(printed) == {"city": "Rome", "amount": 7}
    assert (tmp_path / "agents/done.txt").read_text() == "bought\nbought\n"
    events = json.loads((await run("show", process_id, "--events", "--json"))[0])["events"]
    numbers = [each["event_number"] for each in events]
    assert numbers == sorted(set(numbers))
    assert [each["number"] for each in events if each["event"] == "ActionFinished"] == [1, 2, 3]
    exported, _ = await run("export", process_id)
    assert json.loads(exported)["format"] == 1
    assert "Rome" in exported
    assert '"$secret_text": "$secret_text"' in exported
    await run("prune", "--keep", "0")
    assert json.loads((await run("ps", "--all", "--json"))[0]) == []


async def test_a_decision_without_a_server_is_left_to_the_next_one(tmp_path: Path, run: Run) -> None:
    async with running(tmp_path, {"agents/trips.py": TRIPS}, store="sqlite") as server:
        process_id = await started(server)
        await run("answer", process_id, '{"amount": 7}')
        await until_bought(tmp_path)
        server.process.kill()
        await server.process.wait()
    (tmp_path / "agents/open").touch()
    await run("resume", process_id, "--skip")
    assert (tmp_path / "agents/done.txt").read_text() == "bought\n"
    async with running(tmp_path, {}, store="sqlite") as server, server.client("http", "auto") as client:
        result = await client.call_tool("process_status", {"processId": process_id, "waitSeconds": 25})
    assert "somebody decided to go on without it" in str(result.content)


async def test_what_todays_code_cannot_read_is_shown_with_the_difference_and_can_be_killed(
    tmp_path: Path, run: Run
) -> None:
    async with running(tmp_path, {"agents/trips.py": TRIPS}, store="sqlite") as server:
        process_id = await started(server)
    (tmp_path / "agents/trips.py").write_text(TRIPS.replace("Limit", "Cap"))
    view = await shown(run, process_id)
    assert "agents.trips:Limit" in view["unreadable"]
    assert [each["action"] for each in view["history"]] == ["Planner.ask"]
    await run("kill", process_id)
    page, _ = await run("ps", "--all")
    assert "killed" in page
