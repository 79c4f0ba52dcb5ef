"""Folders and repositories that are not as usual: each gets a sensible report."""

import os
from pathlib import Path

import anyio
import pytest

from tests.agents.repo_report.conftest import Reporting
from tests.agents.repo_report.folders import Folder, Repository

POSIX = pytest.mark.skipif(os.name == "nt", reason="file names and owners of POSIX")


async def test_an_empty_folder_has_an_empty_report(reporting: Reporting) -> None:
    report = await reporting.report()
    assert (report.summary.files, report.changes, report.hot_spots, report.risks) == (0, [], [], [])
    assert "The folder holds no files." in report.content


async def test_a_repository_without_commits_is_reported_by_its_files(
    reporting: Reporting, repository: Repository
) -> None:
    repository.write("a.py", "x\n")
    report = await reporting.report()
    assert (report.kind, report.branch, report.summary.files) == ("folder", "main", 1)
    assert "The git repository has no commits yet." in report.notes


async def test_a_tracked_file_that_was_deleted_is_missed(reporting: Reporting, repository: Repository) -> None:
    repository.changed("here.py", 3)
    repository.changed("gone.py", 3)
    (repository.path / "gone.py").unlink()
    report = await reporting.report()
    assert (report.summary.files, [spot.path for spot in report.hot_spots]) == (1, ["here.py"])
    assert "Met on the way: 1 tracked file that is not there." in report.notes


async def test_binary_files_have_a_size_and_no_lines(reporting: Reporting, repository: Repository) -> None:
    repository.write("logo.png", b"\x89PNG\0\n\n\n")
    repository.write("blob", b"a\0b\nc\n")
    repository.commit("Add")
    report = await reporting.report()
    assert (report.summary.files, report.summary.lines, report.summary.lines_added) == (2, 0, 0)
    assert "Not counted in lines: 2 binary files." in report.notes


@POSIX
@pytest.mark.parametrize("tracked", [True, False])
async def test_names_that_cannot_be_printed_are_shown_with_escapes(
    reporting: Reporting, root: Path, tmp_path: Path, *, tracked: bool
) -> None:
    folder = Repository.make(root, tmp_path / "home") if tracked else Folder(root)
    names = [b"caf\xe9.py", b"a\nb.py", "a\u202eb.py".encode(), b"a|b`c.py", b"*<b>.py", b"\x1b[31m.py"]
    for name in names:
        folder.write(name, "x\n")
    if isinstance(folder, Repository):
        folder.commit("Odd | names\x1b[2J <b>*bold*</b> ![x](http://example.org)")
    report = await reporting.report()
    shown = {"caf\\xe9.py", "a\\nb.py", "a\\u202eb.py", "a|b`c.py", "*<b>.py", "\\x1b[31m.py"}
    assert {spot.path for spot in report.hot_spots} == shown
    assert "4 file names cannot be printed as they are, and are shown with escapes." in report.notes
    assert "`` a\\|b`c.py ``" in report.content
    assert not tracked or "Odd \\| names" in report.content
    assert "\x1b" not in report.content
    assert " <b>" not in report.content


async def test_a_long_subject_and_a_long_path_are_cut(reporting: Reporting, repository: Repository) -> None:
    path = "/".join(["deep" * 10] * 12) + "/end.py"
    repository.write(path, "x\n")
    repository.commit("word " * 20_000)
    report = await reporting.report()
    assert len(report.changes[0].text) <= 120
    assert len(report.hot_spots[0].path) <= 160
    assert report.hot_spots[0].path.endswith("/end.py")
    assert len(report.content) < 3000


async def test_a_huge_file_is_counted_without_being_read(reporting: Reporting, folder: Folder) -> None:
    folder.write("huge.log")
    os.truncate(folder.path / "huge.log", 1 << 40)
    report = await reporting.report(thorough=True)
    assert report.summary.bytes == 1 << 40
    assert [(risk.kind, risk.level) for risk in report.risks] == [("large_file", "high")]
    assert "1.1 TB in one file." in report.content


async def test_a_worktree_is_reported_when_its_repository_may_be_read(
    reporting: Reporting, root: Path, tmp_path: Path
) -> None:
    repository = Repository.make(root / "main", tmp_path / "home")
    repository.changed("a.py", 3)
    repository.git("worktree", "add", "--quiet", "-b", "side", str(root / "side"))
    report = await reporting.report("side")
    assert (report.kind, report.branch, report.summary.commits) == ("git repository", "side", 1)


