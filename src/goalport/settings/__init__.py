"""How a server is set up: its settings, where they come from, and what they may be. Floor 6."""

from goalport.settings.environment import environment_of, secrets_of
from goalport.settings.key_entries import KeyEntry
from goalport.settings.loading import load_settings
from goalport.settings.providers import IntrospectionSettings, IssuerSettings, TokenSettings
from goalport.settings.settings import SETTINGS_FILE, Settings
from goalport.settings.tables import (
    AuditSettings,
    AuthSettings,
    AutonomySettings,
    CallerLimits,
    DocumentsSettings,
    LimitSettings,
    RetrySettings,
)

__all__ = [
    "SETTINGS_FILE",
    "AuditSettings",
    "AuthSettings",
    "AutonomySettings",
    "CallerLimits",
    "DocumentsSettings",
    "IntrospectionSettings",
    "IssuerSettings",
    "KeyEntry",
    "LimitSettings",
    "RetrySettings",
    "Settings",
    "TokenSettings",
    "environment_of",
    "load_settings",
    "secrets_of",
]
