"""How a server is set up: its settings, where they come from, and what they may be."""

from goalport.workspace.settings.loading import (
    DeclaredSettings,
    environment_of,
    load_settings,
    read_declared,
    secrets_in,
    secrets_of,
    share_environment,
)
from goalport.workspace.settings.settings import SETTINGS_FILE, Settings
from goalport.workspace.settings.tables import (
    AuditSettings,
    AuthSettings,
    AutonomySettings,
    CallerLimits,
    DocumentsSettings,
    IntrospectionSettings,
    IssuerSettings,
    KeyEntry,
    LimitSettings,
    ProcessSettings,
    RetrySettings,
    TokenSettings,
)

__all__ = [
    "SETTINGS_FILE",
    "AuditSettings",
    "AuthSettings",
    "AutonomySettings",
    "CallerLimits",
    "DeclaredSettings",
    "DocumentsSettings",
    "IntrospectionSettings",
    "IssuerSettings",
    "KeyEntry",
    "LimitSettings",
    "ProcessSettings",
    "RetrySettings",
    "Settings",
    "TokenSettings",
    "environment_of",
    "load_settings",
    "read_declared",
    "secrets_in",
    "secrets_of",
    "share_environment",
]