async def test_a_worktree_of_a_repository_outside_is_reported_without_its_history(
    reporting: Reporting, root: Path, tmp_path: Path
) -> None:
    repository = Repository.make(tmp_path / "elsewhere", tmp_path / "home")
    repository.changed("a.py", 3)
    repository.git("worktree", "add", "--quiet", "-b", "side", str(root / "side"))
    report = await reporting.report("side")
    assert (report.kind, report.summary.commits, report.summary.files) == ("folder", 0, 1)
    assert any("lies outside of the folders that the server may read" in note for note in report.notes)


async def test_a_submodule_is_counted_in_its_repository_and_reported_by_itself(
    reporting: Reporting, root: Path, tmp_path: Path
) -> None:
    inner = Repository.make(root / "inner", tmp_path / "home")
    inner.changed("in.py", 3)
    outer = Repository.make(root / "outer", tmp_path / "home")
    outer.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(inner.path), "part")
    outer.commit("Add part")
    report = await reporting.report("outer")
    assert report.summary.files == 1
    assert "Met on the way: 1 repository inside." in report.notes
    report = await reporting.report("outer/part")
    assert (report.kind, report.summary.commits) == ("git repository", 1)


async def test_a_shallow_clone_says_that_commits_are_missing(reporting: Reporting, root: Path, tmp_path: Path) -> None:
    origin = Repository.make(root / "origin", tmp_path / "home")
    for number in range(3):
        origin.changed("a.py", number + 1)
    origin.git("clone", "--quiet", "--depth=1", f"file://{origin.path}", str(root / "clone"))
    report = await reporting.report("clone")
    assert report.summary.commits == 1
    assert any("shallow clone" in note for note in report.notes)


async def test_without_git_on_the_path_a_repository_is_reported_as_a_folder(
    reporting: Reporting, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.changed("a.py", 3)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    report = await reporting.report()
    assert (report.kind, report.summary.files) == ("folder", 1)
    assert any("git is not on the server's PATH" in note for note in report.notes)


@pytest.mark.parametrize("content", [b"gitdir: /nowhere\n", b"", b"\0\xff"])
async def test_a_broken_git_file_is_reported_as_a_folder(reporting: Reporting, folder: Folder, content: bytes) -> None:
    folder.write(".git", content)
    folder.write("a.py", "x\n")
    report = await reporting.report()
    assert (report.kind, report.summary.files) == ("folder", 1)
    assert any("Git cannot read this repository" in note for note in report.notes)


async def test_a_damaged_index_has_the_folder_walked(reporting: Reporting, repository: Repository) -> None:
    repository.changed("a.py", 3)
    repository.write(".git/index", b"damaged")
    report = await reporting.report()
    assert (report.kind, report.summary.files, report.summary.commits) == ("git repository", 1, 1)
    assert {"list_tracked_files?", "walk_folder"} < set(reporting.steps)


async def test_a_damaged_repository_is_reported_as_a_folder(reporting: Reporting, repository: Repository) -> None:
    repository.changed("a.py", 3)
    for pack in (repository.path / ".git" / "objects").rglob("??????????*"):
        pack.chmod(0o600)
        pack.write_bytes(b"damaged")
    report = await reporting.report()
    assert (report.kind, report.summary.files) == ("folder", 1)


@POSIX
@pytest.mark.skipif(os.name != "nt" and os.geteuid() != 0, reason="only root can give a repository away")
async def test_a_repository_of_another_owner_says_how_to_trust_it(
    reporting: Reporting, repository: Repository, tmp_path: Path
) -> None:
    repository.changed("a.py", 3)
    for path in (repository.path, repository.path / ".git"):
        os.chown(path, 12345, 12345)
    report = await reporting.report()
    assert report.kind == "folder"
    (note,) = (note for note in report.notes if "does not trust" in note)
    command = note.partition("`")[2].partition("`")[0].split()
    await anyio.run_process(command, env={"PATH": os.environ["PATH"], "HOME": str(tmp_path / "home")})
    assert (await reporting.report()).kind == "git repository"


async def test_only_the_repository_of_the_folder_itself_is_looked_for_below_the_roots(
    reporting: Reporting, root: Path, tmp_path: Path
) -> None:
    Repository.make(tmp_path, tmp_path / "home").changed("root/a.py", 3)
    report = await reporting.report()
    assert (report.kind, report.summary.commits, report.summary.files) == ("folder", 0, 1)


@POSIX
async def test_pipes_sockets_and_links_are_met_and_left_alone(reporting: Reporting, folder: Folder) -> None:
    os.mkfifo(folder.path / "pipe")
    (folder.path / "passwd").symlink_to("/etc/passwd")
    (folder.path / "etc").symlink_to("/etc")
    (folder.path / "gone").symlink_to("nowhere")
    report = await reporting.report(thorough=True)
    assert report.summary.files == 0
    assert "Met on the way: 3 symbolic links, 1 file that is not a regular one." in report.notes
