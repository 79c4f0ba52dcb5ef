"""A program on a terminal: what it has drawn, as text, and what a person types. No test is in here."""

import os
import pty
import subprocess
import termios
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from select import select
from time import monotonic

from tests.clients.running import environment

__all__ = ["Terminal", "on_terminal"]

_SIZE = (50, 200)


class Terminal:
    """The person's side of a terminal."""

    def __init__(self, end: int) -> None:
        self.text = ""
        """All that the program has drawn so far."""
        self._end = end

    def until(self, words: str, seconds: float = 60) -> None:
        """Wait until the program has drawn these words."""
        deadline = monotonic() + seconds
        while words not in self.text:
            assert self._read(deadline - monotonic()), f"Expected {words!r} on the terminal; came:\n{self.text}"

    def type_line(self, line: str) -> None:
        os.write(self._end, f"{line}\r".encode())

    def until_closed(self, seconds: float = 60) -> None:
        """Wait until the program has closed the terminal."""
        deadline = monotonic() + seconds
        while self._read(deadline - monotonic()):
            pass

    def _read(self, seconds: float) -> bool:
        """Whether something was drawn in that time, and the terminal is still open."""
        if not select([self._end], [], [], max(seconds, 0))[0]:
            return False
        try:
            drawn = os.read(self._end, 65_536)
        except OSError:  # What Linux says when the other end is closed.
            return False
        self.text += drawn.decode(errors="replace")
        return bool(drawn)


@contextmanager
def on_terminal(command: Sequence[str], scratch: Path, cwd: Path) -> Generator[Terminal]:
    """Run a program on a terminal; it has to end well by itself, after the block."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, _SIZE)
    env = environment(scratch, TERM="xterm", LINES=str(_SIZE[0]), COLUMNS=str(_SIZE[1]))
    try:
        with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, cwd=cwd, env=env) as program:
            os.close(theirs)
            terminal = Terminal(ours)
            try:
                yield terminal
                terminal.until_closed()
                assert program.wait(20) == 0, terminal.text
            finally:
                program.kill()
    finally:
        os.close(ours)
