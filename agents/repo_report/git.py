"""Running git so that a repository cannot make it run anything else.

One class starts the program, one holds the running program. What is asked of git is decided above, in `repository`,
`listing` and `history`. No shell, no terminal, no network, nothing written, nothing configured by the repository that
could start a program, and an end in time.
"""

import os
import shutil
import subprocess
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import IO, Literal, NamedTuple, Self

from .deadline import Deadline

SETTINGS = {
    # Each of these names a program, or a way to one, in a configuration that belongs to the repository.
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.pager": "cat",
    "core.sshCommand": "false",
    "core.askPass": "false",
    "core.alternateRefsCommand": "false",
    "credential.helper": "",
    "diff.external": "",
    "gpg.program": "false",
    "gpg.ssh.program": "false",
    "gpg.x509.program": "false",
    "log.showSignature": "false",
    "protocol.allow": "never",
    "safe.bareRepository": "explicit",
    # These name a file elsewhere, or change what is printed.
    "core.attributesFile": os.devnull,
    "mailmap.file": os.devnull,
    "log.follow": "false",
    "log.showRoot": "true",
    "submodule.recurse": "false",
    # A larger file counts as binary, so that comparing two versions of it costs nothing.
    "core.bigFileThreshold": "8m",
}
KEPT_VARIABLES = ("PATH", "HOME", "USERPROFILE", "XDG_CONFIG_HOME", "SYSTEMROOT", "TMPDIR", "TEMP", "TMP")
CHUNK = 1 << 16


class Place(NamedTuple):
    """Where git runs: in a folder of a work tree whose top is known, so that git looks no higher for a repository."""

    folder: str
    top: str


@dataclass(frozen=True)
class Git:
    """The git program, by its full path: a `git` that lies in the folder of the report is never the one that runs."""

    program: str

    @classmethod
    def on_path(cls) -> "Git | None":
        """Find git on the PATH of the server; None when it is not installed."""
        program = shutil.which("git")
        return cls(str(Path(program).absolute())) if program else None

    def run(self, place: Place, arguments: Sequence[str], deadline: Deadline) -> "GitRun":
        """Prepare a git; entering the result as a context manager starts it, leaving it ends it."""
        settings = [part for key, value in SETTINGS.items() for part in ("-c", f"{key}={value}")]
        options = ["--no-optional-locks", "--no-pager", "--literal-pathspecs", "-C", place.folder]
        return GitRun([self.program, *settings, *options, *arguments], _environment(place.top), deadline)

    def ask(self, place: Place, arguments: Sequence[str], deadline: Deadline) -> "Answer":
        """Run git to its end and take what it says, for questions with a short answer."""
        try:
            with self.run(place, arguments, deadline) as run:
                text = os.fsdecode(b"".join(run.chunks()))
        except OSError as reason:
            return Answer(ok=False, text="", complaint=f"git cannot be started: {reason.strerror}")
        return Answer(run.ending == "whole", text, run.complaint)


@dataclass(frozen=True)
class Answer:
    """What git said."""

    ok: bool
    text: str
    complaint: str
    """The first line that git wrote to its error stream."""


class GitRun:
    """One running git: its output in pieces, and how it ended."""

    def __init__(self, command: Sequence[str], environment: dict[str, str], deadline: Deadline) -> None:
        self.ending: Literal["running", "whole", "stopped", "failed"] = "running"
        self.complaint = ""
        self._command = command
        self._environment = environment
        self._deadline = deadline
        self._over = threading.Event()

    def __enter__(self) -> Self:
        with ExitStack() as opened:
            self._errors: IO[bytes] = opened.enter_context(tempfile.TemporaryFile())
            self._process = subprocess.Popen(
                self._command,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=self._errors,
            )
            opened.pop_all()
        self._watch = threading.Thread(target=self._kill_when_late, daemon=True)
        self._watch.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()

    def chunks(self) -> Iterator[bytes]:
        """Yield the output as it comes; `ending` tells afterwards whether that was all of it."""
        assert self._process.stdout is not None
        while not self._deadline.passed:
            chunk = os.read(self._process.stdout.fileno(), CHUNK)
            if not chunk:
                self._finish()
                return
            yield chunk
        self._stop()

    def tokens(self) -> Iterator[bytes]:
        """Yield the output cut at its NUL bytes; a last piece without one was cut off, and is dropped."""
        rest = b""
        for chunk in self.chunks():
            *tokens, rest = (rest + chunk).split(b"\0")
            yield from tokens

    def _kill_when_late(self) -> None:
        while not self._over.wait(0.05):
            if self._deadline.passed:
                self.ending = "stopped"
                self._process.kill()
                return

    def _stop(self) -> None:
        """End a git that nobody reads any more: it would work on until it had something to write."""
        if not self._over.is_set():
            self.ending = "stopped"
            self._process.kill()
            self._finish()

    def _finish(self) -> None:
        assert self._process.stdout is not None
        self._process.stdout.close()
        code = self._process.wait()
        self._over.set()
        self._watch.join()
        with self._errors as errors:
            errors.seek(0)
            self.complaint = errors.readline(500).decode("utf-8", "replace").strip()
        if self.ending == "running":
            self.ending = "whole" if code == 0 else "failed"


def _environment(top: str) -> dict[str, str]:
    """Leave the server's own variables out: a GIT_DIR of the server's, or a key, is none of this git's business."""
    kept = {name: os.environ[name] for name in KEPT_VARIABLES if name in os.environ}
    return kept | {
        "GIT_ALLOW_PROTOCOL": "",
        "GIT_ATTR_NOSYSTEM": "1",
        "GIT_CEILING_DIRECTORIES": str(Path(top).parent),
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "LC_ALL": "C.UTF-8",
    }
