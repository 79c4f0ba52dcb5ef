import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import jsonschema
import pytest

from tests.rooms.cli.conftest import Command


def test_a_new_workspace_has_a_file_of_everything(workspace: Path) -> None:
    made = {str(path.relative_to(workspace)) for path in workspace.rglob("*") if path.is_file()}

    assert made == {
        ".dockerignore",
        ".github/workflows/test.yml",
        ".gitignore",
        ".vscode/settings.json",
        "Makefile",
        "README.md",
        "agents/hello.py",
        "mcp_config.json",
        "pyproject.toml",
        "schemas/mcp_config.json",
        "schemas/settings.json",
        "server/Caddyfile",
        "server/Dockerfile",
        "server/app.py",
        "server/compose.yaml",
        "server/goalport@.service",
        "server/nginx.conf",
        "server/settings.toml",
        "tests/test_hello.py",
        "tools/dice.py",
    }


def test_no_name_is_left_open(workspace: Path) -> None:
    for path in workspace.rglob("*"):
        assert path.is_dir() or not re.search("@(name|goalport)@", path.read_text())
    assert 'name = "my-agents"' in (workspace / "pyproject.toml").read_text()


@pytest.mark.parametrize("name", ["Caddyfile", "goalport@.service", "nginx.conf"])
def test_what_serves_this_repository_serves_a_new_workspace(workspace: Path, name: str) -> None:
    shipped = Path(__file__).parents[3] / "server" / name
    assert (workspace / "server" / name).read_text() == shipped.read_text()


def test_tools_are_pinned_to_what_goalport_itself_is_tested_with(workspace: Path) -> None:
    locked = (Path(__file__).parents[3] / "requirements-dev.lock").read_text()
    needed = tomllib.loads((workspace / "pyproject.toml").read_text())

    for each in needed["dependency-groups"]["dev"]:
        assert f"\n{each.replace('[nodejs]', '')} " in locked.replace("[nodejs]", "")
    assert re.fullmatch(r"goalport(==\S+| @ \S+)", *needed["project"]["dependencies"])


def test_editors_get_schemas_that_the_files_of_the_workspace_fit(workspace: Path) -> None:
    for file, schema in (("mcp_config.json", "mcp_config.json"), ("server/settings.toml", "settings.json")):
        text = (workspace / file).read_text()
        content = json.loads(text) if file.endswith(".json") else tomllib.loads(text)
        jsonschema.validate(content, json.loads((workspace / "schemas" / schema).read_text()))
        assert f"schemas/{schema}" in text


def test_what_is_misspelt_in_the_settings_is_seen_by_an_editor(workspace: Path) -> None:
    schema = json.loads((workspace / "schemas" / "settings.json").read_text())

    with pytest.raises(jsonschema.ValidationError, match="prot"):
        jsonschema.validate({"prot": 8080}, schema)


def test_the_types_of_a_new_workspace_are_right_by_the_strictest_measure(workspace: Path) -> None:
    checked = subprocess.run(
        [Path(sys.executable).with_name("pyright"), "--pythonpath", sys.executable],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=180,
        check=False,
    )

    assert checked.returncode == 0, checked.stdout


def test_the_first_agent_is_about_twenty_lines(workspace: Path) -> None:
    lines = (workspace / "agents" / "hello.py").read_text().splitlines()

    assert len([line for line in lines if line.strip()]) <= 28


def test_a_new_workspace_has_nothing_wrong(goalport: Command, workspace: Path) -> None:
    ran = goalport("check", "--workspace", str(workspace))

    assert (ran.code, ran.err) == (0, "")
    assert "note: " not in ran.out


def test_the_tests_of_a_new_workspace_pass(workspace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def test_a_new_workspace_serves_its_app(workspace: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from server.app import app; print([route.path for route in app.routes])"],
        cwd=workspace,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "/mcp" in done.stdout


def test_a_folder_that_holds_something_is_refused_and_left_alone(goalport: Command, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    ran = goalport("new", str(tmp_path))

    assert ran.code == 1
    assert "is not empty (it holds home, notes.txt)" in ran.err
    assert "goalport new" in ran.err
    assert not (tmp_path / "agents").exists()


def test_a_file_is_refused(goalport: Command, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")

    ran = goalport("new", str(tmp_path / "notes.txt"))

    assert ran.code == 1
    assert "is a file" in ran.err


def test_a_fresh_repository_counts_as_empty(goalport: Command, tmp_path: Path) -> None:
    folder = tmp_path / "fresh"
    (folder / ".git").mkdir(parents=True)

    assert goalport("new", str(folder)).code == 0
    assert (folder / "agents" / "hello.py").exists()


@pytest.mark.parametrize(("folder", "name"), [("Ünser Haus!", "nser-haus"), ("!!", "my-agents"), ("a_b", "a-b")])
def test_any_folder_makes_a_name_that_packaging_takes(
    goalport: Command, tmp_path: Path, folder: str, name: str
) -> None:
    goalport("new", str(tmp_path / folder))

    assert f'name = "{name}"' in (tmp_path / folder / "pyproject.toml").read_text()


def made(workspace: Path, python: str) -> str:
    done = subprocess.run(
        ["make", "serve", f"PYTHON={python}"], cwd=workspace, capture_output=True, text=True, check=False
    )
    assert done.returncode != 0
    return done.stdout + done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="make and sh are not there")
def test_make_says_which_python_it_needs(workspace: Path) -> None:
    assert "needs Python 3.11 or newer; install one, or name it: make PYTHON=" in made(workspace, "")


@pytest.mark.skipif(sys.platform == "win32", reason="make and sh are not there")
def test_make_begins_anew_where_an_older_python_made_the_environment(workspace: Path) -> None:
    old = workspace / ".venv" / "bin" / "python"
    old.parent.mkdir(parents=True)
    old.write_text("#!/bin/sh\nexit 1\n")
    old.chmod(0o755)
    said = made(workspace, "false")  # it makes no environment, so that the test needs no network
    assert "Installing goalport and what it needs into .venv with false" in said
    assert not old.exists()
