"""The disk of a running server is full, or its file is away, in the middle of a process; then it is well again."""

import os
import resource
import subprocess
import sys
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp_types import CallToolResult

from tests.stories.servers import GOALPORT, READY, Running, running, started, workspace
from tests.stories.test_workers import numbers_of

MOUNTS = (
    sys.platform == "linux"
    and subprocess.run(["unshare", "--mount", "--map-root-user", "true"], check=False, capture_output=True).returncode
    == 0
)
MINERS = """
import os
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent

HERE, DATA = Path(__file__).parent, Path(os.environ["GOALPORT_DATA_DIR"])


@dataclass(frozen=True)
class Ore:
    name: str


@dataclass(frozen=True)
class Coin:
    name: str


def fill():
    with (DATA / "filler").open("wb", buffering=0) as filler, suppress(OSError):
        while True:
            filler.write(b"x" * 4096)


FILE, AWAY = DATA / "processes.db", DATA / "away.db"
TROUBLES = {"full": (fill, (DATA / "filler").unlink), "away": (lambda: FILE.rename(AWAY), lambda: AWAY.rename(FILE))}


def heal_when_told(name):
    while not (HERE / f"{name} is over").exists():
        time.sleep(0.01)
    TROUBLES[name][1]()


@agent(description="Mines")
class Miner:
    @action
    async def mine(self, user_input: UserInput) -> Ore:
        with (HERE / "done.txt").open("a") as done:
            done.write(f"mine {user_input.content}\\n")
        if user_input.content in TROUBLES:
            TROUBLES[user_input.content][0]()
            threading.Thread(target=heal_when_told, args=[user_input.content], daemon=True).start()
        return Ore(user_input.content)

    @achieves_goal(description="A coin", export=Export(remote=True, name="mint", long=True, wait_budget=0.3))
    @action
    async def mint(self, ore: Ore) -> Coin:
        with (HERE / "done.txt").open("a") as done:
            done.write(f"mint {ore.name}\\n")
        return Coin(ore.name)


@dataclass(frozen=True)
class Map:
    text: str


@dataclass(frozen=True)
class Mine:
    name: str


@agent(description="Finds mines")
class Scout:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Map]:
        return WaitFor.form_submission("Where is it?", Map)

    @achieves_goal(description="A mine", export=Export(remote=True, name="scout"))
    def find(self, given: Map) -> Mine:
        return Mine(str(len(given.text)))
"""


async def call(client: Client, tool: str, **arguments: object) -> CallToolResult:
    with anyio.fail_after(60):
        return await client.call_tool(tool, arguments)


async def suffers(server: Running, client: Client, folder: Path, trouble: str, says: str) -> None:
    """Let a disk be in trouble for a while, and look at what the server does meanwhile and afterwards."""
    asked = (await call(client, "scout", content=trouble)).structured_content
    assert asked is not None
    question = asked["processId"]
    handle = (await call(client, "mint", content=trouble)).structured_content
    assert handle is not None
    assert handle["status"] == "running"
    await server.heard.until(says)
    refused = await call(client, "mint", content="silver")
    assert refused.is_error
    assert "It did not begin. Try again later." in str(refused.content)
    assert says in str(refused.content)
    status = await call(client, "process_status", processId=handle["processId"])
    assert status.structured_content == handle
    async with httpx2.AsyncClient(base_url=server.address, timeout=20) as http:
        health = await http.get("/health/ready")
        assert health.status_code == 503
        assert any(says.partition(".")[0].removeprefix("The ") in each for each in health.json()["reasons"])
        numbers = await numbers_of(server)
        assert (numbers["goalport_ready"], numbers["goalport_store_writable"]) == (0, 0)
        answer = await http.post(f"/api/v1/process/{question}/continue", json={"response": {"text": "x" * 400_000}})
        assert answer.status_code == 503
    assert (folder / "done.txt").read_text().splitlines()[-1] == f"mine {trouble}"
    (folder / f"{trouble} is over").touch()
    result = await call(client, "process_status", processId=handle["processId"], waitSeconds=25)
    assert result.structured_content == {"name": trouble}
    async with httpx2.AsyncClient(base_url=server.address, timeout=20) as http:
        with anyio.fail_after(20):
            while (await http.get("/health/ready")).status_code != 200:
                await anyio.sleep(0.1)


@pytest.mark.skipif(not MOUNTS, reason="a disk of its own takes Linux and the right to mount one")
async def test_a_process_goes_on_by_itself_when_the_disk_is_well_again(tmp_path: Path) -> None:
    place, data = workspace(tmp_path / "workspace", {"agents/miners.py": MINERS}), tmp_path / "data"
    data.mkdir()
    mounted = f'mount -t tmpfs -o size=4m tmpfs "{data}" && exec "$@"'
    command = ["unshare", "--mount", "--map-root-user", "sh", "-c", mounted, "sh"]
    command += [GOALPORT, "serve", "--workspace", str(place), "--port", "0"]
    env = {**os.environ, "GOALPORT_DATA_DIR": str(data), "GOALPORT_STORE": "sqlite"}
    async with started(command, env=env) as (process, heard):
        said = await heard.until(READY)
        address = next(line for line in said.splitlines() if line.startswith(READY)).removeprefix(READY)
        server = Running(process, heard, address.removesuffix("/mcp"))
        async with server.client("http", "auto") as client:
            await suffers(server, client, place / "agents", "full", "The disk is full. Free some space.")
            await suffers(server, client, place / "agents", "away", "It is no longer there. Put it back")
    done = (place / "agents/done.txt").read_text().splitlines()
    assert done == [f"{step} {each}" for each in ("full", "away") for step in ("mine", "mint")]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the files of another program")
async def test_an_answer_that_cannot_be_stored_is_told_so_soon_and_counts_once_it_can(tmp_path: Path) -> None:
    data = tmp_path / "data"
    async with (
        running(tmp_path, {"agents/miners.py": MINERS}, data_dir=str(data)) as server,
        httpx2.AsyncClient(base_url=server.address, timeout=20) as http,
    ):
        begun = await http.post("/api/v1/process", json={"goal": "scout", "input": {"content": "it"}, "wait": 20})
        links = begun.json()["links"]
        # What is short still fits, so the process can be taken, and its answer not stored.
        most = max(each.stat().st_size for each in data.iterdir() if each.is_file()) + 100_000
        _, hard = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (most, hard))
        answer = await http.post(links["continue"], json={"response": {"text": "x" * 400_000}})
        assert (answer.status_code, answer.json()["type"].rpartition(":")[2]) == (503, "unavailable")
        assert "Look at the process before you send it again." in answer.json()["detail"]
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (hard, hard))
        ended = await http.get(links["self"], params={"wait": 20})
        assert ended.json()["result"] == {"name": "400000"}
        assert "continue unavailable after" in server.heard.text
