"""`goalport backup` and `audit`: what is in the data folder, looked at without loading the workspace."""

import os
import shutil
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, cast

from goalport.base.errors import BadInput, StoreError
from goalport.base.observe.audit import read_audit
from goalport.base.words import counted
from goalport.cli.options import (
    WorkspaceFolder,
    duration_of,
    workspace_root,
)
from goalport.cli.sources import local_time
from goalport.cli.terminal import Format, say, show_json, show_lines
from goalport.workspace.settings import load_settings
from goalport.workspace.settings.loading import audit_file_of, keeps_audit

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
    found = [each for each in data.rglob("*") if each.is_file() and not each.is_symlink()]
    files = [each for each in found if not each.name.endswith(_OF_DATABASE)]
    try:
        for each in files:
            target = unfinished / each.relative_to(data)
            target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            _copy(each, target)
        unfinished.rename(copy)
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
    say(f"Copied {counted(len(files), 'file')} of {data} to {copy}.")
    for each in data.rglob("*"):
        if each.is_symlink():  # not followed, since root may run this, and the servers' user may have made the link
            say(f"The link {each} was left out. Copy what it leads to by yourself.")
    if "postgresql" in f"{settings.store} {settings.documents.store}":
        say("What is in PostgreSQL is not among them: pg_dump --schema='goalport*' copies that.")
    return 0


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


Deed = Literal["called", "answered", "approved", "declined", "ended", "erased", "denied", "key_created", "key_revoked"]


def audit(
    *,
    caller: str | None = None,
    deed: Deed | None = None,
    process: str | None = None,
    since: str | None = None,
    format: Format = "text",  # noqa: A002 - the name of the option
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Print the audit log, the oldest entry first.

    Parameters
    ----------
    caller
        What this caller did.
    deed
        What of this kind was done.
    process
        What concerns the process of this id.
    since
        What was done in the last 30d, 12h or 90m.

    Examples:
        goalport audit --since 24h
        goalport audit --caller anna --deed approved
    """
    settings = load_settings(workspace_root(workspace))
    wanted = {"caller": caller, "deed": deed, "process_id": process}
    begin = None if since is None else datetime.now(UTC) - duration_of(since)
    chosen = {name: value for name, value in wanted.items() if value}
    is_empty = True
    for entry in read_audit(audit_file_of(settings)):
        if any(entry.get(name) != value for name, value in chosen.items()):
            continue
        if begin is not None and _time_of(entry) < begin:
            continue
        is_empty = False
        if format == "json":
            show_json(entry, indent=None)
        else:
            show_lines([_audit_line(entry)])
    if is_empty and keeps_audit(settings):
        say(f"Nothing of that is in the audit log {audit_file_of(settings)}.")
    elif is_empty:
        say("No audit log is written, since no callers are authenticated here. [audit] enabled = true writes it.")


def _time_of(entry: Mapping[str, Any]) -> datetime:
    try:
        return datetime.fromisoformat(entry["time"])
    except (KeyError, TypeError, ValueError):
        return datetime.now(UTC) - timedelta(days=36_500)


def _audit_line(entry: Mapping[str, Any]) -> str:
    of = f" of {entry['issuer']}" if entry.get("issuer") else ""
    facts = ""
    for name, value in entry.items():
        if name not in {"time", "deed", "caller", "issuer"}:
            shown = ",".join(map(str, cast("list[object]", value))) if isinstance(value, list) else value
            facts += f" {name}={shown}"
    line = f"{local_time(_time_of(entry))} {entry.get('caller', '')}{of} {entry.get('deed', '')}{facts}"
    return line.replace("\n", "\\n")
