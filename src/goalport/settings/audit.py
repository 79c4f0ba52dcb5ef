"""The audit log that settings ask for. Above: the server's publisher and the commands, which write it."""

from goalport.observe.audit import Audit
from goalport.settings.settings import Settings

__all__ = ["audit_of"]


def audit_of(settings: Settings) -> Audit | None:
    """The audit log that settings ask for; None if they ask for none. Nothing is opened before it is written to."""
    if not settings.keeps_audit:
        return None
    return Audit(settings.audit_file, max_bytes=settings.audit.max_bytes, keep=settings.audit.keep)
