import gc
import json
import os
import re
import shlex
import signal
import socket
import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from threading import Timer

import anyio
import pytest
from mcp import Client, StdioServerParameters

from tests.rooms.cli.conftest import PROGRAM, Command

PATIENCE = 30


@contextmanager
def serving(workspace: Path, *options: str) -> Generator[tuple[str, "subprocess.Popen[str]"]]:
    """A server on a free port: its URL, and its process."""
    arguments = ["serve", "--workspace", str(workspace), "--port", "0", *options]
    server = subprocess.Popen([PROGRAM, *arguments], stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        for line in server.stderr:
            if ready := re.match(r"goalport ready on (\S+)", line):
                yield ready[1], server
                return
        pytest.fail("The server ended before it was ready.")
    finally:
        server.kill()
        server.communicate(timeout=PATIENCE)


@contextmanager
def killed_after(seconds: float, server: "subprocess.Popen[str]") -> Generator[None]:
    timer = Timer(seconds, server.kill)
    timer.start()
    yield
    timer.cancel()


async def greeting(target: str | StdioServerParameters) -> object:
    with anyio.fail_after(PATIENCE):
        async with Client(target) as client:
            result = await client.call_tool("greet", {"content": "I am Ada"})
            return result.structured_content


async def test_a_new_workspace_is_served_over_http(workspace: Path) -> None:
    with serving(workspace) as (url, _):
        assert await greeting(url) == {"content": "Hello, Ada!"}


async def test_a_new_workspace_is_served_over_stdio_however_loud_its_modules_are(workspace: Path) -> None:
    (workspace / "agents" / "loud.py").write_text("import os\nprint('HERE I AM')\nos.system('echo ME TOO')\n")

    arguments = ["serve", "--workspace", str(workspace), "--transport", "stdio"]

    assert await greeting(StdioServerParameters(command=str(PROGRAM), args=arguments)) == {"content": "Hello, Ada!"}


def test_over_stdio_only_the_protocol_is_on_standard_output(program: Command, workspace: Path) -> None:
    (workspace / "agents" / "loud.py").write_text("print('HERE I AM')\n")

    ran = program("serve", "--workspace", str(workspace), "--transport", "stdio")

    assert (ran.code, ran.out) == (0, "")
    assert "HERE I AM" in ran.err
    assert "greet" in ran.err


def test_who_edits_while_the_server_runs_hears_of_reload(workspace: Path) -> None:
    with serving(workspace) as (_, server):
        agent = workspace / "agents" / "hello.py"
        agent.write_text(agent.read_text() + "\n# edited\n")
        assert server.stderr is not None
        with killed_after(PATIENCE, server):
            line = next((line for line in server.stderr if "changed" in line), "")

    assert "agents/hello.py changed, and the server goes on with what it has loaded." in line
    assert "--reload" in line


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_server(workspace: Path, number: signal.Signals) -> None:
    with serving(workspace) as (_, server):
        server.send_signal(number)
        out, err = server.communicate(timeout=PATIENCE)

    assert server.returncode == 0
    assert out == ""
    assert "Traceback" not in err


async def test_options_overrule_the_settings(workspace: Path) -> None:
    (workspace / "server" / "settings.toml").write_text('name = "house"\nport = 1\nhost = "203.0.113.1"\n')

    with serving(workspace, "--host", "127.0.0.1", "--stateless", "--log-level", "warning") as (url, _):
        assert url.startswith("http://127.0.0.1:")
        assert await greeting(url) == {"content": "Hello, Ada!"}


def test_a_port_in_use_is_told_in_one_line(program: Command, workspace: Path) -> None:
    with serving(workspace) as (url, _):
        port = url.rpartition(":")[2].removesuffix("/mcp")
        ran = program("serve", "--workspace", str(workspace), "--port", port)

    assert ran.code == 1
    assert port in ran.err.splitlines()[-1]
    assert ran.err.splitlines()[-1].startswith("error: ")


def test_a_workspace_without_agents_is_served_and_says_how_to_get_one(tmp_path: Path) -> None:
    (tmp_path / "agents").mkdir()
    arguments = ["serve", "--workspace", str(tmp_path), "--port", "0"]
    with subprocess.Popen([PROGRAM, *arguments], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        said = ""
        while "goalport ready on" not in said and (line := server.stderr.readline()):
            said += line
        server.terminate()
        server.communicate(timeout=PATIENCE)

    assert "goalport ready on" in said
    assert "goalport new" in said


def test_the_environment_is_read(program: Command, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(os.environ, "GOALPORT_PORT", "many")

    ran = program("serve", "--workspace", str(workspace))

    assert ran.code == 1
    assert "GOALPORT_PORT" in ran.err


@pytest.mark.parametrize("transport", ["http", "stdio"])
def test_a_folder_that_is_no_workspace_is_not_served_but_one_is_offered(
    goalport: Command, tmp_path: Path, transport: str
) -> None:
    ran = goalport("serve", "--transport", transport, "--workspace", str(tmp_path))

    assert ran.code == 1
    assert f"There is no workspace in {tmp_path}" in ran.err
    assert "goalport new my-agents" in ran.err


def test_what_a_server_suggests_can_be_typed_as_it_is_printed(workspace: Path, tmp_path: Path) -> None:
    arguments = ["serve", "--workspace", str(workspace), "--port", "0"]
    said: list[str] = []
    with subprocess.Popen([PROGRAM, *arguments], stderr=subprocess.PIPE, text=True, cwd=tmp_path) as server:
        assert server.stderr is not None
        while not (said and said[-1].startswith("goalport ready on ")) and (line := server.stderr.readline()):
            said.append(line)
        server.terminate()
        server.communicate(timeout=PATIENCE)

    address = said[-1].removeprefix("goalport ready on ").strip()
    assert said[0].startswith("Goalport ")
    assert f" on {address}: " in said[0]
    command = next(line.partition("a client: ")[2] for line in said if "Connect a client: " in line)
    environment = {**os.environ, "PATH": f"{PROGRAM.parent}{os.pathsep}{os.environ['PATH']}"}
    printed = subprocess.run(
        shlex.split(command),
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    assert json.loads(printed.stdout) == {"mcpServers": {"my-agents": {"type": "http", "url": address}}}


def test_a_start_that_fails_leaves_garbage_to_be_collected(goalport: Command, workspace: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = goalport("serve", "--workspace", str(workspace), "--port", str(port))

    assert f"{port}" in ran.err
    assert gc.isenabled()


def test_more_workers_than_a_machine_can_carry_are_refused(goalport: Command, workspace: Path) -> None:
    ran = goalport("serve", "--workspace", str(workspace), "--workers", "99999")

    assert ran.code == 1
    assert "workers was 99999, and more than " in ran.err


def test_a_process_that_only_supervises_workers_goes_on_to_collect_garbage(
    goalport: Command, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GOALPORT_STORE", "memory")

    ran = goalport("serve", "--workspace", str(workspace), "--workers", "2")

    assert 'Set store = "sqlite"' in ran.err
    assert gc.isenabled()
