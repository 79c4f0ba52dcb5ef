"""Which steps lead to a report, and which others when one of them is not open."""

from pathlib import Path

import pytest

from agents.repo_report.agent import Limits, RepositoryReporter
from agents.repo_report.request import RepositoryRequest
from goalport.testing import plan_of
from goalport.workspace.settings import load_settings
from tests.agents.repo_report.conftest import Reporting
from tests.agents.repo_report.folders import Folder, Repository

END = ["find_hot_spots", "assess_risks", "write_report"]


def test_the_plan_expects_the_best_until_the_folder_is_known(tmp_path: Path) -> None:
    settings = load_settings(tmp_path)
    assert plan_of(RepositoryReporter(), given=[RepositoryRequest], services=[settings]) == [
        "locate",
        "list_tracked_files",
        "read_git_log",
        "count_by_contents",
        *END,
    ]


async def test_a_small_repository_goes_by_that_plan_and_each_step_tells(
    reporting: Reporting, repository: Repository
) -> None:
    repository.changed("a.py", 3)
    await reporting.report()
    assert sorted(reporting.steps) == sorted(
        ["locate", "list_tracked_files", "read_git_log", "count_by_contents", *END]
    )
    assert [message for message in reporting.messages if "Reading the git history" in message]
    assert len(reporting.messages) >= len(reporting.steps)


async def test_a_folder_without_git_is_walked_and_judged_by_file_times(reporting: Reporting, folder: Folder) -> None:
    folder.write("a.py", "x\n")
    await reporting.report()
    assert {"walk_folder", "take_file_times"} < set(reporting.steps)
    assert not {"list_tracked_files", "read_git_log"} & set(reporting.steps)


async def test_a_large_folder_is_read_only_when_that_was_asked_for(reporting: Reporting, folder: Folder) -> None:
    folder.write("large.txt", b"x" * 1_000_000 + b"\n")
    folder.write("video.mp4", b"\0" * 60_000_000)
    report = await reporting.report()
    assert "count_by_names" in reporting.steps
    assert (report.summary.lines, report.languages[0].name) == (0, "Video")
    assert any("ask for a thorough report" in note for note in report.notes)
    report = await reporting.report(thorough=True)
    assert "count_by_contents" in reporting.steps
    assert report.summary.lines == 1


async def test_a_clone_without_contents_still_has_a_history(reporting: Reporting, root: Path, tmp_path: Path) -> None:
    origin = Repository.make(root / "origin", tmp_path / "home")
    for number in range(3):
        origin.changed("a.py", number + 1)
    origin.git("config", "uploadpack.allowFilter", "true")
    origin.git("clone", "--quiet", "--filter=blob:none", f"file://{origin.path}", str(root / "clone"))
    report = await reporting.report("clone")
    assert reporting.steps.index("read_git_log?") < reporting.steps.index("read_git_log_without_line_counts")
    assert (report.kind, report.summary.commits, report.summary.lines_added) == ("git repository", 3, 0)
    assert [spot.changes for spot in report.hot_spots] == [3]
    assert any("lines added and deleted are not known" in note for note in report.notes)


async def test_files_that_git_does_not_track_are_walked_to(reporting: Reporting, repository: Repository) -> None:
    repository.changed("a.py", 3)
    repository.write(".gitignore", "build\n")
    repository.write("build/out.js", "x\n")
    report = await reporting.report("build")
    assert (report.kind, report.summary.files) == ("folder", 1)
    assert {"list_tracked_files?", "walk_folder", "read_git_log?", "take_file_times"} <= set(reporting.steps)
    assert any("knows no commit of this folder" in note for note in report.notes)


@pytest.mark.parametrize(
    ("limits", "note"),
    [
        (Limits(files=3), "There are more files than the report counts"),
        (Limits(commits=2), "only the newest 2 commits are counted"),
        (Limits(listing=0.0), "The time for listing files was over"),
        (Limits(reading=0.0), "Time was over after 0 files"),
    ],
)
async def test_a_step_that_reaches_its_limit_reports_what_it_has(
    reporting: Reporting, repository: Repository, limits: Limits, note: str
) -> None:
    for number in range(4):
        repository.changed(f"{number}.py", 3)
    for number in range(600):
        repository.write(f"more/{number}.py")
    repository.commit("More")
    reporting.limits = limits
    report = await reporting.report()
    assert note in report.content


async def test_a_log_that_takes_too_long_gives_way_to_file_times(reporting: Reporting, repository: Repository) -> None:
    repository.changed("a.py", 3)
    reporting.limits = Limits(log=0.0)
    report = await reporting.report()
    assert report.kind == "folder"
    assert "take_file_times" in reporting.steps
