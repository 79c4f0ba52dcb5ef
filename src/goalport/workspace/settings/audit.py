"""The audit log that settings ask for. Above: the server's publisher and the commands, which write it and read it."""

from pathlib import Path

from goalport.base.observe.audit import Audit
from goalport.workspace.settings.settings import Settings


def keeps_audit(settings: Settings) -> bool:
    """Whether the audit log is written: as `audit.enabled` says, else where callers are authenticated."""
    return settings.authenticates if settings.audit.enabled is None else settings.audit.enabled


def audit_file_of(settings: Settings) -> Path:
    """The file of the audit log, whether it is there or not."""
    return settings.data_dir / settings.audit.file.expanduser()


def audit_of(settings: Settings) -> Audit | None:
    """The audit log that settings ask for; None if they ask for none. Nothing is opened before it is written to."""
    if not keeps_audit(settings):
        return None
    return Audit(audit_file_of(settings), max_bytes=settings.audit.max_bytes, keep=settings.audit.keep)
