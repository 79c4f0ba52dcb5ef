"""`goalport` on a terminal of its own, and a person who reads its screen and presses keys. No test is in here."""

import os
import pty
import re
import select
import time
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.context import ForkServerProcess
from pathlib import Path

from tests.programs import fork

UP, DOWN, SPACE, ENTER = "\x1b[A", "\x1b[B", " ", "\r"
CTRL_C, CTRL_D, CTRL_U = "\x03", "\x04", "\x15"
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07")
_SECONDS = 30.0


@dataclass
class Screen:
    """All that a program has drawn, without the sequences that move the cursor and colour the text."""

    terminal: int
    program: ForkServerProcess
    raw: bytes = b""
    seen: int = field(default=0)
    """The characters that were waited for before."""

    @property
    def text(self) -> str:
        return _SEQUENCE.sub("", self.raw.decode(errors="replace")).replace("\r", "")

    def until(self, words: str, seconds: float = _SECONDS) -> "Screen":
        """Wait until the words are drawn, after those that were waited for before."""
        ends = time.monotonic() + seconds
        while (place := self.text.find(words, self.seen)) < 0:
            assert self._read(ends), f"Expected {words!r}; came since:\n{self.text[self.seen :]}"
        self.seen = place + len(words)
        return self

    def press(self, *keys: str) -> "Screen":
        os.write(self.terminal, "".join(keys).encode())
        return self

    def ended(self, seconds: float = _SECONDS) -> int:
        """Wait until the program has ended; its exit code."""
        ends = time.monotonic() + seconds
        while self._read(ends):
            pass
        self.program.join(max(ends - time.monotonic(), 1))
        assert self.program.exitcode is not None, self.text
        return self.program.exitcode

    def _read(self, ends: float) -> bool:
        """Read what is drawn next; False if the program has ended or the time is over."""
        if not select.select([self.terminal], [], [], max(ends - time.monotonic(), 0))[0]:
            return False
        try:
            drawn = os.read(self.terminal, 65_536)
        except OSError:  # the program has closed the terminal
            return False
        self.raw += drawn
        return bool(drawn)


@contextmanager
def on_terminal(arguments: Sequence[str], env: Mapping[str, str], cwd: Path | None = None) -> Generator[Screen]:
    """`goalport` with these arguments, whose input, output and errors are a terminal; it is ended with the block."""
    ours, theirs = pty.openpty()
    env = {**os.environ, **env}
    program = fork(arguments, env, cwd, stdin=theirs, stdout=theirs, stderr=theirs, terminal=True)
    os.close(theirs)
    try:
        yield Screen(ours, program)
    finally:
        program.kill()
        program.join()
        os.close(ours)
