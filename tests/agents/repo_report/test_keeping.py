"""What a run has found can be kept as JSON, whatever names it met, and is small however large the folder."""

import os
from pathlib import Path

import anyio
import pytest
from pydantic import TypeAdapter

from agents.repo_report.agent import RepositoryReporter
from agents.repo_report.paths import read, written
from agents.repo_report.request import RepositoryRequest
from goalport import AgentPlatform
from goalport.workspace.settings import load_settings
from tests.agents.repo_report.folders import Folder, Repository


async def found_in(root: Path) -> list[object]:
    platform = AgentPlatform([RepositoryReporter()], services=[load_settings(root)])
    async with platform:
        with anyio.fail_after(60):
            process = await platform.run("RepositoryReporter", RepositoryRequest(thorough=True))
    return list(process.blackboard.objects)


@pytest.mark.skipif(os.name == "nt", reason="file names of POSIX")
@pytest.mark.parametrize("tracked", [True, False])
async def test_all_that_a_run_finds_can_be_kept_and_read_again(root: Path, tmp_path: Path, *, tracked: bool) -> None:
    folder = Repository.make(root, tmp_path / "home") if tracked else Folder(root)
    folder.write(b"caf\xe9/na\\xefve\xff.py", "# TODO: x\n# TODO: y\n" * 300)
    if isinstance(folder, Repository):
        folder.commit("Add")
    found = await found_in(root)
    assert len(found) == 8
    for value in found:
        adapter = TypeAdapter(type(value))
        assert adapter.validate_json(adapter.dump_json(value)) == value


async def test_a_thousand_files_leave_no_more_behind_than_a_few_hundred(root: Path) -> None:
    folder = Folder(root)
    sizes = list[int]()
    for first in (0, 500, 1000):
        for number in range(first, first + 500):
            folder.write(f"folder{number % 7}/file{number:04}.py", f"line {number:04}\n")
        sizes.append(sum(len(TypeAdapter(type(one)).dump_json(one)) for one in await found_in(root)))
    assert sizes[2] - sizes[1] < 100


@pytest.mark.parametrize("path", ["a.py", "a\\b", "a\\xe9", "a\udce9", "\\\udcff\\x41", "", "é"])
def test_a_path_that_is_written_is_read_as_it_was(path: str) -> None:
    assert read(written(path)) == path
    written(path).encode()
