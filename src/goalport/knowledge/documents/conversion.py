"""The conversion of PDF, office and e-book files to Markdown, each in a child process with limits.

Files come from anywhere, and what reads them is large and not ours: it may crash, hang or take all memory. In a child
process, that costs the one file. The library's asynchronous functions can abort the interpreter; they are not used.
"""

import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import anyio
from anyio import to_thread
from pydantic import TypeAdapter

from goalport.base.errors import UnreadableDocument
from goalport.base.words import counted, one_line
from goalport.knowledge.documents.content import ReadingLimits

_PROGRAM: Final = (sys.executable, "-P", str(Path(__file__).with_name("conversion_child.py")))
_PASSED_ON: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG", "LC_ALL")
"""The environment that the child has. It needs no key and no address, so that none can leak."""
_LONGEST_REASON: Final = 200
_LONGEST_METADATA: Final = 100_000
_BYTES_PER_CHARACTER: Final = 6
"""In JSON, at most."""
_MISSING: Final = "reading such files needs a library that is not installed: pip install 'goalport[ingest]'"


@dataclass(frozen=True, slots=True)
class Converted:
    """What a conversion gives: Markdown, and what the file says of itself, such as its title and author."""

    text: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    error: str = ""
    """Why there is no text; empty: there is."""


_ANSWER: Final = TypeAdapter(Converted)


class Conversion:
    """Converts one file after the other, because each may take as much memory as its limits allow."""

    def __init__(self, limits: ReadingLimits | None = None, program: Sequence[str] = ()) -> None:
        self._limits = limits or ReadingLimits()
        self._program = tuple(program)
        self._turn = anyio.Lock()

    async def convert(self, data: bytes, media_type: str, uri: str) -> Converted:
        """Markdown of a file. Raises UnreadableDocument, whatever goes wrong in the child."""
        if not self._program and find_spec("kreuzberg") is None:
            raise UnreadableDocument(uri, _MISSING)
        async with self._turn:
            folder = TemporaryDirectory(prefix="goalport-conversion-", ignore_cleanup_errors=True)
            # What the library writes down while it works goes with the folder.
            try:
                await to_thread.run_sync(Path(folder.name, "document").write_bytes, data)
                answer = await self._answer(Path(folder.name), media_type, uri)
            finally:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(folder.cleanup)
        if not answer.error:
            return Converted(answer.text, {name: one_line(each) for name, each in answer.metadata.items()})
        if "password" in answer.error.lower() or "encrypted" in answer.error.lower():
            raise UnreadableDocument(uri, "it is protected by a password")
        # The library's own errors hold their message twice.
        error = one_line(answer.error, _LONGEST_REASON).removeprefix("ParsingError: ")
        reason = ": ".join(dict.fromkeys(error.split(": ")))
        is_said = reason.startswith("its ")
        raise UnreadableDocument(uri, reason if is_said else f"it is damaged, or in no known format ({reason})")

    async def _answer(self, folder: Path, media_type: str, uri: str) -> Converted:
        limits, status = self._limits, None
        seconds, longest = limits.conversion_seconds, limits.max_characters
        told = {"seconds": ceil(seconds), "memory": limits.conversion_memory, "text": longest, "media_type": media_type}
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}

        def read() -> Converted:
            with (folder / "answer.json").open("rb") as file:
                return _ANSWER.validate_json(file.read(_BYTES_PER_CHARACTER * longest + _LONGEST_METADATA))

        try:
            with anyio.fail_after(seconds):
                child = await anyio.run_process(
                    [*(self._program or _PROGRAM), json.dumps(told)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    cwd=folder,
                    start_new_session=True,
                    env={**environment, **dict.fromkeys(("TMPDIR", "TEMP", "TMP", "HOME"), str(folder))},
                )
            status = child.returncode
            return await to_thread.run_sync(read)
        except TimeoutError:
            reason = f"its conversion took longer than {counted(round(seconds), 'second')}"
        except OSError:
            reason = f"the program that converts it ended (status {status}), as it does when it takes too much memory"
        except ValueError:
            reason = "the program that converts it answered what makes no sense"
        raise UnreadableDocument(uri, reason)
