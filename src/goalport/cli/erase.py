"""`goalport erase`: all that one caller left, or one process, goes from the store for good."""

import asyncio
from collections.abc import Mapping
from pathlib import Path

from goalport.base.caller import Caller, user_of_machine
from goalport.base.errors import BadInput
from goalport.cli.options import WorkspaceFolder
from goalport.cli.terminal import say
from goalport.runtime.platform.erasure import caller_known_as
from goalport.server.publish.audit_trail import AuditTrail
from goalport.workspace.settings import Settings
from goalport.workspace.settings.loading import audit_of

_REASON = "It was erased with `goalport erase`."


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
    from goalport.cli.stored import stored_settings

    settings = stored_settings(workspace)
    if process is not None:
        say(asyncio.run(_process(settings, process, dry_run=dry_run)))
    else:
        say(asyncio.run(_caller(settings, caller or "", issuer, dry_run=dry_run)))
    return 0


async def _process(settings: Settings, process_id: str, *, dry_run: bool) -> str:
    from goalport.cli.stored import driven

    async with driven(settings, drive=False) as loaded:
        family, _ = await loaded.platform.store.family(process_id)
        if not family:
            raise BadInput(f"There is no process {process_id}.")
        if (root := family[0].process.id) != process_id:
            raise BadInput(f"Process {process_id} belongs to process {root}, and is erased with that one.")
        if dry_run:
            return f"Process {process_id} would be erased, with its family of {len(family)}."
        await loaded.platform.processes.erase(process_id, _REASON)
    _note(settings, None, {"process_id": process_id})
    return f"Process {process_id} is erased, with its family of {len(family)}."


async def _caller(settings: Settings, caller_id: str, issuer: str | None, *, dry_run: bool) -> str:
    from goalport.cli.stored import driven

    async with driven(settings, drive=False) as loaded:
        caller = await caller_known_as(caller_id, issuer, loaded.platform.store)
        erased = await loaded.platform.erase(caller, dry_run=dry_run)
    if not dry_run:
        _note(settings, caller, erased._asdict())
    would = "Would erase" if dry_run else "Erased"
    of = f"{caller.id} ({caller.issuer})" if caller.issuer else caller.id
    return f"{would} of {of}: {', '.join(f'{name}: {number}' for name, number in erased._asdict().items())}."


def _note(settings: Settings, whose: Caller | None, facts: Mapping[str, object]) -> None:
    trail = AuditTrail(audit_of(settings))
    trail.erased(user_of_machine(), whose, facts)
    trail.close()
