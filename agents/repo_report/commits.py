"""What `git log` prints, read piece by piece into commits and changes of files.

Pure: from bytes to values, one at a time. `gitlog` runs the program; `history` sums up what comes out here.
"""

import os
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

FORMAT = "%x1e%h%x00%ct%x00%<(80,trunc)%aN%x00%<(120,trunc)%aE%x00%<(120,trunc)%s"
"""Every field but the first ends a piece of its own, so that no name or subject can pass for another field; git cuts
the long ones, so that no commit can fill the memory."""
FIELDS = 4
START = b"\x1e"


class Commit(NamedTuple):
    """One commit, without its changes."""

    hash: str
    at: int
    name: str
    email: str
    subject: str


class Change(NamedTuple):
    """One file changed by the commit before it; without line counts both are 0."""

    path: str
    added: int
    deleted: int


def read_log(tokens: Iterator[bytes]) -> Iterator[Commit | Change]:
    """Read the pieces of `git log -z` with `FORMAT` and either `--numstat` or `--raw`."""
    for token in tokens:
        if token.startswith(START):
            fields = tuple(islice(tokens, FIELDS))
            if len(fields) == FIELDS:
                yield _commit(token[1:], fields)
        else:
            change = _change(token.removeprefix(b"\n"), tokens)
            if change:
                yield change


def _commit(token: bytes, fields: tuple[bytes, ...]) -> Commit:
    time, *texts = (field.decode("utf-8", "replace").strip() for field in fields)
    name, email, subject = texts
    return Commit(token.decode("ascii", "replace"), int(time) if time.isdigit() else 0, name, email, subject)


def _change(token: bytes, tokens: Iterator[bytes]) -> Change | None:
    if token.startswith(b":"):
        path = next(tokens, None)
        return Change(os.fsdecode(path), 0, 0) if path else None
    added, _, rest = token.partition(b"\t")
    deleted, _, path = rest.partition(b"\t")
    return Change(os.fsdecode(path), _lines(added), _lines(deleted)) if path else None


def _lines(text: bytes) -> int:
    """Read a count of lines; a binary file has a dash for it."""
    return int(text) if text.isdigit() else 0
