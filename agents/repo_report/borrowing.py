"""Where the objects of a repository come from, and whether all of that lies below the allowed roots.

A repository can borrow objects from others (`git clone --shared`), which can borrow in turn; a file of lines says from
where. Whoever can write that file could have git read a repository elsewhere, so what cannot be judged is not allowed.
Above: `repository`.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from .folder import Inside

LIST = "info/alternates"
LONGEST_LIST = 100_000
MOST_FOLDERS = 50


def is_below(path: Path, roots: Sequence[Path]) -> bool:
    """Tell whether a path leads below the roots once its symlinks are followed."""
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(root) for root in roots)


def borrows_below(objects: Path, roots: Sequence[Path]) -> bool:
    """Tell whether a folder of objects, and all those that it borrows from, lie below the roots."""
    pending, seen = [objects], set[Path]()
    while pending:
        folder = Path(os.path.realpath(pending.pop()))
        if folder in seen:
            continue
        seen.add(folder)
        lenders = _lenders(folder) if is_below(folder, roots) else None
        if lenders is None or len(seen) > MOST_FOLDERS:
            return False
        pending += lenders
    return True


def _lenders(objects: Path) -> list[Path] | None:
    """Read where a folder borrows from; None when that is not plain to see."""
    if not os.path.lexists(objects / LIST):
        return []
    descriptor = Inside(str(objects)).open(LIST)
    if descriptor is None:
        return None
    with os.fdopen(descriptor, "rb") as file:
        text = file.read(LONGEST_LIST + 1)
    lines = [line for line in text.splitlines() if line and not line.startswith(b"#")]
    # A quoted line would need git's own unquoting to tell where it leads.
    if len(text) > LONGEST_LIST or b"\0" in text or any(line.startswith(b'"') for line in lines):
        return None
    return [objects / os.fsdecode(line) for line in lines]
