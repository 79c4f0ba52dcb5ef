"""Repositories that want a program run or a file read: none of them gets it.

Each case is tried both ways: the program does run when git is used carelessly, and does not when a report is made.
"""

import os
import stat
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest

from tests.agents.repo_report.conftest import Reporting
from tests.agents.repo_report.folders import Repository

pytestmark = pytest.mark.skipif(os.name == "nt", reason="the traps are shell scripts")


@dataclass(frozen=True)
class Trap:
    """A program that leaves a trace when it runs."""

    program: Path
    trace: Path

    @classmethod
    def set(cls, folder: Path) -> "Trap":
        trap = cls(folder / "trap.sh", folder / "trace")
        trap.program.write_text(f"#!/bin/sh\necho ran >> {trap.trace}\nexit 1\n")
        trap.program.chmod(stat.S_IRWXU)
        return trap

    def sprung(self) -> bool:
        found = self.trace.exists()
        self.trace.unlink(missing_ok=True)
        return found


def fsmonitor(repository: Repository, program: Path) -> None:
    repository.git("config", "core.fsmonitor", str(program))


def external_diff(repository: Repository, program: Path) -> None:
    repository.git("config", "diff.external", str(program))


def diff_driver(repository: Repository, program: Path) -> None:
    repository.git("config", "diff.evil.command", str(program))
    repository.write(".git/info/attributes", "* diff=evil\n")


def textconv(repository: Repository, program: Path) -> None:
    repository.git("config", "diff.evil.textconv", str(program))
    repository.write(".git/info/attributes", "* diff=evil\n")


def clean_filter(repository: Repository, program: Path) -> None:
    repository.git("config", "filter.evil.clean", str(program))
    repository.write(".git/info/attributes", "* filter=evil\n")
    repository.write("a.py", "changed\n")


def signature(repository: Repository, program: Path) -> None:
    commit = repository.git("cat-file", "commit", "HEAD")
    header, _, message = commit.partition("\n\n")
    pgp = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n x\n -----END PGP SIGNATURE-----"
    repository.write(".git/signed", f"{header}\n{pgp}\n\n{message}")
    signed = repository.git("hash-object", "-t", "commit", "-w", ".git/signed").strip()
    repository.git("update-ref", "HEAD", signed)
    repository.git("config", "gpg.program", str(program))
    repository.git("config", "log.showSignature", "true")


def hook(repository: Repository, program: Path) -> None:
    repository.git("config", "core.hooksPath", str(program.parent))
    (program.parent / "post-index-change").symlink_to(program)
    os.utime(repository.path / "a.py", (1, 1))


def missing_content(repository: Repository, program: Path, url: str = "file:///nowhere") -> None:
    """A partial clone whose contents are to be fetched by a program of the repository's choice."""
    for key, value in (
        ("core.repositoryFormatVersion", "1"),
        ("extensions.partialClone", "origin"),
        ("remote.origin.promisor", "true"),
        ("remote.origin.url", url),
        ("remote.origin.uploadpack", str(program)),
        ("protocol.allow", "always"),
        ("protocol.ext.allow", "always"),
        ("protocol.file.allow", "always"),
    ):
        repository.git("config", key, value)
    blob = repository.git("rev-parse", "HEAD:a.py").strip()
    (repository.path / ".git" / "objects" / blob[:2] / blob[2:]).unlink()


def missing_content_over_ssh(repository: Repository, program: Path) -> None:
    repository.git("config", "core.sshCommand", str(program))
    missing_content(repository, program, "ssh://nowhere.invalid/x")


def missing_content_over_a_program(repository: Repository, program: Path) -> None:
    missing_content(repository, program, f"ext::{program}")


CASES: list[tuple[Callable[[Repository, Path], None], tuple[str, ...]]] = [
    (fsmonitor, ("ls-files", "--modified")),
    (external_diff, ("log", "-p", "--ext-diff")),
    (diff_driver, ("log", "-p", "--ext-diff")),
    (textconv, ("log", "-p")),
    (clean_filter, ("diff",)),
    (signature, ("log", "--numstat")),
    (hook, ("status",)),
    (missing_content, ("log", "--numstat")),
    (missing_content_over_ssh, ("log", "--numstat")),
    (missing_content_over_a_program, ("log", "--numstat")),
]


@pytest.mark.parametrize(("arm", "careless"), CASES, ids=[arm.__name__ for arm, _ in CASES])
async def test_no_program_of_the_repository_runs(
    reporting: Reporting,
    repository: Repository,
    tmp_path: Path,
    arm: Callable[[Repository, Path], None],
    careless: tuple[str, ...],
) -> None:
    repository.changed("a.py", 3)
    repository.changed("a.py", 5)
    trap = Trap.set(tmp_path)
    arm(repository, trap.program)
    before = repository.contents()
    report = await reporting.report(thorough=True)
    assert not trap.sprung()
    assert report.summary.commits == 2
    assert repository.contents() == before
    await anyio.run_process(["git", *careless], cwd=repository.path, env=dict(repository.variables), check=False)
    assert trap.sprung(), "this trap does not work, so it proves nothing"


