"""Programs on a terminal of their own, and a person who reads its screen and presses keys. No test is in here."""

import os
import pty
import re
import select
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

UP, DOWN, SPACE, ENTER = "\x1b[A", "\x1b[B", " ", "\r"
CTRL_C, CTRL_D, CTRL_U = "\x03", "\x04", "\x15"
_SEQUENCE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\x1b\][^\x07]*\x07")
_SECONDS = 30.0


@dataclass
class Screen:
    """All that a program has drawn, without the sequences that move the cursor and colour the text."""

    terminal: int
    program: "subprocess.Popen[bytes]"
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
        return self.program.wait(max(ends - time.monotonic(), 1))

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
def on_terminal(
    command: list[str], env: Mapping[str, str], cwd: str | os.PathLike[str] | None = None
) -> Generator[Screen]:
    """A program whose input, output and errors are a terminal; it is ended with the block."""
    ours, theirs = pty.openpty()
    # The program is the first of a session whose terminal this is, as Ctrl-C needs it.
    with subprocess.Popen(
        command,
        cwd=cwd,
        env={**os.environ, **env},
        preexec_fn=lambda: os.login_tty(theirs),  # noqa: PLW1509 - it calls nothing that takes a lock
        pass_fds=[theirs],
    ) as program:
        os.close(theirs)
        try:
            yield Screen(ours, program)
        finally:
            if program.poll() is None:
                program.kill()
            program.wait()
            os.close(ours)
