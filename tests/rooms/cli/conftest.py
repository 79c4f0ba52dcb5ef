import io
import os
import pty
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from goalport.cli import execute
from tests.programs import ran

PROGRAM = Path(sys.executable).with_name("goalport")
TERMINAL = {"TERM": "xterm", "COLUMNS": "200"}


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
    """The program in a process of its own."""

    def run(*arguments: str, stdin: str = "", cwd: Path | None = None) -> Ran:
        done = ran(arguments, {**os.environ, "HOME": str(home)}, cwd, typed=stdin)
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def terminal(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Path) -> Command:
    """The program in this process, with a terminal for its input and its output; what it draws is in `out`."""

    def run(*arguments: str, typed: str = "", cwd: Path | None = None) -> Ran:
        with _terminal(typed) as (ours, theirs), monkeypatch.context() as patch:
            with open(theirs, closefd=False) as keyboard, open(theirs, "w", closefd=False) as screen:
                patch.setattr(sys, "stdin", keyboard)
                patch.setattr(sys, "stdout", screen)
                for name, value in TERMINAL.items():
                    patch.setenv(name, value)
                patch.chdir(cwd or Path.cwd())
                code = execute(arguments)
            os.write(theirs, b"\0")
            return Ran(code, _drawn(ours), capsys.readouterr().err)

    return run


@pytest.fixture
def program_on_terminal(home: Path) -> Command:
    """The same with a process of its own."""

    def run(*arguments: str, typed: str = "", cwd: Path | None = None) -> Ran:
        with _terminal(typed) as (ours, theirs):
            done = subprocess.run(
                [PROGRAM, *arguments],
                stdin=theirs,
                stdout=theirs,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                check=False,
                cwd=cwd,
                env={**os.environ, "HOME": str(home), **TERMINAL},
            )
            os.write(theirs, b"\0")
            return Ran(done.returncode, _drawn(ours), done.stderr)

    return run


@contextmanager
def _terminal(typed: str) -> Generator[tuple[int, int]]:
    """The two ends of a terminal at which this was typed."""
    ours, theirs = pty.openpty()
    try:
        os.write(ours, typed.encode())
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


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
