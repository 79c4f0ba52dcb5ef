"""The conversion of PDF, office and e-book files to Markdown, in a child process with limits.

Files come from anywhere, and what reads them is large and not ours: it may crash, hang or take all memory. In a child
process, that costs the one file. The library's asynchronous functions can abort the interpreter; they are not used.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import IO, Final, Self, cast

import anyio
from anyio import to_thread
from pydantic import JsonValue, TypeAdapter

from goalport.documents.limits import ReadingLimits
from goalport.errors import UnreadableDocument
from goalport.words import counted, one_line

__all__ = ["Conversion", "Converted"]

_PROGRAM: Final = (sys.executable, "-P", str(Path(__file__).with_name("conversion_child.py")))
_PASSED_ON: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG", "LC_ALL")
"""The environment that the child has. It needs no key and no address, so that none can leak."""
_MOST_FILES: Final = 200
"""Files that one child converts, before what it may have lost of its memory is too much."""
_LONGEST_ANSWER: Final = 100_000
_LONGEST_REASON: Final = 200
_BYTES_PER_CHARACTER: Final = 4
_MISSING: Final = "reading such files needs a library that is not installed: pip install 'goalport[ingest]'"


@dataclass(frozen=True, slots=True)
class Converted:
    """What a conversion gives: Markdown, and what the file says of itself, such as its title and author."""

    markdown: str
    metadata: Mapping[str, JsonValue]


@dataclass(frozen=True, slots=True)
class _Answer:
    size: int
    error: str = ""
    metadata: dict[str, str] | None = None


_ANSWER: Final = TypeAdapter(_Answer)


class Conversion:
    """Converts one file after the other in a child process, which is started when it is needed first.

    After a failure the next file gets a new child. `async with` ends the child at last.
    """

    def __init__(self, limits: ReadingLimits | None = None, program: Sequence[str] | None = None) -> None:
        self._limits = limits or ReadingLimits()
        self._program = tuple(program or ())
        self._child: _Child | None = None
        self._turn = anyio.Lock()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with anyio.CancelScope(shield=True):
            await to_thread.run_sync(self.close)

    def close(self) -> None:
        """Ends the child process, if there is one. It is started again when a file comes."""
        child, self._child = self._child, None
        if child is not None:
            child.end()

    async def convert(self, data: bytes, media_type: str, uri: str) -> Converted:
        """Markdown of a file. Raises UnreadableDocument, whatever goes wrong in the child."""
        if not self._program and find_spec("kreuzberg") is None:
            raise UnreadableDocument(uri, _MISSING)
        async with self._turn:
            child = await to_thread.run_sync(self._taken)
            succeeded = False
            try:
                converted = await to_thread.run_sync(child.convert, data, media_type, abandon_on_cancel=True)
                succeeded = True
            except _Failed as failure:
                raise UnreadableDocument(uri, str(failure)) from None
            finally:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(self._put_back if succeeded else _Child.end, child)
            return converted

    def _taken(self) -> "_Child":
        child, self._child = self._child, None
        return child or _Child(self._program or _PROGRAM, self._limits)

    def _put_back(self, child: "_Child") -> None:
        if child.files < _MOST_FILES:
            self._child = child
        else:
            child.end()


class _Failed(Exception):
    """A file could not be converted; the message is the reason."""


class _Child:
    """One child process, with a folder for what the library writes down while it works."""

    def __init__(self, program: Sequence[str], limits: ReadingLimits) -> None:
        self._limits = limits
        self._folder = TemporaryDirectory(prefix="goalport-conversion-", ignore_cleanup_errors=True)
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        self._process = subprocess.Popen(  # noqa: S603 - our own program, with nothing of others in its arguments
            [*program, json.dumps(limits.for_child())],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd=self._folder.name,
            start_new_session=True,
            env={**environment, **dict.fromkeys(("TMPDIR", "TEMP", "TMP", "HOME"), self._folder.name)},
        )
        self._finalizer = weakref.finalize(self, _end, self._process, self._folder)
        self._is_late = False
        self.files = 0

    def end(self) -> None:
        self._finalizer()

    def convert(self, data: bytes, media_type: str) -> Converted:
        self.files += 1
        questions, answers = cast("IO[bytes]", self._process.stdin), cast("IO[bytes]", self._process.stdout)
        clock = threading.Timer(self._limits.conversion_seconds, self._stop)
        clock.start()
        try:
            questions.write(json.dumps({"media_type": media_type, "size": len(data)}).encode() + b"\n" + data)
            questions.flush()
            answer = _ANSWER.validate_json(answers.readline(_LONGEST_ANSWER))
            text = self._text(answers, answer)
        except (OSError, ValueError):
            raise _Failed(self._reason()) from None
        finally:
            clock.cancel()
        if answer.error:
            raise _Failed(_worded(answer.error))
        return Converted(text, {name: one_line(each) for name, each in (answer.metadata or {}).items()})

    def _text(self, answers: IO[bytes], answer: _Answer) -> str:
        if not 0 <= answer.size <= _BYTES_PER_CHARACTER * self._limits.max_characters:
            raise ValueError(f"{answer.size} bytes announced")
        written = answers.read(answer.size)
        if len(written) < answer.size:
            raise ValueError(f"{answer.size} bytes announced, {len(written)} came")
        return written.decode()

    def _stop(self) -> None:
        self._is_late = True
        _kill(self._process)

    def _reason(self) -> str:
        """Why no answer came that can be read."""
        if self._is_late:
            return f"its conversion took longer than {counted(round(self._limits.conversion_seconds), 'second')}"
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = self._process.wait(1)
            return f"the program that converts it ended (status {status}), as it does when it takes too much memory"
        return "the program that converts it answered what makes no sense"


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Ends a process, with those that it started."""
    if process.poll() is not None:
        return
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def _end(process: subprocess.Popen[bytes], folder: TemporaryDirectory[str]) -> None:
    _kill(process)
    for pipe in (process.stdin, process.stdout):
        with contextlib.suppress(OSError):
            cast("IO[bytes]", pipe).close()
    process.wait()
    folder.cleanup()


def _worded(error: str) -> str:
    """The reason that the library gives, for a person."""
    if "password" in error.lower() or "encrypted" in error.lower():
        return "it is protected by a password"
    # The library's own errors hold their message twice.
    reason = ": ".join(dict.fromkeys(one_line(error, _LONGEST_REASON).removeprefix("ParsingError: ").split(": ")))
    return reason if reason.startswith("its ") else f"it is damaged, or in no known format ({reason})"
