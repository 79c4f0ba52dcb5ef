"""`goalport export`, `prune`, `upgrade`, `erase`, `backup` and `audit`: maintenance of what is stored."""

import asyncio
import json
import os
import shutil
import sqlite3
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, Literal, cast

from goalport import __version__
from goalport.base.caller import user_of_machine
from goalport.base.errors import BadInput, StoreError
from goalport.base.observe.audit import read_audit
from goalport.base.words import counted
from goalport.cli.options import OutputFile, WorkspaceFolder, duration_of, workspace_root
from goalport.cli.stored_processes import family_in, open_store, open_with_store, stored_settings
from goalport.cli.terminal import Format, local_time, say, show_json, show_lines
from goalport.runtime.platform.erasure import caller_known_as
from goalport.server.publish.calls import AuditTrail
from goalport.store import exported
from goalport.workspace.settings import audit_file_of, audit_of, load_settings, writes_audit

_PATIENCE: Final = 60.0
"""Seconds to wait for a database that another program has locked."""
_OF_DATABASE: Final = ("-wal", "-shm", "-journal")
"""The endings of files that belong to an open database; the copy of the database contains their data."""

_MAGIC: Final = b"SQLite format 3\0"
"""The bytes with which the file of an SQLite database begins."""
Deed = Literal["called", "answered", "approved", "declined", "ended", "erased", "denied", "key_created", "key_revoked"]


def export(process_id: str, /, *, output: OutputFile = None, workspace: WorkspaceFolder = Path()) -> None:
    """Write all that is stored of a process and its family as JSON, without secrets: for tests and reports.

    Examples:
        goalport export 0192f0c3 --output tests/trip.json
    """

    async def stored() -> object:
        async with open_store(stored_settings(workspace)) as store:
            return exported(await family_in(store, process_id), version=__version__)

    text = json.dumps(asyncio.run(stored()), indent=1, ensure_ascii=False)
    if output is None:
        print(text)
    else:
        output.write_text(f"{text}\n", encoding="utf-8")


def prune(*, older_than: str | None = None, keep: int | None = None, workspace: WorkspaceFolder = Path()) -> None:
    """Drop processes that have ended from the store, with their sub-processes; those that are stuck stay.

    Args:
        older_than: Those that ended longer ago: 30d, 12h, 90m or 30s.
        keep: All but the newest so many.

    Examples:
        goalport prune --older-than 30d
        goalport prune --keep 1000
    """
    if older_than is None and keep is None:
        raise BadInput("Say what to drop: --older-than 30d for what ended longer ago, or --keep 1000, or both.")
    if keep is not None and keep < 0:
        raise BadInput(f"Expected --keep to be 0 or more, but got {keep}.")
    age = None if older_than is None else duration_of(older_than)
    settings = stored_settings(workspace)

    async def pruned() -> tuple[int, int]:
        async with open_store(settings) as store:
            return await store.prune(older_than=age, keep=keep), sum((await store.counts()).values())

    dropped, left = asyncio.run(pruned())
    file = settings.data_dir / "processes.db"
    size = f" {file} has {file.stat().st_size / 1e6:,.1f} MB." if settings.store == "sqlite" else ""
    say(f"Dropped with their sub-processes: {dropped}. Processes that are left: {left}.{size}")


def upgrade(*, workspace: WorkspaceFolder = Path()) -> None:
    """Change the store of processes to what this version needs, as a server does at its start.

    Examples:
        goalport upgrade
    """

    async def upgraded() -> None:
        async with open_store(stored_settings(workspace), migrates=True):
            pass

    asyncio.run(upgraded())
    say(f"The store of processes is that of goalport {__version__}.")


