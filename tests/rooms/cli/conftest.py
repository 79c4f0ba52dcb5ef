import io
import os
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
def workspace(goalport: Command, tmp_path: Path) -> Path:
    """What `goalport new` makes."""
    folder = tmp_path / "my agents"
    assert goalport("new", str(folder)).code == 0
    return folder
