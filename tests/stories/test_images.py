"""The Dockerfile of this repository and that of a new workspace make images that serve as they are."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from ruamel.yaml import YAML

from goalport import __version__
from tests.images import Image, instructions

ROOT = Path(__file__).parents[2]
GOALPORT = str(Path(sys.executable).with_name("goalport"))
SHIPPED, NEW = "the repository", "a new workspace"


@pytest.fixture(scope="module")
def new_workspace(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "my-agents"
    subprocess.run([GOALPORT, "new", str(folder)], check=True, capture_output=True, timeout=60)
    project = folder / "pyproject.toml"
    # What is written where goalport was installed from a registry.
    project.write_text(re.sub('"goalport @ .*"', f'"goalport=={__version__}"', project.read_text()))
    (folder / ".env").write_text("OPENAI_API_KEY=sk-secret\n")
    (folder / "agents/__pycache__").mkdir()
    return folder


@pytest.fixture(scope="module", params=[SHIPPED, NEW])
def image(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Image:
    workspace = ROOT if request.param == SHIPPED else cast("Path", request.getfixturevalue("new_workspace"))
    built = Image(workspace, tmp_path_factory.mktemp("image") / "built")
    built.build()
    return built


def test_an_image_has_the_workspace_and_no_secret_of_it(image: Image) -> None:
    files = {str(path.relative_to(image.root)) for path in image.root.rglob("*") if path.is_file()}
    assert {"mcp_config.json", "server/settings.toml"} <= files
    assert any(name.startswith("agents/") for name in files)
    assert not [name for name in files if "sk-secret" in (image.root / name).read_text(errors="replace")]
    assert not {"tests", ".env", ".git", ".goalport", ".venv"} & {path.name for path in image.root.iterdir()}
    assert not list(image.root.rglob("__pycache__"))


def test_an_image_brings_what_agents_and_upstream_servers_start(image: Image) -> None:
    packages, user = image.skipped
    assert "apt-get install --yes --no-install-recommends $PACKAGES" in packages
    assert ("ARG", "PACKAGES=git") in instructions((image.workspace / "server/Dockerfile").read_text())
    assert packages.endswith("pip install --no-cache-dir uv")
    assert f"--owner={image.user} " in user


async def test_a_container_serves_as_somebody_who_may_write_nothing_but_its_data(image: Image) -> None:
    refused = image.run()
    assert refused.returncode != 0
    assert "goalport keys new" in refused.stderr
    key = {"Authorization": f"Bearer {image.run('goalport', 'keys', 'new', 'ada').stdout.strip()}"}
    with image.running(GOALPORT_HOST="127.0.0.1", GOALPORT_PORT="0") as (address, process):
        assert os.geteuid() != 0 or is_nobody(process.pid)
        assert image.healthy(address)
        async with httpx2.AsyncClient(base_url=address) as http:
            assert (await http.get("/mcp")).status_code == 401
        async with httpx2.AsyncClient(base_url=address, headers=key, timeout=60) as http:
            async with Client(streamable_http_client(f"{address}/mcp", http_client=http)) as client:
                assert (await client.list_tools()).tools
            assert (await http.get("/health")).json()["loadProblems"] == 0
        assert (image.data / "processes.db").exists()
    assert process.returncode == 0
    assert not image.healthy(address)


def is_nobody(pid: int) -> bool:
    """Whether a process of this machine runs as the user nobody, and may not become another one."""
    status = Path(f"/proc/{pid}/status").read_text()
    return "\nUid:\t65534\t" in status and "\nNoNewPrivs:\t1\n" in status


def compose(workspace: Path) -> Any:
    return cast("Any", YAML(typ="safe")).load(workspace / "server/compose.yaml")


def test_a_container_of_compose_is_locked_up(new_workspace: Path) -> None:
    shipped, new = compose(ROOT), compose(new_workspace)
    ours = [new["services"]["goalport"], *(shipped["services"][name] for name in ("goalport-1", "goalport-2", "proxy"))]
    for each in ours:
        assert each["read_only"] is True
        assert each["cap_drop"] == ["ALL"]
        assert each["security_opt"] == ["no-new-privileges:true"]
    for each in ours[:-1]:
        assert each["volumes"] == ["data:/data"]
        assert each["build"] == {"context": "..", "dockerfile": "server/Dockerfile"}


@pytest.mark.parametrize(
    ("schema", "file"),
    [("compose-spec", "server/compose.yaml"), ("github-workflows", ".github/workflows/test.yml")],
)
def test_the_files_are_valid_in_the_schemas_of_their_formats(new_workspace: Path, schema: str, file: str) -> None:
    files = [new_workspace / file, *([ROOT / file] if (ROOT / file).exists() else [])]
    command = [Path(sys.executable).with_name("check-jsonschema"), "--builtin-schema", f"vendor.{schema}", *files]
    checked = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert checked.returncode == 0, checked.stdout


def test_both_dockerfiles_differ_in_what_they_install_and_copy_alone(new_workspace: Path) -> None:
    one, other = (
        [each for each in instructions((place / "server/Dockerfile").read_text()) if not _installs(*each)]
        for place in (ROOT, new_workspace)
    )
    assert one == other
    assert json.loads(dict(one)["CMD"]) == ["goalport", "serve"]


def _installs(word: str, rest: str) -> bool:
    return word == "COPY" or (word == "RUN" and "pip install" in rest and "apt-get" not in rest)
