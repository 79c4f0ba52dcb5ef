"""What docs/deploy.md says, done on a folder that stands for a machine: two servers, a proxy, and two colleagues.

Each command of the page is run, but for those that change the system of a machine: they need root and systemd. The
servers are started with the command of the unit.
"""

import configparser
import json
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tests.clients.running import installed
from tests.docs.fences import ROOT, Fence, fences
from tests.stories.servers import READY, Running, started
from tests.web_servers import WebServer, free_port, nginx

PAGE = "docs/deploy.md"
OF_THE_SYSTEM = (
    "apt-get",
    "chown",
    "nginx",
    "systemctl",
    "useradd",
    "python3 -m venv",
    "/opt/goalport/bin/pip",
)
PLACES = ("opt", "srv", "var", "etc")
COLLEAGUES = ("ada", "grace")
ASKING = """
from dataclasses import dataclass

from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent


@dataclass(frozen=True)
class Gem:
    colour: str


@dataclass(frozen=True)
class Crown:
    content: str


@agent(description="Makes crowns")
class Jeweller:
    @action
    async def choose(self, user_input: UserInput) -> WaitFor[Gem]:
        return WaitFor.form_submission("Which gem?", Gem)

    @achieves_goal(description="A crown", export=Export(remote=True, name="crown"))
    @action
    async def mount(self, gem: Gem, user_input: UserInput) -> Crown:
        return Crown(f"{gem.colour} for {user_input.content}")
"""


def section(heading: str, *languages: str) -> list[Fence]:
    """The fences below a heading of the page, up to the next one."""
    lines = (ROOT / PAGE).read_text().splitlines()
    headings = [number for number, line in enumerate(lines, 1) if re.match("##+ ", line)]
    first = next(number for number in headings if lines[number - 1].lstrip("# ") == heading)
    last = next((number for number in headings if number > first), len(lines))
    return [each for each in fences(PAGE, *languages) if first < each.line < last]


def unit() -> configparser.SectionProxy:
    """What the unit says of its service; of what is said twice, the last."""
    read = configparser.ConfigParser(strict=False, interpolation=None)
    read.optionxform = str  # type: ignore[assignment,method-assign]
    read.read_string((ROOT / "server/goalport@.service").read_text())
    return read["Service"]


@dataclass(frozen=True)
class Machine:
    """A folder that stands for the root of a machine."""

    root: Path

    def here(self, text: str) -> str:
        """A text of the page with the paths of this machine."""
        return re.sub(rf"(?<![\w/.])/({'|'.join(PLACES)})(?=/)", rf"{self.root}/\1", text)

    def follow(self, heading: str, *numbers: int) -> str:
        """Run the commands of a section, or of some of its fences; what they print."""
        printed: list[str] = []
        found = section(heading, "sh")
        for fence in [found[number] for number in numbers] or found:
            script = "\n".join(self._command(line) for line in fence.text.splitlines())
            done = subprocess.run(
                ["bash", "-euc", script], capture_output=True, text=True, timeout=120, check=False, cwd=self.root
            )
            assert done.returncode == 0, f"{fence}:\n{done.stdout}{done.stderr}"
            printed.append(done.stdout)
        return "".join(printed)

    def _command(self, line: str) -> str:
        plain = re.sub(r"^sudo (-u goalport )?", "", line)
        return "true" if plain.startswith(OF_THE_SYSTEM) else self.here(plain)

    @asynccontextmanager
    async def server(self, port: int) -> AsyncGenerator[Running]:
        """A server as systemd starts it."""
        service = unit()
        words = self.here(service["ExecStart"]).replace("%i", str(port)).split()
        places = dict(
            each.split("=", 1) for each in self.here(service["Environment"].replace("%C", "/var/cache")).split()
        )
        home = str(self.root / "var/lib/goalport")
        env = {"PATH": "/usr/bin:/bin", "HOME": home, **places}
        folder = self.here(service["WorkingDirectory"] + "/")
        async with started(words, env=env, cwd=folder) as (process, heard):
            said = await heard.until(READY)
            yield Running(process, heard, f"http://127.0.0.1:{port}", said)


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Machine:
    """A machine as the page leaves it when the servers are to be started."""
    made = Machine(tmp_path_factory.mktemp("machine"))
    for place in (
        "opt/goalport/bin",
        "srv",
        "var/lib/goalport",
        "var/backups",
        "etc/systemd/system",
        "etc/nginx/conf.d",
    ):
        (made.root / place).mkdir(parents=True)
    (made.root / "opt/goalport/bin/goalport").symlink_to(Path(sys.executable).with_name("goalport"))
    made.follow("The program and the workspace")
    (made.root / "srv/agents/agents/asking.py").write_text(ASKING)
    (settings,) = section("The program and the workspace", "toml")
    # A proxy could say who calls, too; ours has to keep clients from doing so.
    trusting = 'trusted_proxies = ["127.0.0.1"]\nproxy_user_header = "X-Forwarded-User"\n'
    (made.root / "srv/agents/server/settings.toml").write_text(made.here(settings.text) + trusting)
    return made


