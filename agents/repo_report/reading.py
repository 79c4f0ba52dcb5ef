"""Reading files for their lines and their marks of unfinished work.

The edge that opens files: each through `Inside`, so never through a symlink, and never more than a bounded part.
Above: the agent, for the thorough census and for the size of hot spots.
"""

import os
import re
from collections.abc import Iterable

from .census import Census, CensusTally, Contents
from .deadline import Deadline
from .folder import Inside
from .languages import Kind, language_of
from .listing import Aside, Listing, Oddity
from .walking import Sight

LARGEST_READ = 2 << 20
WORDS = (b"TODO", b"FIXME", b"HACK", b"XXX")
MARK = re.compile(rb"\b(?:" + b"|".join(WORDS) + rb")\b")
BINARY_PROBE = 8192


def read_census(folder: str, sights: Iterable[Sight], listing: Listing, deadline: Deadline) -> Census:
    """Read the files that a walk comes by, until all are read or time is up."""
    inside, tally, stopped = Inside(folder), CensusTally(), False
    for sight in sights:
        if isinstance(sight, Aside):
            stopped = stopped or sight.oddity is Oddity.TIME
        elif deadline.passed:
            stopped = True
            break
        elif sight.size > LARGEST_READ or language_of(sight.path).kind is Kind.MEDIA:
            tally.add_unread(sight, too_large=sight.size > LARGEST_READ)
        else:
            tally.add(sight, read_contents(inside, sight.path))
    return tally.finished(listing, stopped=stopped)


def read_contents(inside: Inside, path: str) -> Contents | None:
    """Count the lines and marks of one file; None when it cannot be opened or has grown too large."""
    data = _read(inside, path)
    if data is None or len(data) > LARGEST_READ:
        return None
    if b"\0" in data[:BINARY_PROBE]:
        return Contents(0, 0, binary=True)
    lines = data.count(b"\n") + (not data.endswith(b"\n") and bool(data))
    marks = sum(1 for _ in MARK.finditer(data)) if any(word in data for word in WORDS) else 0
    return Contents(lines, marks)


def _read(inside: Inside, path: str) -> bytes | None:
    descriptor = inside.open(path)
    if descriptor is None:
        return None
    try:
        with os.fdopen(descriptor, "rb", buffering=0) as file:
            return file.read(min(os.fstat(descriptor).st_size, LARGEST_READ) + 1)
    except OSError:
        return None


def measure(folder: str, paths: Iterable[str], deadline: Deadline) -> dict[str, Contents]:
    """Count the lines of some files, as many as time allows; those that are gone, or not text, are left out."""
    inside, measured = Inside(folder), dict[str, Contents]()
    for path in paths:
        if deadline.passed:
            break
        contents = read_contents(inside, path)
        if contents and not contents.binary:
            measured[path] = contents
    return measured
