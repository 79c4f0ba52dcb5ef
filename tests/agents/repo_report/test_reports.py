"""What a report says about repositories and folders as they usually are."""

import os
import shutil
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from goalport.runtime import AgentPlatform
from tests.agents.repo_report.conftest import Reporting
from tests.agents.repo_report.folders import Folder, Repository


@pytest.fixture
def shared(repository: Repository) -> Repository:
    """Ada and Bo at work: Ada on the engine, again and again."""
    repository.changed("src/engine.py", 40, at="2026-01-05T12:00:00Z")
    repository.changed("src/engine.py", 50, at="2026-02-05T12:00:00Z")
    repository.changed("src/engine.py", 60, at="2026-03-05T12:00:00Z")
    repository.changed("src/wheel.py", 10, by="Bo", at="2026-03-31T23:30:00Z")
    repository.changed("README.md", 300, by="Bo", at="2026-04-05T12:00:00Z")
    return repository


async def test_a_repository_is_reported_from_its_history(reporting: Reporting, shared: Repository) -> None:
    report = await reporting.report()
    assert (report.kind, report.path, report.branch, report.period) == ("git repository", "root", "main", "all time")
    assert report.summary.model_dump() == {
        "files": 3,
        "bytes": sum(path.stat().st_size for path in shared.path.rglob("*.[pm]*") if ".git" not in path.parts),
        "lines": 370,
        "commits": 5,
        "contributors": 2,
        "changed_files": 3,
        "lines_added": 460,
        "lines_deleted": 90,
        "bus_factor": 1,
        "unfinished_marks": 0,
    }
    assert [(one.name, one.commits, one.lines_added, one.last_commit) for one in report.contributors] == [
        ("Ada", 3, 150, "2026-03-05"),
        ("Bo", 2, 310, "2026-04-05"),
    ]
    assert [change.text for change in report.changes][:2] == ["Change README.md", "Change src/wheel.py"]
    assert shared.git("rev-parse", "HEAD").startswith(report.changes[0].commit)
    assert [(month.month, month.changes) for month in report.months][:2] == [("2026-04", 1), ("2026-03", 2)]
    assert [(language.name, language.lines) for language in report.languages] == [("Markdown", 300), ("Python", 70)]


async def test_a_hot_spot_is_code_that_is_large_and_often_changed(reporting: Reporting, shared: Repository) -> None:
    report = await reporting.report()
    assert [(spot.path, spot.changes, spot.lines, spot.score) for spot in report.hot_spots] == [
        ("src/engine.py", 3, 60, 100),
        ("src/wheel.py", 1, 10, 6),
    ]
    assert [(risk.kind, risk.path) for risk in report.risks] == [("single_author", "src/engine.py")]


async def test_a_period_takes_its_last_day_whole_and_no_other(reporting: Reporting, shared: Repository) -> None:
    report = await reporting.report(period="2026-02-01..2026-03-31")
    assert report.period == "2026-02-01 to 2026-03-31"
    assert [change.text for change in report.changes] == ["Change src/wheel.py", *["Change src/engine.py"] * 2]
    assert report.summary.commits == 3


async def test_a_period_without_commits_says_that_nothing_changed(reporting: Reporting, shared: Repository) -> None:
    report = await reporting.report(period="..2020-12-31")
    assert (report.summary.commits, report.changes, report.kind) == (0, [], "git repository")
    assert "Nothing in this period (until 2020-12-31)." in report.content


async def test_a_folder_in_a_repository_has_the_history_of_its_own_files(
    reporting: Reporting, shared: Repository
) -> None:
    report = await reporting.report("src", period="2026-03-01..2026-04-30")
    assert (report.path, report.summary.files, report.summary.commits) == ("src", 2, 2)
    assert [spot.path for spot in report.hot_spots] == ["engine.py", "wheel.py"]


async def test_the_text_has_a_table_for_each_part_of_the_data(reporting: Reporting, shared: Repository) -> None:
    content = (await reporting.report()).content
    assert content.startswith("# Report on root\n\nGit repository on branch `main`, all time.\n\n**3 files**")
    assert "| Ada | 3 | +150 −90 | 2026-03-05 |" in content
    assert "| `src/engine.py` | 3 | 60 | 1 | 100 |" in content
    assert "| Markdown | 1 |" in content
    assert "- **medium**: `src/engine.py`: A hot spot that one person alone has changed, 3 times." in content


