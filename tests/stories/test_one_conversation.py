"""One conversation through all doors, with a server killed in its middle: the program of docs/chat.md."""

import os
import subprocess
import sys
from pathlib import Path

from tests.docs.fences import fences, write_files

PAGE, PROGRAM = "docs/chat.md", "# one_conversation.py"


def test_a_conversation_goes_through_all_doors_and_survives_a_killed_server(tmp_path: Path) -> None:
    (program,) = [each for each in fences(PAGE, "py") if each.text.startswith(PROGRAM)]
    write_files(PAGE, tmp_path)
    (tmp_path / "one_conversation.py").write_text(program.text)

    done = subprocess.run(
        [sys.executable, "-u", "one_conversation.py"],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    said = [line for line in done.stdout.splitlines() if line]
    assert said[:5] == [
        "I have noted: My bicycle is red.",
        "I have noted: My bicycle is red. It squeaks.",
        "That is 30 euros. Shall we?",
        "It is repaired.",
        "Ride safely!",
    ]
