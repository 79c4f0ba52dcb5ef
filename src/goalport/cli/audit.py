"""`goalport audit`: who called, answered, approved and ended what, from the audit log of the workspace.

Below the program; `observe.audit`, which writes and reads the log, is below it.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final, Literal, cast

from goalport.base.observe.audit import read_audit
from goalport.cli.options import WorkspaceFolder, duration_of, workspace_root
from goalport.cli.sources import local_time
from goalport.cli.terminal import Format, say, show_json, show_lines
from goalport.workspace.settings import load_settings
from goalport.workspace.settings.loading import audit_file_of, keeps_audit

Deed = Literal["called", "answered", "approved", "declined", "ended", "erased", "denied", "key_created", "key_revoked"]
_FIRST: Final = ("time", "deed", "caller", "issuer")


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
    found = _chosen(
        read_audit(audit_file_of(settings)), {name: value for name, value in wanted.items() if value}, begin
    )
    is_empty = True
    for entry in found:
        is_empty = False
        if format == "json":
            show_json(entry, indent=None)
        else:
            show_lines([_in_words(entry)])
    if is_empty:
        say(_none(audit_file_of(settings), is_on=keeps_audit(settings)))


def _chosen(
    entries: Iterator[Mapping[str, Any]], wanted: Mapping[str, str], begin: datetime | None
) -> Iterator[Mapping[str, Any]]:
    for each in entries:
        if all(each.get(name) == value for name, value in wanted.items()) and (
            begin is None or _time_of(each) >= begin
        ):
            yield each


def _time_of(entry: Mapping[str, Any]) -> datetime:
    try:
        return datetime.fromisoformat(entry["time"])
    except (KeyError, TypeError, ValueError):
        return datetime.now(UTC) - timedelta(days=36_500)


def _in_words(entry: Mapping[str, Any]) -> str:
    of = f" of {entry['issuer']}" if entry.get("issuer") else ""
    facts = " ".join(f"{name}={_shown(value)}" for name, value in entry.items() if name not in _FIRST)
    who = f"{local_time(_time_of(entry))} {entry.get('caller', '')}{of} {entry.get('deed', '')} {facts}"
    return who.replace("\n", "\\n")


def _shown(value: object) -> str:
    return ",".join(map(str, cast("list[object]", value))) if isinstance(value, list) else str(value)


def _none(file: Path, *, is_on: bool) -> str:
    if is_on:
        return f"Nothing of that is in the audit log {file}."
    return "No audit log is written, since no callers are authenticated here. [audit] enabled = true writes it."
