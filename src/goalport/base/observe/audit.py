"""The audit log: who did what, one JSON object in each line of a file that is only appended to.

It contains no secrets and no values from callers: of arguments, only the names. A thread writes it, so that no call
waits for the disk; entries that cannot be written are counted, and the program's log reports it once. Several programs
may share a file: lines are appended in one write, and rotated under a lock. Above: the publisher and the commands.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, cast

from goalport.base.caller import Caller
from goalport.base.files import give_to_owner, locked
from goalport.base.observe.log_lines import REQUEST_ID, time_of
from goalport.base.secrecy import hide_known

_log = logging.getLogger(__name__)
_MOST_WAITING: Final = 100_000
"""The most entries that wait for the disk; further entries are lost and counted."""
_CLOSE_SECONDS: Final = 5.0
_GATHER_SECONDS: Final = 0.05
"""For how long entries are gathered before they are written together."""
_JSON: Final = json.JSONEncoder(default=str)
_FILE_MODE, _FOLDER_MODE = 0o600, 0o700


_Entry = tuple[float, str, Caller, str, Mapping[str, object]]
"""An entry before it is formatted: time (seconds since 1970), action, caller, id of the request, and facts."""


class Audit:
    """The audit log of one program: a file, and up to `keep` older files in the same folder."""

    def __init__(self, file: Path, *, max_bytes: int, keep: int) -> None:
        self.lost = 0
        """How many entries could not be written."""
        self._file = _RotatedFile(file, max_bytes, keep)
        self._waiting: SimpleQueue[_Entry | None] = SimpleQueue()
        """The entries that the thread has to write; None ends the thread."""
        self._thread: threading.Thread | None = None
        self._is_failing = False

    def record(self, action: str, caller: Caller, facts: Mapping[str, object]) -> None:
        """Queue an entry for writing: what was done, who did it, and facts about it; empty facts are omitted."""
        if self._waiting.qsize() < _MOST_WAITING:
            self._waiting.put((time.time(), action, caller, REQUEST_ID.get(), facts))
        else:
            self._lose("its disk takes them too slowly")
        if self._thread is None:
            self._thread = threading.Thread(target=self._write_all, name="audit log", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Wait at most 5 s until all queued entries are written; later entries are written too, by a new thread."""
        thread, self._thread = self._thread, None
        if thread is not None:
            self._waiting.put(None)
            thread.join(_CLOSE_SECONDS)

    def _write_all(self) -> None:
        ends = False
        while not ends:
            entries = [self._waiting.get()]
            if entries[0] is not None:
                # A thread that wakes takes the interpreter from the event loop, so it does not wake for each entry.
                time.sleep(_GATHER_SECONDS)
            entries += [self._waiting.get() for _ in range(self._waiting.qsize())]
            ends = None in entries
            lines = [_line_of(each) for each in entries if each is not None]
            try:
                while lines:
                    lines = lines[self._file.append(lines) :]
                self._is_failing = False
            except OSError as error:
                self._lose(error.strerror or str(error), len(lines))
        self._file.close()

    def _lose(self, reason: str, number: int = 1) -> None:
        self.lost += number
        if not self._is_failing:
            _log.error("Entries of the audit log %s are lost: %s. The server goes on.", self._file.path, reason)
        self._is_failing = True


def _line_of(entry: _Entry) -> bytes:
    """The entry as a line of the file, without empty members."""
    seconds, action, caller, request_id, facts = entry
    told = {"time": time_of(seconds), "deed": action, "caller": caller.id, "issuer": caller.issuer}
    found = {**told, "request_id": request_id, **facts}
    kept = {name: value for name, value in found.items() if value not in ("", None, (), [])}
    return f"{hide_known(_JSON.encode(kept))}\n".encode()


class _RotatedFile:
    """A file that several programs append to; at `max_bytes` it is renamed, and a new file is begun."""

    def __init__(self, path: Path, max_bytes: int, keep: int) -> None:
        self.path = path
        self._max_bytes = max_bytes
        self._keep = keep
        self._descriptor = -1
        self._is_cut = False

    def append(self, lines: Sequence[bytes]) -> int:
        """Append lines in one write, up to about `max_bytes`; return how many were written. Raises `OSError`."""
        descriptor = self._current()
        room = self._max_bytes - os.fstat(descriptor).st_size
        number = 1
        while number < len(lines) and (room := room - len(lines[number - 1])) > 0:
            number += 1
        # A line that a full disk cut off must not run into the next line.
        start = b"\n" if self._is_cut else b""
        data = start + b"".join(lines[:number])
        written = os.write(descriptor, data)
        self._is_cut = not data[:written].endswith(b"\n")
        whole = data.count(b"\n", len(start), written)
        if not whole:
            raise OSError(0, "only a part of a line could be written")
        if os.fstat(descriptor).st_size >= self._max_bytes:
            self._rotate()
        return whole

    def close(self) -> None:
        """Close the file; appending opens it again."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _current(self) -> int:
        """The descriptor of the file at the path now: another program may have renamed the file that was open."""
        if self._descriptor >= 0:
            try:
                if os.path.samestat(self.path.stat(), os.fstat(self._descriptor)):
                    return self._descriptor
            except FileNotFoundError:
                pass
            self.close()
        folder = self.path.parent
        if not folder.exists():
            folder.mkdir(_FOLDER_MODE, parents=True, exist_ok=True)
            give_to_owner(folder, of=folder.parent)
        self._descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, _FILE_MODE)
        give_to_owner(self.path, of=folder)
        return self._descriptor

    def _rotate(self) -> None:
        with locked(self.path):
            # Another program may have done it meanwhile.
            if self.path.exists() and self.path.stat().st_size >= self._max_bytes:
                for number in range(self._keep, 0, -1):
                    older = _numbered(self.path, number)
                    if older.exists():
                        older.replace(_numbered(self.path, number + 1))
                _numbered(self.path, self._keep + 1).unlink(missing_ok=True)
                self.close()
                self.path.replace(_numbered(self.path, 1))
        if not self._keep:
            _numbered(self.path, 1).unlink(missing_ok=True)


def audit_files(path: Path) -> Iterator[Path]:
    """The files of an audit log, the oldest first."""
    number = 1
    while _numbered(path, number).exists():
        number += 1
    yield from (_numbered(path, each) for each in range(number - 1, 0, -1))
    if path.exists():
        yield path


def read_audit(path: Path) -> Iterator[Mapping[str, Any]]:
    """The entries of an audit log, the oldest first; lines that a full disk cut off are skipped."""
    for file in audit_files(path):
        with file.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue
                if isinstance(entry, dict):
                    yield cast("dict[str, Any]", entry)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")
