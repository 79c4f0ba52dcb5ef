import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalport.cli import execute

PROGRAM = Path(sys.executable).with_name("goalport")


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Command = Callable[..., Ran]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    place = tmp_path / "home"
    place.mkdir()
    monkeypatch.setenv("HOME", str(place))
    for name in ("XDG_CONFIG_HOME", "APPDATA"):
        monkeypatch.delenv(name, raising=False)
    return place


@pytest.fixture
def goalport(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path) -> Command:
    """The program in this process, with a home of its own and nobody at the keyboard."""

    def run(*arguments: str, stdin: str = "") -> Ran:
        monkeypatch.setattr(sys, "stdin", io.StringIO(stdin))
        code = execute(arguments)
        printed = capsys.readouterr()
        return Ran(code, printed.out, printed.err)

    return run


@pytest.fixture
def program(home: Path) -> Command:
    """The program as it is installed, in a process of its own."""

    def run(*arguments: str, stdin: str = "", cwd: Path | None = None) -> Ran:
        done = subprocess.run(
            [PROGRAM, *arguments],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
            cwd=cwd,
            env={**os.environ, "HOME": str(home)},
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def terminal(home: Path) -> Command:
    """The program with a terminal for its input and its output; what it draws is in `out`."""

    def run(*arguments: str, typed: str = "", cwd: Path | None = None) -> Ran:
        ours, theirs = pty.openpty()
        try:
            os.write(ours, typed.encode())
            done = subprocess.run(
                [PROGRAM, *arguments],
                stdin=theirs,
                stdout=theirs,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                check=False,
                cwd=cwd,
                env={**os.environ, "HOME": str(home), "TERM": "xterm", "COLUMNS": "200"},
            )
            os.write(theirs, b"\0")
            return Ran(done.returncode, _drawn(ours), done.stderr)
        finally:
            os.close(ours)
            os.close(theirs)

    return run


def _drawn(terminal: int) -> str:
    drawn = b""
    while not drawn.endswith(b"\0"):
        drawn += os.read(terminal, 10_000)
    return drawn.decode().rstrip("\0")


@pytest.fixture
def workspace(goalport: Command, tmp_path: Path) -> Path:
    """What `goalport new` makes."""
    folder = tmp_path / "my agents"
    assert goalport("new", str(folder)).code == 0
    return folder
