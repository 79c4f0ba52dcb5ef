"""Requests that cannot be answered, and the sentence that each of them gets."""

import os
from pathlib import Path

import pytest

from tests.agents.repo_report.conftest import Reporting
from tests.agents.repo_report.folders import Folder

CANNOT_BE_READ = "cannot be read. Give a length (30d, 6 months), a first day (2026-01-01) or a range of days"


@pytest.mark.parametrize("path", ["..", "/", "/etc", "../root2", "sub/../../..", "link", "link/inside", "sub/../link"])
async def test_a_path_outside_the_allowed_folders_is_refused_by_every_way_there(
    reporting: Reporting, folder: Folder, tmp_path: Path, path: str
) -> None:
    (tmp_path / "root2" / "inside").mkdir(parents=True)
    (folder.path / "sub").mkdir()
    (folder.path / "link").symlink_to(tmp_path / "root2")
    told = await reporting.refusal(path)
    assert told.startswith(f"{path!r} leads outside of the folders that may be reported on ({folder.path}).")
    assert reporting.steps == ["locate?"]


async def test_a_path_outside_is_refused_whether_or_not_it_exists(reporting: Reporting) -> None:
    there, nowhere = await reporting.refusal("/usr"), await reporting.refusal("/nowhere")
    assert there.replace("/usr", "/nowhere") == nowhere


async def test_a_symlink_that_stays_inside_is_followed_to_the_folder(reporting: Reporting, folder: Folder) -> None:
    folder.write("real/a.py", "x\n")
    (folder.path / "alias").symlink_to(folder.path / "real")
    assert (await reporting.report("alias")).path == "real"


@pytest.mark.parametrize("path", ["nowhere", "a.py/b", "x" * 4000, "loop", "~", "-rf", "a b; rm c", "$(id)"])
async def test_a_path_that_leads_nowhere_is_refused(reporting: Reporting, folder: Folder, path: str) -> None:
    folder.write("a.py")
    (folder.path / "loop").symlink_to("loop")
    told = await reporting.refusal(path)
    assert told == f"There is no folder {path!r}. Paths are relative to {folder.path}; `.` is that folder itself."


async def test_a_file_is_no_folder(reporting: Reporting, folder: Folder) -> None:
    folder.write("a.py")
    told = await reporting.refusal("a.py")
    assert told == "'a.py' is a file, and a report is about a folder. Give the folder that it is in."


async def test_a_path_with_a_nul_is_refused(reporting: Reporting) -> None:
    assert "NUL character" in await reporting.refusal("a\0b")


@pytest.mark.skipif(os.name == "nt" or os.geteuid() == 0, reason="root may read every folder")
async def test_a_folder_that_may_not_be_read_is_refused(reporting: Reporting, folder: Folder) -> None:
    (folder.path / "closed").mkdir(mode=0)
    assert "permission denied" in await reporting.refusal("closed")


@pytest.mark.parametrize(
    "period",
    [
        "soon",
        "30",
        "30 parsecs",
        "-3d",
        "2026-13-01",
        "2026-02-30",
        "..",
        "2026-01-01...",
        "99999 years",
        "1e3d",
        "0x1d",
    ],
)
async def test_a_period_that_cannot_be_read_is_refused(reporting: Reporting, period: str) -> None:
    told = await reporting.refusal(period=period)
    assert told.startswith(f"The period {period!r} {CANNOT_BE_READ}")


async def test_a_period_that_ends_before_it_begins_is_refused(reporting: Reporting) -> None:
    told = await reporting.refusal(period="2026-03-31..2026-01-01")
    assert told.startswith("The period '2026-03-31..2026-01-01' ends before it begins.")


@pytest.mark.parametrize(
    "arguments",
    [{"path": 3}, {"path": "x" * 5000}, {"period": "d" * 101}, {"thorough": "perhaps"}, {"folder": "."}],
)
async def test_arguments_of_the_wrong_form_are_refused_before_anything_runs(
    reporting: Reporting, arguments: dict[str, object]
) -> None:
    result = await reporting.call(**arguments)
    assert result.is_error
    assert next(iter(arguments)) in str(result.content)
    assert reporting.steps == []