async def test_people_are_told_apart_by_their_addresses_and_brought_together_by_a_mailmap(
    reporting: Reporting, repository: Repository
) -> None:
    repository.changed("a.py", 1, by="Ada")
    repository.changed("b.py", 1, by="Lovelace")
    assert [one.name for one in (await reporting.report()).contributors] == ["Lovelace", "Ada"]
    repository.write(".mailmap", "Ada Lovelace <ada@example.org> <lovelace@example.org>\n")
    assert [(one.name, one.commits) for one in (await reporting.report()).contributors] == [("Ada Lovelace", 2)]


async def test_a_plain_folder_is_reported_from_the_times_of_its_files(reporting: Reporting, folder: Folder) -> None:
    january = datetime(2026, 1, 15, tzinfo=UTC).timestamp()
    folder.write("old.py", "x\n" * 9, modified=january)
    folder.write("new.py", "x\n" * 5, modified=january + 40 * 86400)
    folder.write("notes.txt", "x\n", modified=january + 41 * 86400)
    report = await reporting.report(period="2026-02-01..2026-12-31")
    assert (report.kind, report.branch, report.summary.files, report.summary.changed_files) == ("folder", "", 3, 2)
    assert [(change.day, change.text) for change in report.changes] == [
        ("2026-02-25", "notes.txt"),
        ("2026-02-24", "new.py"),
    ]
    assert [spot.path for spot in report.hot_spots] == ["new.py"]
    assert any("who made them is not known" in note for note in report.notes)


async def test_folders_that_tools_fill_are_skipped_and_counted(reporting: Reporting, folder: Folder) -> None:
    for name in ("main.py", "node_modules/a/index.js", "web/node_modules/b.js", "venv/pyvenv.cfg", "venv/lib.py"):
        folder.write(name, "x\n")
    report = await reporting.report()
    assert report.summary.files == 1
    assert "Folders skipped: node_modules (2), venv (1)." in report.notes


async def test_large_files_and_unfinished_work_are_risks(reporting: Reporting, folder: Folder) -> None:
    folder.write("dump.csv", b"1,2,3\n" * 3_000_000)
    folder.write("work.py", "x = 1\n" * 190 + "# TODO: finish\n# FIXME\n" * 5 + "TODOS = 3\n")
    report = await reporting.report(thorough=True)
    assert report.summary.unfinished_marks == 10
    assert [(risk.kind, risk.level, risk.path) for risk in report.risks] == [
        ("unfinished_work", "high", ""),
        ("large_file", "medium", "dump.csv"),
        ("unfinished_work", "low", "work.py"),
    ]
    assert "Not counted in lines: 1 too large to read." in report.notes


async def test_one_person_who_made_most_commits_is_a_risk(reporting: Reporting, repository: Repository) -> None:
    for number in range(10):
        repository.commit(f"Commit {number}", by="Ada" if number else "Bo")
    report = await reporting.report(path=".")
    assert [(risk.kind, risk.level) for risk in report.risks] == [("bus_factor", "high")]
    assert report.risks[0].explanation.startswith("Ada made 90 % of the 10 commits;")


async def test_the_repository_is_left_as_it_was(reporting: Reporting, shared: Repository) -> None:
    shared.write("src/wheel.py", "changed since\n")
    before = shared.contents()
    await reporting.report(thorough=True)
    assert shared.contents() == before


async def test_the_agent_is_shipped_and_says_what_it_takes_and_gives(agent_platform: AgentPlatform) -> None:
    agent, goal = agent_platform.agents.goal("report_repository")
    assert (agent.name, goal.export.name, goal.export.remote, goal.export.read_only) == (
        "RepositoryReporter",
        "report_repository",
        True,
        True,
    )
    assert agent_platform.problems == ()


async def test_fifty_thousand_files_are_reported_on_within_ten_seconds(reporting: Reporting, root: Path) -> None:
    for number in range(100):
        (root / f"part{number}").mkdir()
    for number in range(50_000):
        os.close(os.open(root / f"part{number % 100}" / f"{number}.py", os.O_CREAT))
    # Time of the processor: the work of others would count on a busy machine, and limits would cut the report short.
    reporting.limits = replace(reporting.limits, listing=30)
    began = time.process_time()
    report = await reporting.report()
    taken = time.process_time() - began
    shutil.rmtree(root)
    assert report.summary.files == 50_000
    assert taken < 8
