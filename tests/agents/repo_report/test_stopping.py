"""Work that takes too long, or that nobody waits for any more, stops with what it has."""

import os
import stat
import threading
from pathlib import Path

import pytest

from agents.repo_report.deadline import Deadline
from agents.repo_report.git import Git, Place
from agents.repo_report.gitlog import LogRequest, read_history
from agents.repo_report.listing import Aside, Oddity
from agents.repo_report.period import Period
from agents.repo_report.reading import measure
from agents.repo_report.walking import PATIENCE, walk
from tests.agents.repo_report.folders import Folder

HANGS = pytest.mark.skipif(os.name == "nt", reason="the git that hangs is a shell script")
COMMIT = r"\036abc\0001767614400\000Ada\000ada@example.org\000Begin\000\n1\t0\ta.py\000"


def git_that_hangs(folder: Path, output: str = "") -> Git:
    """A program that prints something and then waits for longer than any test."""
    program = folder / "git"
    program.write_text(f"#!/bin/sh\nprintf '{output}'\nexec sleep 600\n")
    program.chmod(stat.S_IRWXU)
    return Git(str(program))


@HANGS
def test_a_git_that_hangs_is_ended_in_time(tmp_path: Path) -> None:
    place = Place(str(tmp_path), str(tmp_path))
    answer = git_that_hangs(tmp_path, "half an answer").ask(place, ["status"], Deadline.after(0.2))
    assert (answer.ok, answer.text) == (False, "half an answer")


@HANGS
def test_a_git_that_hangs_is_ended_when_the_run_is_cancelled(tmp_path: Path) -> None:
    cancelled, place = threading.Event(), Place(str(tmp_path), str(tmp_path))
    with git_that_hangs(tmp_path, r"first\000").run(place, ["log"], Deadline.after(600, cancelled.is_set)) as run:
        for token in run.tokens():
            assert token == b"first"
            cancelled.set()
    assert run.ending == "stopped"


@HANGS
def test_a_git_that_nobody_reads_to_its_end_is_ended(tmp_path: Path) -> None:
    place = Place(str(tmp_path), str(tmp_path))
    with git_that_hangs(tmp_path, r"first\000").run(place, ["log"], Deadline.after(600)) as run:
        assert next(run.tokens()) == b"first"
    assert run.ending == "stopped"


@HANGS
def test_a_log_that_stops_half_way_is_a_history_of_the_commits_until_there(tmp_path: Path) -> None:
    wanted = LogRequest(Place(str(tmp_path), str(tmp_path)), Period(), line_counts=True, most=10)
    history = read_history(git_that_hangs(tmp_path, COMMIT + r"\036def\000176"), wanted, Deadline.after(0.5))
    assert history is not None
    assert (history.commits, history.added, history.stopped) == (1, 1, "the time for reading the log was over")


def test_a_git_that_cannot_be_started_says_why(tmp_path: Path) -> None:
    place = Place(str(tmp_path), str(tmp_path))
    answer = Git(str(tmp_path / "nowhere")).ask(place, ["status"], Deadline.after(5))
    assert (answer.ok, answer.complaint) == (False, "git cannot be started: No such file or directory")


def test_a_walk_stops_when_the_run_is_cancelled(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for number in range(PATIENCE + 10):
        folder.write(f"{number}.py")
    sights = list(walk(str(tmp_path), Deadline.after(600, lambda: True), 10_000))
    assert (len(sights), sights[-1]) == (PATIENCE, Aside(Oddity.TIME))


def test_measuring_stops_when_time_is_up(tmp_path: Path) -> None:
    Folder(tmp_path).write("a.py", "x\n")
    assert measure(str(tmp_path), ["a.py"], Deadline.after(0)) == {}
    assert measure(str(tmp_path), ["a.py", "gone.py", "", ".."], Deadline.after(5)).keys() == {"a.py"}
