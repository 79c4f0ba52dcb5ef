"""What the page on troubleshooting shows after a command is what that command prints for the workspace of the page."""

import os
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

from tests.clients.running import GOALPORT
from tests.docs.fences import Fence, fences, write_files

PAGE = "docs/troubleshooting.md"
PATIENCE = 120
NEEDS_MORE = {"goalport models", "goalport tools", "goalport mcp check"}
"""Their output depends on the machine, or on a server that is down."""


def shown() -> list[tuple[str, Fence]]:
    """Each single command of the page that is followed by its output."""
    return [
        (command.text.strip(), output)
        for command, output in pairwise(fences(PAGE, "sh", "text"))
        if (command.language, output.language) == ("sh", "text")
        and command.text.count("\n") == 1
        and command.text.strip() not in NEEDS_MORE
    ]


@pytest.mark.parametrize(("command", "output"), shown(), ids=str)
def test_a_command_prints_what_the_page_shows(command: str, output: Fence, tmp_path: Path) -> None:
    write_files(PAGE, tmp_path)
    done = subprocess.run(
        [GOALPORT, *shlex.split(command)[1:]],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    for line in output.text.splitlines():
        assert line in done.stdout + done.stderr, command