async def test_a_git_in_the_folder_is_not_the_one_that_runs(
    reporting: Reporting, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trap = Trap.set(tmp_path)
    (repository.path / "git").symlink_to(trap.program)
    repository.changed("a.py", 3)
    monkeypatch.chdir(tmp_path)
    assert (await reporting.report()).summary.commits == 1
    assert not trap.sprung()


async def test_variables_of_the_server_do_not_lead_git_elsewhere(
    reporting: Reporting, repository: Repository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    repository.changed("a.py", 3)
    trap = Trap.set(tmp_path)
    monkeypatch.setenv("GIT_DIR", str(tmp_path))
    monkeypatch.setenv("GIT_EXTERNAL_DIFF", str(trap.program))
    assert (await reporting.report()).summary.commits == 1
    assert not trap.sprung()


@pytest.fixture
def secret(tmp_path: Path) -> Path:
    """A file outside, of a size that would be noticed."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.py").write_text("x\n" * 777)
    return tmp_path / "outside"


async def test_tracked_files_behind_a_symlink_are_not_looked_at(
    reporting: Reporting, repository: Repository, secret: Path
) -> None:
    repository.changed("dir/secret.py", 3)
    (repository.path / "dir" / "secret.py").unlink()
    (repository.path / "dir").rmdir()
    (repository.path / "dir").symlink_to(secret)
    report = await reporting.report(thorough=True)
    assert (report.summary.files, report.summary.lines, report.hot_spots) == (0, 0, [])
    assert "Met on the way: 1 symbolic link." in report.notes


async def test_a_name_in_the_history_that_climbs_out_reaches_nothing(
    reporting: Reporting, repository: Repository, secret: Path
) -> None:
    blob = repository.git("hash-object", "-w", "--stdin").strip()
    entry = b"100644 secret.py\0" + bytes.fromhex(blob)
    tree = write_tree(repository, entry)
    for name in (b"outside", b".."):
        tree = write_tree(repository, b"40000 " + name + b"\0" + bytes.fromhex(tree))
    commit = repository.git("commit-tree", "-m", "Climb", tree).strip()
    repository.git("update-ref", "HEAD", commit)
    repository.write("a.py", "x\n")
    report = await reporting.report()
    assert (report.summary.commits, report.hot_spots) == (1, [])


def write_tree(repository: Repository, content: bytes) -> str:
    repository.write(".git/tree", content)
    return repository.git("hash-object", "-t", "tree", "-w", "--literally", ".git/tree").strip()


async def test_a_git_directory_behind_a_symlink_is_judged_by_where_it_is(
    reporting: Reporting, root: Path, tmp_path: Path
) -> None:
    elsewhere = Repository.make(tmp_path / "elsewhere", tmp_path / "home")
    elsewhere.changed("a.py", 3)
    (root / ".git").symlink_to(elsewhere.path / ".git")
    assert (await reporting.report()).kind == "folder"


def lend(borrower: Repository, lender: Repository, line: str = "{objects}") -> None:
    objects = lender.path / ".git" / "objects"
    borrower.write(".git/objects/info/alternates", line.format(objects=objects) + "\n")


@pytest.mark.parametrize("line", ["{objects}", '"{objects}"', "# none\n\n{objects}", "{objects}\n" * 4000])
async def test_objects_borrowed_from_outside_are_not_read(
    reporting: Reporting, repository: Repository, tmp_path: Path, line: str
) -> None:
    elsewhere = Repository.make(tmp_path / "elsewhere", tmp_path / "home")
    elsewhere.changed("a.py", 3)
    lend(repository, elsewhere, line)
    repository.git("update-ref", "HEAD", elsewhere.git("rev-parse", "HEAD").strip())
    report = await reporting.report()
    assert (report.kind, report.changes) == ("folder", [])


async def test_objects_borrowed_from_one_who_borrows_outside_are_not_read(
    reporting: Reporting, root: Path, tmp_path: Path
) -> None:
    places = (root / "first", root / "second", tmp_path / "elsewhere")
    first, second, elsewhere = (Repository.make(place, tmp_path / "home") for place in places)
    elsewhere.changed("a.py", 3)
    lend(first, second)
    lend(second, elsewhere)
    first.git("update-ref", "HEAD", elsewhere.git("rev-parse", "HEAD").strip())
    assert (await reporting.report("first")).kind == "folder"


async def test_objects_borrowed_inside_are_read_even_in_a_circle(
    reporting: Reporting, root: Path, tmp_path: Path
) -> None:
    first, second = (Repository.make(root / name, tmp_path / "home") for name in ("first", "second"))
    second.changed("a.py", 3)
    lend(first, second)
    first.git("update-ref", "HEAD", second.git("rev-parse", "HEAD").strip())
    assert (await reporting.report("first")).summary.commits == 1
    lend(second, first)
    assert (await reporting.report("first")).summary.commits == 1


async def test_a_list_of_lenders_that_is_no_plain_file_is_not_waited_for(
    reporting: Reporting, repository: Repository, tmp_path: Path
) -> None:
    repository.changed("a.py", 3)
    (tmp_path / "list").write_text("")
    alternates = repository.path / ".git" / "objects" / "info" / "alternates"
    alternates.parent.mkdir(exist_ok=True)
    alternates.symlink_to(tmp_path / "list")
    assert (await reporting.report()).kind == "folder"
    alternates.unlink()
    os.mkfifo(alternates)
    assert (await reporting.report()).kind == "folder"


async def test_a_work_tree_set_elsewhere_is_not_followed(
    reporting: Reporting, repository: Repository, secret: Path
) -> None:
    repository.changed("a.py", 3)
    repository.git("config", "core.worktree", str(secret))
    report = await reporting.report()
    assert (report.kind, report.summary.files) == ("folder", 1)


async def test_a_repository_hidden_in_a_folder_is_not_taken_for_one(
    reporting: Reporting, root: Path, tmp_path: Path
) -> None:
    repository = Repository.make(tmp_path / "elsewhere", tmp_path / "home")
    repository.changed("a.py", 3)
    repository.git("clone", "--quiet", "--bare", str(repository.path), str(root / "bare"))
    assert (await reporting.report("bare")).kind == "folder"