def erase(
    *,
    caller: str | None = None,
    issuer: str | None = None,
    process: str | None = None,
    dry_run: bool = False,
    workspace: WorkspaceFolder = Path(),
) -> int:
    """Erase all that is stored of a caller, or one process, with results, questions and events.

    Of a caller, these are processes, conversations, contexts, sign-ins at upstream servers, and the place among the
    readers of documents. What runs is ended, also at a server. The audit log keeps that it was done. Nothing of it can
    be had back.

    Args:
        caller: Whose data, by the caller's id.
        issuer: Who issued that id, if several did.
        process: One process, with what it started.
        dry_run: Only say how much there is.

    Examples:
        goalport erase --caller ada --dry-run
        goalport erase --caller ada
        goalport erase --process 0192f0c3
    """
    if (caller is None) == (process is None):
        raise BadInput("Say what to erase: --caller ID for all that a caller left, or --process ID.")
    settings = stored_settings(workspace)

    async def erased() -> str:
        async with open_with_store(settings, drive=False) as loaded:
            platform = loaded.platform
            if process is None:
                whose = await caller_known_as(caller or "", issuer, platform.store)
                counts = (await platform.erase(whose, dry_run=dry_run))._asdict()
                of = f"{whose.id} ({whose.issuer})" if whose.issuer else whose.id
                numbers = ", ".join(f"{name}: {number}" for name, number in counts.items())
                told, facts = f"{'Would erase' if dry_run else 'Erased'} of {of}: {numbers}.", counts
            else:
                family, _ = await platform.store.family(process)
                if not family:
                    raise BadInput(f"There is no process {process}.")
                if (root := family[0].process.id) != process:
                    raise BadInput(f"Process {process} belongs to process {root}, and is erased with that one.")
                if not dry_run:
                    await platform.processes.erase(process, "It was erased with `goalport erase`.")
                whose, facts = None, {"process_id": process}
                told = f"Process {process} {'would be' if dry_run else 'is'} erased, with its family of {len(family)}."
        if not dry_run:
            trail = AuditTrail(audit_of(settings))
            trail.erased(user_of_machine(), whose, facts)
            trail.close()
        return told

    say(asyncio.run(erased()))
    return 0


def backup(place: Path, /, *, workspace: WorkspaceFolder = Path()) -> int:
    """Copy the data folder of the workspace: each database as of one moment, and every other file.

    Each copy of a database is checked. Whoever has it can read everything, so keep it as you keep the original.

    Args:
        place: The folder to make, which must not be there yet. Only you may read it.

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
        if each.is_symlink():  # not followed: root may run this, and the server's user may have created the link
            say(f"The link {each} was left out. Copy what it leads to by yourself.")
    if "postgresql" in f"{settings.store} {settings.documents.store}":
        say("What is in PostgreSQL is not among them: pg_dump --schema='goalport*' copies that.")
    return 0


def _copy(source: Path, target: Path) -> None:
    """Copy a file; the copy of a database is a consistent snapshot. Only its owner may read the copy."""
    os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
    try:
        with source.open("rb") as file:
            is_database = file.read(len(_MAGIC)) == _MAGIC
        if not is_database:
            shutil.copyfile(source, target)
            return
        # Not SQLite's backup API: it starts again whenever another program has written, so it might never end.
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


def audit(
    *,
    caller: str | None = None,
    deed: Deed | None = None,
    process: str | None = None,
    since: str | None = None,
    format: Format = "text",
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Print the audit log, the oldest entry first.

    Args:
        caller: What this caller did.
        deed: What of this kind was done.
        process: What concerns the process of this id.
        since: What was done in the last 30d, 12h or 90m.

    Examples:
        goalport audit --since 24h
        goalport audit --caller anna --deed approved
    """
    settings = load_settings(workspace_root(workspace))
    wanted = {"caller": caller, "deed": deed, "process_id": process}
    oldest = datetime.now(UTC) - timedelta(days=36_500)
    begin = oldest if since is None else datetime.now(UTC) - duration_of(since)
    chosen = {name: value for name, value in wanted.items() if value}
    is_empty = True
    for entry in read_audit(audit_file_of(settings)):
        try:
            moment = datetime.fromisoformat(entry["time"])
        except (KeyError, TypeError, ValueError):
            moment = oldest
        if any(entry.get(name) != value for name, value in chosen.items()) or moment < begin:
            continue
        is_empty = False
        if format == "json":
            show_json(entry, indent=None)
            continue
        of = f" of {entry['issuer']}" if entry.get("issuer") else ""
        line = f"{local_time(moment)} {entry.get('caller', '')}{of} {entry.get('deed', '')}"
        for name, value in entry.items():
            if name not in {"time", "deed", "caller", "issuer"}:
                listed = isinstance(value, list)
                line += f" {name}={','.join(map(str, cast('list[object]', value))) if listed else value}"
        show_lines([line.replace("\n", "\\n")])
    if is_empty and writes_audit(settings):
        say(f"Nothing of that is in the audit log {audit_file_of(settings)}.")
    elif is_empty:
        say("No audit log is written, since no callers are authenticated here. [audit] enabled = true writes it.")
