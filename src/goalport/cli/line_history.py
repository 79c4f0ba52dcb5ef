"""The lines that a person has typed at a prompt, kept in a file that only they can read.

It is loaded with prompt_toolkit, on a terminal. Above: the prompts of the shell and of a chat.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path

from prompt_toolkit.history import FileHistory, History, InMemoryHistory

from goalport.base.errors import BadInput
from goalport.base.secrecy import hide
from goalport.cli.terminal import say

Meant = Callable[[str, Sequence[str]], str]
"""The line that is meant by a typed one, given the earlier lines. Raises `BadInput` if there is none."""


def kept_lines(path: Path | None, meant: Meant | None = None) -> "KeptLines":
    """The lines in a file, to which typed lines are added; None: in memory. A file that cannot be used is told."""
    if path is None:
        return KeptLines(InMemoryHistory(), meant)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND | os.O_RDWR, 0o600))
    except OSError as error:
        say(f"warning: the history is not kept: {path}: {error.strerror}.")
        return KeptLines(InMemoryHistory(), meant)
    return KeptLines(FileHistory(path), meant)


class KeptLines(History):
    """The lines of earlier programs and of this one; those of another program that runs are for later ones.

    Kept is the line that was meant; a line that is repeated is kept once. Secrets are left out, and so is a line that
    begins with a space.
    """

    def __init__(self, place: History, meant: Meant | None = None) -> None:
        super().__init__()
        self._place = place
        self._meant = meant
        self.lines = [*place.load_history_strings()][::-1]

    def load_history_strings(self) -> Iterable[str]:
        yield from reversed(self.lines)

    def append_string(self, string: str) -> None:
        if string[:1] == " ":
            return
        with suppress(BadInput):
            line = hide(string if self._meant is None else self._meant(string, self.lines))
            if line.strip() and self.lines[-1:] != [line]:
                self.lines.append(line)
                super().append_string(line)

    def store_string(self, string: str) -> None:
        with suppress(OSError):  # a disk that is full since: the program goes on
            self._place.store_string(string)
