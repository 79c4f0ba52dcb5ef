"""Programs that are forked from a process which has imported goalport and the SDK, since importing takes a second.

They have a process, arguments, an environment, standard files and signals of their own, as a program that is started
has. What a start itself does is tested with programs that are started. No test is in here.
"""

import fcntl
import os
import runpy
import sys
import tempfile
import termios
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from multiprocessing.context import ForkServerProcess
from multiprocessing.reduction import DupFd
from pathlib import Path
from signal import SIGKILL, SIGTERM
from subprocess import CompletedProcess
from typing import Any, Final, Protocol

import anyio
from anyio.to_thread import run_sync

from tests.forks import FORKS

__all__ = ["GOALPORT", "Program", "fork", "forked", "ran"]

GOALPORT: Final = str(Path(sys.executable).with_name("goalport"))


class Program(Protocol):
    """What stories do with a program; anyio's processes can do it too."""

    @property
    def pid(self) -> int: ...
    @property
    def returncode(self) -> int | None: ...
    async def wait(self) -> int: ...
    def terminate(self) -> None: ...
    def kill(self) -> None: ...
    def send_signal(self, signal: Any, /) -> None: ...


def fork(
    arguments: Sequence[str],
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    terminal: bool = False,
    program: str = GOALPORT,
) -> ForkServerProcess:
    """Start `goalport`, or another script of Python, with these arguments and files.

    Without a file nothing is read, and what is said is lost.

    With a terminal for its input, it is the first of a session whose terminal this is, as Ctrl-C needs it.
    """
    null = os.open(os.devnull, os.O_RDWR)
    try:
        files = _Files([null if each is None else each for each in (stdin, stdout, stderr)])
        place = str(cwd or Path.cwd())
        given = ([program, *arguments], dict(env or os.environ), place, files)
        process = FORKS.Process(target=_run, args=given, kwargs={"terminal": terminal})
        process.start()
    finally:
        os.close(null)
    return process


def ran(
    arguments: Sequence[str], env: Mapping[str, str] | None = None, cwd: Path | None = None, *, typed: str = ""
) -> "CompletedProcess[str]":
    """What `subprocess.run` gives for a program that is forked."""
    with tempfile.TemporaryFile() as given, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        given.write(typed.encode())
        given.seek(0)
        process = fork(arguments, env, cwd, stdin=given.fileno(), stdout=out.fileno(), stderr=err.fileno())
        process.join(60)
        if process.exitcode is None:
            process.kill()
        for each in (out, err):
            each.seek(0)
        assert process.exitcode is not None, err.read()
        return CompletedProcess([*arguments], process.exitcode, out.read().decode(), err.read().decode())


@asynccontextmanager
async def forked(
    arguments: Sequence[str],
    env: Mapping[str, str],
    *,
    stdin: int | None = None,
    stdout: int | None = None,
    stderr: int | None = None,
    program: str = GOALPORT,
) -> AsyncGenerator[Program]:
    """`goalport`, or another script, for as long as the block lasts; the files are closed here."""
    starting = partial(fork, arguments, env, stdin=stdin, stdout=stdout, stderr=stderr, program=program)
    process = await run_sync(starting)
    for each in (stdin, stdout, stderr):
        if each is not None:
            os.close(each)
    running = _Forked(process)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(running.watch)
        try:
            yield running
        finally:
            running.terminate()
            with anyio.move_on_after(30, shield=True):
                await running.wait()
            if running.returncode is None:
                running.kill()
                raise TimeoutError(f"{program} {arguments} goes on 30 s after it was to end.")


class _Forked:
    def __init__(self, process: ForkServerProcess) -> None:
        assert process.pid is not None
        self.pid = process.pid
        self._process = process
        self._ended = anyio.Event()

    async def watch(self) -> None:
        """Notice its end; one task does."""
        with anyio.CancelScope(shield=True):  # it is ended with the block in any case
            await anyio.wait_readable(self._process.sentinel)
        self._ended.set()

    async def wait(self) -> int:
        await self._ended.wait()
        code = self.returncode
        assert code is not None
        return code

    @property
    def returncode(self) -> int | None:
        return self._process.exitcode

    def terminate(self) -> None:
        self.send_signal(SIGTERM)

    def kill(self) -> None:
        self.send_signal(SIGKILL)

    def send_signal(self, signal: int) -> None:
        if self.returncode is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal)


class _Files:
    """Files that are open here, and then there."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self._numbers = numbers

    def __reduce__(self) -> tuple[Any, ...]:
        return _opened, tuple(DupFd(each) for each in self._numbers)


def _opened(*handed: Any) -> list[int]:
    return [each.detach() for each in handed]


def _run(command: list[str], env: dict[str, str], place: str, files: list[int], *, terminal: bool = False) -> None:
    """Be the program."""
    from goalport.cli import main

    for number, each in enumerate(files):
        os.dup2(each, number)
        os.close(each)
    if terminal:
        os.setsid()
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # Python opens them so, too: by lines if it is a terminal, and the errors in any case.
    sys.stdin = sys.__stdin__ = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", encoding="utf-8", closefd=False, buffering=1)  # noqa: SIM115
    os.environ.clear()
    os.environ.update(env)
    os.chdir(place)
    sys.argv = command
    sys.orig_argv = [sys.executable, *command]
    # Where packages are looked for was decided before the fork; a new interpreter reads it from the environment.
    for added in reversed([each for each in env.get("PYTHONPATH", "").split(os.pathsep) if each]):
        sys.path.insert(0, added)
        if (customized := Path(added, "sitecustomize.py")).exists():
            runpy.run_path(str(customized))
    if command[0] == GOALPORT:
        main()
    else:
        runpy.run_path(command[0], run_name="__main__")
