"""`goalport export`, `prune`, `upgrade` and `erase`: care for what is stored."""

import asyncio
import json
from collections.abc import Mapping
from pathlib import Path

from goalport import __version__
from goalport.base.caller import Caller, user_of_machine
from goalport.base.errors import BadInput
from goalport.cli.options import (
    OutputFile,
    WorkspaceFolder,
    duration_of,
)
from goalport.cli.stored import driven, family_in, opened_store, stored_settings
from goalport.cli.terminal import say
from goalport.runtime.platform.erasure import caller_known_as
from goalport.server.publish.calls import AuditTrail
from goalport.store import exported
from goalport.workspace.settings import Settings
from goalport.workspace.settings.loading import audit_of


def export(process_id: str, /, *, output: OutputFile = None, workspace: WorkspaceFolder = Path()) -> None:
    """Write all that is stored of a process and its family as JSON, without secrets: for tests and reports.

    Examples:
        goalport export 0192f0c3 --output tests/trip.json
    """

    async def stored() -> object:
        async with opened_store(stored_settings(workspace)) as store:
            return exported(await family_in(store, process_id), version=__version__)

    text = json.dumps(asyncio.run(stored()), indent=1, ensure_ascii=False)
    if output is None:
        print(text)
    else:
        output.write_text(f"{text}\n", encoding="utf-8")


def prune(*, older_than: str | None = None, keep: int | None = None, workspace: WorkspaceFolder = Path()) -> None:
    """Drop processes that have ended from the store, with their sub-processes; those that are stuck stay.

    Parameters
    ----------
    older_than
        Those that ended longer ago: 30d, 12h, 90m or 30s.
    keep
        All but the newest so many.

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
        async with opened_store(settings) as store:
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
        async with opened_store(stored_settings(workspace), migrates=True):
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

    Parameters
    ----------
    caller
        Whose data, by the caller's id.
    issuer
        Who issued that id, if several did.
    process
        One process, with what it started.
    dry_run
        Only say how much there is.

    Examples:
        goalport erase --caller ada --dry-run
        goalport erase --caller ada
        goalport erase --process 0192f0c3
    """
    if (caller is None) == (process is None):
        raise BadInput("Say what to erase: --caller ID for all that a caller left, or --process ID.")
    settings = stored_settings(workspace)
    if process is not None:
        say(asyncio.run(_erase_process(settings, process, dry_run=dry_run)))
    else:
        say(asyncio.run(_erase_caller(settings, caller or "", issuer, dry_run=dry_run)))
    return 0


async def _erase_process(settings: Settings, process_id: str, *, dry_run: bool) -> str:
    async with driven(settings, drive=False) as loaded:
        family, _ = await loaded.platform.store.family(process_id)
        if not family:
            raise BadInput(f"There is no process {process_id}.")
        if (root := family[0].process.id) != process_id:
            raise BadInput(f"Process {process_id} belongs to process {root}, and is erased with that one.")
        if dry_run:
            return f"Process {process_id} would be erased, with its family of {len(family)}."
        await loaded.platform.processes.erase(process_id, "It was erased with `goalport erase`.")
    _note_erased(settings, None, {"process_id": process_id})
    return f"Process {process_id} is erased, with its family of {len(family)}."


async def _erase_caller(settings: Settings, caller_id: str, issuer: str | None, *, dry_run: bool) -> str:
    async with driven(settings, drive=False) as loaded:
        caller = await caller_known_as(caller_id, issuer, loaded.platform.store)
        erased = await loaded.platform.erase(caller, dry_run=dry_run)
    if not dry_run:
        _note_erased(settings, caller, erased._asdict())
    would = "Would erase" if dry_run else "Erased"
    of = f"{caller.id} ({caller.issuer})" if caller.issuer else caller.id
    return f"{would} of {of}: {', '.join(f'{name}: {number}' for name, number in erased._asdict().items())}."


def _note_erased(settings: Settings, whose: Caller | None, facts: Mapping[str, object]) -> None:
    trail = AuditTrail(audit_of(settings))
    trail.erased(user_of_machine(), whose, facts)
    trail.close()
