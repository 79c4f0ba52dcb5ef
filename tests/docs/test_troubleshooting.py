"""What the page on troubleshooting shows after a command is what that command prints for the workspace of the page."""

import os
import shlex
from itertools import pairwise
from pathlib import Path

import pytest

from tests.docs.fences import Fence, fences, write_files
from tests.programs import ran

PAGE = "docs/troubleshooting.md"
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
    done = ran(shlex.split(command)[1:], {**os.environ, "NO_COLOR": "1"}, tmp_path)
    for line in output.text.splitlines():
        assert line in done.stdout + done.stderr, command
