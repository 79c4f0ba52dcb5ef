"""What the README shows works as it stands, each program by itself."""

import re
import shlex
import subprocess
from pathlib import Path

import pytest

from tests.clients.running import GOALPORT, environment, serving
from tests.docs.fences import ADDRESS, Fence, fences, write_files
from tests.docs.test_examples_run import PATIENCE, run

README = "README.md"
PROGRAMS = list(fences(README, "python"))
(COMMANDS,) = (each for each in fences(README, "sh") if "goalport plan greet" in each.text)
PRINTED = {
    "check": r"nothing is wrong",
    "plan": r"(?s)1\. recognise .* 2\. greet ",
    'run "Say hello to Ada"': r"Hello, Ada!\n",
    "run greet --input": r"Hello, Ada!\n",
}
"""What the commands that end by themselves print, by their beginnings."""


@pytest.mark.parametrize("program", PROGRAMS, ids=str)
def test_each_program_of_the_readme_runs_alone(program: Fence, tmp_path: Path) -> None:
    write_files(README, tmp_path)
    if ADDRESS not in program.text:
        run(program.text, tmp_path, README)
        return
    with serving(tmp_path, tmp_path) as server:
        run(program.text.replace(ADDRESS, server.address), tmp_path, README)


def test_the_first_commands_of_the_readme_do_what_it_says(tmp_path: Path) -> None:
    write_files(README, tmp_path)
    (tmp_path / "agents" / "sailor.py").unlink()  # it comes later on the page
    lines = [shlex.split(line, comments=True)[1:] for line in COMMANDS.text.splitlines()]
    endless = [line for line in lines if line[0] in {"serve", "shell"}]
    said = {shlex.join(line): goalport(tmp_path, *line) for line in lines if line not in endless}
    for beginning, expected in PRINTED.items():
        (found,) = (out for line, out in said.items() if line.replace("'", '"').startswith(beginning))
        assert re.search(expected, found), found
    assert len(said) == len(PRINTED)


def test_the_chatbot_of_the_readme_is_a_whole_one(tmp_path: Path) -> None:
    write_files(README, tmp_path)

    assert "nothing is wrong" in goalport(tmp_path, "check")


def goalport(folder: Path, *words: str) -> str:
    done = subprocess.run(
        [GOALPORT, *words],
        cwd=folder,
        env=environment(folder),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout
