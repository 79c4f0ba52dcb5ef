"""`goalport ps`, `show`, `export` and `prune`: the processes in the store of a workspace, also while no server runs.

These commands read, and drop what has ended; no process goes on by them. `answering` has those that change processes.
"""

import asyncio
import json
import re
from collections.abc import Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from goalport import __version__
from goalport.cli.options import WorkspaceFolder, workspace_root
from goalport.cli.process_page import local_time, page_of, view_of
from goalport.cli.stored import NOTHING_STORED, family_in, opened_store, stored_settings
from goalport.cli.terminal import Record, say, show as show_records, show_lines
from goalport.cli.workspace import open_workspace
from goalport.errors import BadInput
from goalport.process import ProcessStatus
from goalport.settings import Settings, load_settings
from goalport.store import ProcessRecord, exported

Status = Literal["running", "waiting", "stuck", "paused", "not_started", "completed", "failed", "terminated", "killed"]
Json = Annotated[bool, Parameter(name="--json", negative="", help="Print JSON, for programs.", show_default=False)]
_OPEN = tuple(str(each) for each in ProcessStatus if not each.ended or each is ProcessStatus.STUCK)
_SECONDS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400}


def ps(
    *,
    status: Annotated[
        tuple[Status, ...], Parameter(negative="", help="Only those with this status; repeat it for more.")
    ] = (),
    all_: Annotated[
        bool, Parameter(name=("--all", "-a"), negative="", help="Also those that have ended.", show_default=False)
    ] = False,
    limit: Annotated[int, Parameter(help="How many at most.")] = 50,
    after: Annotated[str, Parameter(help="Go on below this process.", show_default=False)] = "",
    structured: Json = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """List the processes in the store, the newest first: those that have not ended, or are stuck."""
    settings = load_settings(workspace_root(workspace))
    if limit < 1:
        raise BadInput(f"Expected --limit to be 1 or more, but got {limit}.")
    chosen = tuple(status) or (() if all_ else _OPEN)
    if settings.store == "memory":
        found, none = list[ProcessRecord](), NOTHING_STORED
    else:
        found, others = asyncio.run(_listed(settings, chosen, limit, after))
        none = "No process is stored." if not others else "No process runs, waits or is stuck; --all lists the others."
    shown = found[:limit]
    show_records([_line(each) for each in shown], "json" if structured else "text", none=none)
    if len(found) > limit:
        say(f"There are more: --after {shown[-1].id} goes on below the last one.")


async def _listed(
    settings: Settings, statuses: Sequence[str], limit: int, after: str
) -> tuple[Sequence[ProcessRecord], int]:
    """One record more than are to be shown, if there are so many; and how many processes have other statuses."""
    if settings.store == "sqlite" and not (settings.data_dir / "processes.db").exists():
        return [], 0  # looking makes no file
    async with opened_store(settings) as store:
        found = await store.records(after=after, limit=limit + 1, statuses=statuses, newest_first=True)
        counts = await store.counts()
        return found, sum(number for name, number in counts.items() if statuses and name not in statuses)


def _line(record: ProcessRecord) -> Record:
    return {
        "process": record.id,
        "agent": record.agent,
        "status": record.status,
        "created": local_time(record.created_at),
        "ended": local_time(record.finished_at) if record.final and record.finished_at is not None else "",
        "started_by": record.parent,
        "caller": record.caller.id,
    }


def show(
    process_id: str,
    /,
    *,
    structured: Json = False,
    events: Annotated[
        bool, Parameter(negative="", help="Also all that happened in it, step by step.", show_default=False)
    ] = False,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Show a process: its history with times, costs and attempts, its plan, its questions, and who runs it."""
    settings = stored_settings(workspace)
    loaded = open_workspace(settings.workspace)
    view = asyncio.run(view_of(loaded, process_id, events=events))
    if structured:
        print(json.dumps(view, indent=2, ensure_ascii=False))
    else:
        show_lines(page_of(view))


def export(
    process_id: str,
    /,
    *,
    output: Annotated[
        Path | None, Parameter(name=("--output", "-o"), help="The file to write. Default: standard output.")
    ] = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Write all that is stored of a process and its family as JSON, without secrets: for tests and reports."""
    family = asyncio.run(_family(stored_settings(workspace), process_id))
    text = json.dumps(family, indent=1, ensure_ascii=False)
    if output is None:
        print(text)
    else:
        output.write_text(f"{text}\n", encoding="utf-8")


async def _family(settings: Settings, process_id: str) -> object:
    async with opened_store(settings) as store:
        return exported(await family_in(store, process_id), version=__version__)


def prune(
    *,
    older_than: Annotated[
        str | None, Parameter(help="Those that ended longer ago: 30d, 12h, 90m or 30s.", show_default=False)
    ] = None,
    keep: Annotated[int | None, Parameter(help="All but the newest so many.", show_default=False)] = None,
    workspace: WorkspaceFolder = Path(),
) -> None:
    """Drop processes that have ended from the store, with their sub-processes; those that are stuck stay."""
    if older_than is None and keep is None:
        raise BadInput("Say what to drop: --older-than 30d for what ended longer ago, or --keep 1000, or both.")
    if keep is not None and keep < 0:
        raise BadInput(f"Expected --keep to be 0 or more, but got {keep}.")
    age = None if older_than is None else _duration(older_than)
    settings = stored_settings(workspace)
    dropped, left = asyncio.run(_prune(settings, age, keep))
    file = settings.data_dir / "processes.db"
    size = f" {file} has {file.stat().st_size / 1e6:,.1f} MB." if settings.store == "sqlite" else ""
    say(f"Dropped with their sub-processes: {dropped}. Processes that are left: {left}.{size}")


async def _prune(settings: Settings, age: timedelta | None, keep: int | None) -> tuple[int, int]:
    async with opened_store(settings) as store:
        dropped = await store.prune(older_than=age, keep=keep)
        return dropped, sum((await store.counts()).values())


def _duration(given: str) -> timedelta:
    match = re.fullmatch(r"(\d{1,6})([smhd])", given.strip())
    if match is None:
        raise BadInput(f"Expected an age such as 30d, 12h, 90m or 30s, but got {given!r}.")
    return timedelta(seconds=int(match[1]) * _SECONDS[match[2]])