@pytest.fixture(scope="module")
def keys(machine: Machine) -> dict[str, dict[str, str]]:
    """What each colleague's client sends; that of the first one, by what `goalport connect` writes for it."""
    printed = machine.follow("Keys").split()
    sent = {name: {"Authorization": f"Bearer {key}"} for name, key in zip(COLLEAGUES, printed, strict=True)}
    (machine.root / "key.txt").write_text(printed[0])
    line = next(each for each in section("Fifty colleagues", "sh")[0].text.splitlines() if "cursor" in each)
    command = line.removeprefix("uvx ").replace("goalport", str(machine.root / "opt/goalport/bin/goalport"), 1)
    env = {"PATH": "/usr/bin:/bin", "HOME": str(machine.root)}
    done = subprocess.run(
        command.removesuffix(" --write").split(), cwd=machine.root, env=env, capture_output=True, check=True, timeout=60
    )
    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    assert entry["url"] == "https://agents.example.com/mcp"
    return {**sent, COLLEAGUES[0]: entry["headers"]}


@asynccontextmanager
async def serving(machine: Machine, ports: list[int], before: Path) -> AsyncGenerator[WebServer]:
    """The servers, one after the other as the page has it, and nginx before them."""
    async with machine.server(ports[0]) as one, machine.server(ports[1]) as other:
        with nginx(before, [one.address, other.address]) as front:
            yield front


async def test_each_colleague_sees_only_their_own_also_after_a_restored_backup(
    machine: Machine, keys: dict[str, dict[str, str]], tmp_path: Path
) -> None:
    machine.follow("The servers")
    machine.follow("nginx")
    ports = [free_port(), free_port()]
    async with serving(machine, ports, tmp_path / "nginx") as front:
        await nobody_calls_without_a_key(front)
        begun = {name: await begin(front, keys[name], name) for name in COLLEAGUES}
        await each_sees_only_their_own(front, keys, begun)
        machine.follow("Backups", 0)
        assert await answer(front, keys["ada"], begun["ada"]) == {"content": "red for ada"}
    machine.follow("Backups", 1)
    async with machine.server(ports[0]) as server:
        front = WebServer(server.address)
        await each_sees_only_their_own(front, keys, begun)
        for name in COLLEAGUES:
            assert await answer(front, keys[name], begun[name]) == {"content": f"red for {name}"}


async def nobody_calls_without_a_key(front: WebServer) -> None:
    async with front.http() as http:
        assert (await http.get("/health/ready")).status_code == 200
        for path in ("/mcp", "/sse", "/api/v1/processes", "/api/v1/platform-info"):
            assert (await http.get(path)).status_code == 401
    for refused in ({"Authorization": "Bearer gp_of_nobody"}, {"X-Forwarded-User": "ada"}):
        async with front.http(**refused) as http:
            assert (await http.get("/api/v1/processes")).status_code == 401


async def begin(front: WebServer, key: dict[str, str], name: str) -> str:
    """The id of a process that waits for an answer."""
    async with front.client("legacy", key) as client:
        handle = (await client.call_tool("crown", {"content": name})).structured_content
    assert handle is not None
    assert handle["status"] == "waiting"
    return handle["processId"]


async def answer(front: WebServer, key: dict[str, str], process: str) -> Any:
    async with front.client("auto", key) as client:
        arguments = {"processId": process, "answer": {"colour": "red"}}
        return (await client.call_tool("process_answer", arguments)).structured_content


async def each_sees_only_their_own(front: WebServer, keys: dict[str, dict[str, str]], begun: dict[str, str]) -> None:
    for name, era in zip(COLLEAGUES, ("legacy", "auto"), strict=True):
        async with front.http(**keys[name]) as http:
            seen = (await http.get("/api/v1/processes")).json()["processes"]
            assert [each["processId"] for each in seen] == [begun[name]]
        async with front.client(era, keys[name]) as client:
            for whose, process in begun.items():
                status = await client.call_tool("process_status", {"processId": process})
                assert bool(status.is_error) == (whose != name), status
                if whose != name:
                    with pytest.raises(MCPError):
                        await client.read_resource(f"goalport://processes/{process}")


def test_systemd_takes_the_unit_and_finds_it_locked_up(tmp_path: Path) -> None:
    program = installed("systemd-analyze", package="systemd")
    # It looks for the programs that a unit starts.
    text = (ROOT / "server/goalport@.service").read_text().replace("/opt/goalport/bin/goalport", "/bin/true")
    (tmp_path / "goalport@8081.service").write_text(text.replace("/usr/bin/curl", "/bin/true"))
    for words in (["verify"], ["security", "--offline=true", "--threshold=20"]):
        command = [program, *words, str(tmp_path / "goalport@8081.service")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert done.returncode == 0, done.stdout[-500:] + done.stderr
        assert not done.stderr, done.stderr
