"""This program among those that use the same database, and whether others on its machine still live.

A program says from time to time that it lives. Who shares its machine and sees its process needs not wait until it has
said nothing for long: a server that was killed and is started again goes on at once.
"""

import os
import secrets
import socket
import sys
import uuid
from pathlib import Path
from typing import NamedTuple, Self


class Program(NamedTuple):
    """A program with a store of its own, as the database knows it."""

    id: str
    host: str
    """The machine, since it was started, and the space of process numbers in it."""
    pid: int
    started: str
    """When the system started it, since a number may be used again; empty where that is unknown."""

    @classmethod
    def this(cls) -> Self:
        """This program, with a new id."""
        return cls(secrets.token_hex(8), _host(), os.getpid(), _started(os.getpid()) or "")

    def sees(self, pid: int, started: str) -> bool:
        """Whether a program of this host may live; if nothing is known, it may."""
        if sys.platform == "win32":  # there, asking by a signal would end it
            return True
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass
        return not started or _started(pid) in {None, started}


def _host() -> str:
    booted = _text("/proc/sys/kernel/random/boot_id") or f"{uuid.getnode():x}"
    try:
        space = str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        space = ""
    return f"{socket.gethostname()} {booted} {space}".strip()


def _started(pid: int) -> str | None:
    """When a process was started, in ticks since the machine was; "ended" if nothing but its entry is left."""
    _, _, fields = _text(f"/proc/{pid}/stat").rpartition(")")
    if not fields:
        return None
    state, *rest = fields.split()
    return "ended" if state in {"Z", "X"} else rest[18]


def _text(path: str) -> str:
    try:
        return Path(path).read_text().strip()
    except OSError:
        return ""
