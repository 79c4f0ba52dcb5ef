"""One conversation through all doors, with a server killed in its middle: the program of docs/chat.md."""

import os
import signal
import subprocess
import sys
from pathlib import Path

from tests.docs.fences import fences, write_files

PAGE, PROGRAM = "docs/chat.md", "# one_conversation.py"


def test_a_conversation_goes_through_all_doors_and_survives_a_killed_server(tmp_path: Path) -> None:
    (program,) = [each for each in fences(PAGE, "py") if each.text.startswith(PROGRAM)]
    write_files(PAGE, tmp_path)
    (tmp_path / "one_conversation.py").write_text(program.text)

    with subprocess.Popen(
        [sys.executable, "-u", "one_conversation.py"],
        cwd=tmp_path,
        env={**os.environ, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as running:
        try:
            printed, errors = running.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            os.killpg(running.pid, signal.SIGKILL)  # its servers too
            raise

    assert running.returncode == 0, printed + errors
    told, transcript = printed.split("# ", 1)
    assert [line for line in told.splitlines() if line] == [
        "I have noted: My bicycle is red.",
        "I have noted: My bicycle is red. It squeaks.",
        "That is 30 euros. Shall we?",
        "It is repaired.",
        "Ride safely!",
    ]
    assert [line for line in transcript.splitlines()[1:] if line and not line.startswith(("**", "With Workshop"))] == [
        "My bicycle is red.",
        "I have noted: My bicycle is red.",
        "It squeaks.",
        "I have noted: My bicycle is red. It squeaks.",
        "Please repair it.",
        "It is repaired.",
        "Thank you, goodbye!",
        "Ride safely!",
    ]
