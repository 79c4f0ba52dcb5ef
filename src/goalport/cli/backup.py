"""`goalport backup`: a copy of all that a server keeps in its data folder, made while the server runs."""

import os
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Final

from goalport.base.errors import BadInput, StoreError
from goalport.base.words import counted
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.terminal import say
from goalport.workspace.settings import load_settings

_PATIENCE: Final = 60.0
"""Seconds that another program may keep a database locked."""
_OF_DATABASE: Final = ("-wal", "-shm", "-journal")
"""What the names of files end in that belong to an open database, whose copy has what is in them."""

_MAGIC: Final = b"SQLite format 3\0"
"""What the file of a database begins with."""


def backup(place: Path, /, *, workspace: WorkspaceFolder = Path()) -> int:
    """Copy the data folder of the workspace: each database as of one moment, and every other file.

    Each copy of a database is checked. Whoever has it can read everything, so keep it as you keep the original.

    Parameters
    ----------
    place
        The folder to make, which must not be there yet. Only you may read it.

    Examples:
        goalport backup /var/backups/goalport/monday
    """
    settings = load_settings(workspace_root(workspace))
    data, copy = settings.data_dir, place.expanduser().absolute()
    if not data.is_dir():
        raise BadInput(f"There is nothing in {data}, the data folder of this workspace.")
    if copy.exists() or copy.is_relative_to(data):
        why = "is there already" if copy.exists() else f"is inside of {data}"
        raise BadInput(f"{copy} {why}. Name another folder.")
    unfinished = copy.with_name(f"{copy.name}.unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(mode=0o700, parents=True)
    try:
        files = _copy_all(data, unfinished)
        unfinished.rename(copy)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    say(f"Copied {counted(files, 'file')} of {data} to {copy}.")
    for each in data.rglob("*"):
        if each.is_symlink():  # not followed, since root may run this, and the servers' user may have made the link
            say(f"The link {each} was left out. Copy what it leads to by yourself.")
    if "postgresql" in f"{settings.store} {settings.documents.store}":
        say("What is in PostgreSQL is not among them: pg_dump --schema='goalport*' copies that.")
    return 0


def _copy_all(data: Path, copy: Path) -> int:
    """Copy the files of a folder, and return how many."""
    files = [each for each in data.rglob("*") if each.is_file() and not each.is_symlink()]
    found = [each for each in files if not each.name.endswith(_OF_DATABASE)]
    for each in found:
        target = copy / each.relative_to(data)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        _copy(each, target)
    return len(found)


def _copy(source: Path, target: Path) -> None:
    """Copy a file; of a database, what it holds at one moment. Only its owner may read the copy."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with source.open("rb") as file:
            is_database = file.read(len(_MAGIC)) == _MAGIC
        if not is_database:
            shutil.copyfile(source, target)
            return
        # Not SQLite's backup API: that begins again whenever another program has written, so it might never end.
        with closing(sqlite3.connect(source, timeout=_PATIENCE, isolation_level=None)) as database:
            database.execute("vacuum into ?", [str(target)])
        with closing(sqlite3.connect(target)) as database:
            (found,) = database.execute("pragma integrity_check").fetchone()
    except FileNotFoundError:
        target.unlink()  # it has gone since the files were listed
        return
    except sqlite3.Error as error:
        raise StoreError(str(source), f"It cannot be copied: {error}.", "Is the disk full?") from error
    if found != "ok":
        raise StoreError(str(source), f"Its copy is damaged: {found}.", "Take a backup from before.")
