"""Running the scripts of skills: only where a user asks for it, by a tool of a group, and with a person's approval.

The scripts of a skill are programs of others. `Skills.script_group` makes a tool group of a runner that the user
chooses; without it no script runs. `ChildProcessRunner` limits time and output and hides the environment; it is no
sandbox: a script can read and write what the user of this process can.
"""

import os
import signal
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from subprocess import DEVNULL, PIPE, STDOUT
from typing import Final, Protocol

import anyio
from anyio.abc import Process

from goalport.base.errors import ToolError
from goalport.base.secrecy import hide
from goalport.base.words import cleaned

_INTERPRETERS: Final[Mapping[str, tuple[str, ...]]] = {
    ".py": (sys.executable, "-I"),
    ".sh": ("sh",),
    ".bash": ("bash",),
    ".js": ("node",),
}
_ENVIRONMENT: Final = ("PATH", "LANG", "LC_ALL", "TZ", "TMPDIR", "SYSTEMROOT")


@dataclass(frozen=True, slots=True)
class ScriptResult:
    """How a script ended."""

    exit_code: int
    output: str
    """What it wrote on stdout and stderr, in the order in which it came."""


class ScriptRunner(Protocol):
    """Runs one script of a skill; a user may bring one that runs it in a container."""

    async def run(self, script: Path, arguments: Sequence[str], skill: Path) -> ScriptResult:
        """Run a script with arguments, on behalf of the skill in a folder; both paths are absolute.

        Raises `ToolError` where it cannot.
        """
        ...


@dataclass(frozen=True, slots=True)
class ChildProcessRunner:
    """Runs scripts as child processes of this one, in an empty folder or the one that is given."""

    seconds: float = 60.0
    """A script that takes longer is ended, with the processes that it started."""
    output_characters: int = 20_000
    """Of a longer output only the beginning is kept."""
    environment: Sequence[str] = _ENVIRONMENT
    """The names of the variables that a script sees; keys and passwords are in others."""
    interpreters: Mapping[str, Sequence[str]] = field(default_factory=lambda: dict(_INTERPRETERS))
    """By the end of a script's name: the command that runs it. A script with another end is not run."""
    folder: Path | None = None
    """The folder in which scripts run; None: an empty one that is removed afterwards."""

    async def run(self, script: Path, arguments: Sequence[str], skill: Path) -> ScriptResult:
        interpreter = self.interpreters.get(script.suffix.lower())
        if interpreter is None:
            known = ", ".join(self.interpreters)
            raise ToolError(f"{script.name!r} cannot be run: expected a script that ends with one of {known}.")
        variables = {name: os.environ[name] for name in self.environment if name in os.environ}
        environment = {**variables, "SKILL_FOLDER": str(skill)}
        with tempfile.TemporaryDirectory(prefix="goalport-script-", ignore_cleanup_errors=True) as empty:
            command = [*interpreter, str(script), *arguments]
            try:
                process = await anyio.open_process(
                    command,
                    stdin=DEVNULL,
                    stdout=PIPE,
                    stderr=STDOUT,
                    cwd=self.folder or empty,
                    env=environment,
                    start_new_session=True,
                )
            except (OSError, ValueError) as error:
                raise ToolError(f"{script.name!r} cannot be run: {error}.") from error
            return await self._ended(script, process)

    async def _ended(self, script: Path, process: Process) -> ScriptResult:
        written = bytearray()
        try:
            with anyio.fail_after(self.seconds):
                assert process.stdout is not None
                async for piece in process.stdout:
                    written += piece[: 4 * self.output_characters - len(written)]
                await process.wait()
        except TimeoutError:
            raise ToolError(f"{script.name!r} took longer than {self.seconds:g} seconds and was ended.") from None
        finally:
            with anyio.CancelScope(shield=True):
                _end(process, os.killpg if hasattr(os, "killpg") else None)
                await process.aclose()
        output = cleaned(written.decode("utf-8", "replace"), self.output_characters)
        return ScriptResult(process.returncode or 0, hide(output))


def _end(process: Process, end_group: Callable[[int, int], None] | None) -> None:
    """End a process and those that it started, which share its group."""
    with suppress(ProcessLookupError, PermissionError):
        if end_group is not None:
            end_group(process.pid, signal.SIGKILL)
        else:
            process.kill()
