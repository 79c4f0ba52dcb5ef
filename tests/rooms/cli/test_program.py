import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest

from tests.rooms.cli.conftest import Command

COMMANDS = ["new", "check", "agents", "goals", "actions", "conditions", "plan", "run", "shell", "serve", "connect"]


def test_without_a_command_the_commands_are_listed(goalport: Command) -> None:
    ran = goalport()

    assert ran.code == 0
    assert all(f" {command} " in ran.out for command in COMMANDS)
    assert "Examples:" in ran.out


def test_the_installed_program_tells_its_version(program: Command) -> None:
    ran = program("--version")

    assert (ran.code, ran.out.strip()) == (0, version("goalport"))


def test_the_module_is_the_program(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "goalport", "--version"], capture_output=True, text=True, timeout=60, check=False
    )

    assert (done.returncode, done.stdout.strip()) == (0, version("goalport"))


@pytest.mark.parametrize("command", COMMANDS)
def test_every_command_explains_itself_with_examples(goalport: Command, command: str) -> None:
    ran = goalport(command, "--help")

    assert ran.code == 0
    assert f"Usage: goalport {command}" in ran.out
    assert f"  goalport {command}" in ran.out.partition("Examples:")[2]


@pytest.mark.parametrize("command", [command for command in COMMANDS if command != "new"])
def test_every_command_takes_a_workspace_and_says_when_it_is_not_there(
    goalport: Command, command: str, tmp_path: Path
) -> None:
    more = {"plan": ["greet"], "run": ["--goal", "greet"], "connect": ["cursor"]}.get(command, [])

    ran = goalport(command, *more, "--workspace", str(tmp_path / "nowhere"))

    assert ran.code == 1
    assert ran.err.startswith(f"error: There is no folder {tmp_path / 'nowhere'}. ")
    assert "goalport new" in ran.err
    assert ran.err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["sevre"], "There is no command 'sevre'. Did you mean 'serve'?"),
        (["keys", "xyzzy"], "There is no command 'xyzzy'. Known: new, list, rotate, revoke."),
        (["serve", "--prot", "80"], "Unknown option: --prot. Did you mean --port? See goalport serve --help."),
        (["serve", "--port", "many"], "unable to convert"),
        (["plan"], "See goalport plan --help."),
        (["agents", "--format", "xml"], 'Choose from: "text", "json"'),
    ],
)
def test_a_mistyped_command_line_is_told_in_one_line(goalport: Command, arguments: list[str], message: str) -> None:
    ran = goalport(*arguments)

    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert ran.out == ""


def test_a_command_that_nothing_resembles_is_told_with_all_of_them_by_groups(goalport: Command) -> None:
    ran = goalport("frobnicate")

    assert ran.code == 2
    assert ran.err.startswith("error: There is no command 'frobnicate'. Known:\n  Start:     new, run,")
    assert "\n  Processes: ps, show," in ran.err


def test_the_help_of_a_command_is_its_docstring(goalport: Command) -> None:
    ran = goalport("ps", "--help")

    assert "those that have not ended, or are stuck" in ran.out
    assert "Usage: goalport ps [OPTIONS]\n" in ran.out
    assert "Default: 50." in ran.out


def test_a_setting_that_cannot_be_used_is_told_with_where_it_is(goalport: Command, workspace: Path) -> None:
    (workspace / "server" / "settings.toml").write_text("prot = 80\n")

    ran = goalport("agents", "--workspace", str(workspace))

    assert ran.code == 1
    assert "settings.toml" in ran.err
    assert "'port'" in ran.err


def test_a_traceback_is_there_for_those_who_ask_for_it(goalport: Command, program: Command, tmp_path: Path) -> None:
    assert "Traceback" not in goalport("agents", "--workspace", str(tmp_path / "nowhere")).err
    assert "Traceback" in program("agents", "--workspace", str(tmp_path / "nowhere"), "--debug").err


def test_a_folder_that_may_not_be_written_is_told_by_its_name(goalport: Command, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    ran = goalport("new", str(tmp_path / "file" / "below"))

    assert ran.code == 1
    assert str(tmp_path / "file") in ran.err
    assert "Traceback" not in ran.err


def test_a_reader_that_goes_away_is_no_error(workspace: Path) -> None:
    command = f"{sys.executable} -m goalport actions --workspace '{workspace}' | true"

    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        ["bash", "-c", command], capture_output=True, text=True, timeout=60, check=False, env=buffered
    )

    assert done.stderr == ""


def test_help_loads_no_command_and_no_heavy_library() -> None:
    code = "import sys; from goalport.cli import execute; execute(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=False)
    loaded = set(done.stdout.splitlines()[-1].split())

    assert not loaded & {
        "anyio",
        "mcp",
        "mcp_types",
        "pydantic",
        "starlette",
        "prompt_toolkit",
        "goalport.runtime.platform",
        "goalport.cli.serve",
    }
