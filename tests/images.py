"""Builds what a Dockerfile says into a folder, as far as that takes no system of its own. No test is in here.

What it copies is copied, what it installs is installed into an environment that sees the packages of this one and
nothing of the network, and its command is started as the user nobody, who may write nothing but the data folder.
"""

import fnmatch
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

__all__ = ["Image", "instructions"]

_OF_A_SYSTEM: Final = ("apt-get", "useradd")
"""Steps that begin with these change the system of the image, and need one."""
_NOBODY: Final = 65_534
_DROPPED: Final = "-all,+dac_read_search"
"""Of what root may, nothing is left but to read: this machine's Python may be in root's home."""
_READY: Final = re.compile(r"goalport ready on (http://127\.0\.0\.1:\d+)/mcp")


def instructions(text: str) -> list[tuple[str, str]]:
    """The instructions of a Dockerfile and what follows each, on one line."""
    joined = re.sub(r"\\\n", " ", re.sub(r"^\s*#.*\n", "", text, flags=re.MULTILINE))
    return [(word, rest) for word, _, rest in (line.partition(" ") for line in joined.splitlines() if line.strip())]


@dataclass
class Image:
    """What was built from the Dockerfile of a workspace."""

    workspace: Path
    """Whose files are copied."""
    place: Path
    """A new folder, which gets the folders of the image."""
    skipped: list[str] = field(default_factory=list[str])
    """The steps that were left out, since they need a system of their own."""
    environment: dict[str, str] = field(default_factory=dict[str, str])
    command: list[str] = field(default_factory=list[str])
    check: list[str] = field(default_factory=list[str])
    """How the health of a container is asked for."""
    user: str = "root"

    @property
    def root(self) -> Path:
        """The image's folder of the workspace."""
        return self.place / "workspace"

    @property
    def data(self) -> Path:
        return self.place / "data"

    def build(self) -> None:
        """Follow the Dockerfile. Raises `CalledProcessError` for a step that fails."""
        self.root.mkdir(parents=True)
        self.data.mkdir(mode=0o700)
        self._make_environment()
        for word, rest in instructions((self.workspace / "server/Dockerfile").read_text()):
            match word:
                case "COPY":
                    self._copy(*rest.split())
                case "RUN" if rest.startswith(_OF_A_SYSTEM):
                    self.skipped.append(rest)
                case "RUN":
                    self._run(rest)
                case "ENV":
                    self.environment |= dict(each.split("=", 1) for each in shlex.split(rest))
                case "USER":
                    self.user = rest
                case "CMD":
                    self.command = json.loads(rest)
                case "HEALTHCHECK":
                    self.check = json.loads(rest.partition(" CMD ")[2])
                case _:
                    assert word in {"FROM", "ARG", "WORKDIR", "VOLUME", "EXPOSE", "STOPSIGNAL"}, word

    def _run(self, step: str) -> None:
        command = ["sh", "-c", step]
        env = self._variables()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, cwd=self.root, env=env, timeout=120)

    @contextmanager
    def running(self, **settings: str) -> Generator[tuple[str, subprocess.Popen[str]]]:
        """A container of the image: its address and its process, which is ended with the block."""
        command, env = self._as_its_user(self.command), self._variables(**settings)
        with subprocess.Popen(command, cwd=self.root, env=env, stderr=subprocess.PIPE, text=True) as process:
            assert process.stderr is not None
            try:
                yield _address(process.stderr), process
            finally:
                process.terminate()
                process.communicate(timeout=30)

    def run(self, *command: str) -> subprocess.CompletedProcess[str]:
        """Run another command to its end, as `docker run` does; without one, that of the image."""
        return subprocess.run(
            self._as_its_user(list(command) or self.command),
            cwd=self.root,
            env=self._variables(),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def _as_its_user(self, command: list[str]) -> list[str]:
        """A command as somebody who may write the data folder alone; only root can say who runs it."""
        if os.geteuid() != 0:
            return command
        shutil.chown(self.data, _NOBODY, _NOBODY)
        return [*_without_powers(), *command]

    def healthy(self, address: str) -> bool:
        """Whether the check of the image, made for the port of this container, finds it healthy."""
        port = address.rpartition(":")[2]
        check = [each.replace(self.environment["GOALPORT_PORT"], port) for each in self.check]
        return subprocess.run(check, env=self._variables(), check=False, timeout=30).returncode == 0

    def _make_environment(self) -> None:
        """An environment that sees the packages of this one, and whose pip has no network."""
        venv.create(self.place / "venv", symlinks=True)
        packages = Path(sysconfig.get_path("purelib", vars={"base": str(self.place / "venv")}))
        (packages / "present.pth").write_text(sysconfig.get_path("purelib"))
        pip = self.place / "venv/bin/pip"
        pip.write_text(f'#!/bin/sh\nexec {self.place}/venv/bin/python -m pip "$@"\n')
        pip.chmod(0o755)

    def _copy(self, *words: str) -> None:
        *sources, target = words
        lines = (self.workspace / ".dockerignore").read_text().splitlines()
        ignored = _Ignored(self.workspace, [each for each in lines if each and not each.startswith("#")])
        for source in sources:
            origin = self.workspace / source
            if origin.is_dir():
                shutil.copytree(origin, self.root / target, ignore=ignored, dirs_exist_ok=True)
            else:
                shutil.copy2(origin, self.root / target)

    def _variables(self, **settings: str) -> dict[str, str]:
        """The variables of a container; paths are those of this machine."""
        given = {name: value.replace("/data", str(self.data)) for name, value in self.environment.items()}
        path = os.pathsep.join([str(self.place / "venv/bin"), str(Path(sys.executable).parent), os.environ["PATH"]])
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("GOALPORT_", "COV"))}
        return {**kept, "PIP_NO_INDEX": "1", "PYTHONDONTWRITEBYTECODE": "1", **given, **settings, "PATH": path}


@dataclass(frozen=True)
class _Ignored:
    """Which names of a folder `.dockerignore` keeps out, as `shutil.copytree` asks."""

    workspace: Path
    patterns: list[str]

    def __call__(self, folder: str, names: list[str]) -> list[str]:
        place = Path(folder).relative_to(self.workspace)
        return [name for name in names if any(_matches(place / name, pattern) for pattern in self.patterns)]


def _matches(path: Path, pattern: str) -> bool:
    if pattern.startswith("**/"):
        return fnmatch.fnmatchcase(path.name, pattern.removeprefix("**/"))
    return fnmatch.fnmatchcase(str(path), pattern)


def _without_powers() -> list[str]:
    user = [f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups", "--no-new-privs"]
    powers = [f"--{name}={_DROPPED}" for name in ("inh-caps", "ambient-caps", "bounding-set")]
    return ["setpriv", *user, *powers]


def _address(lines: Iterable[str]) -> str:
    """The address that a server says once it is ready."""
    said: list[str] = []
    for line in lines:
        said.append(line)
        if found := _READY.search(line):
            return found[1]
    raise AssertionError("".join(said))
