"""Reading settings, and saying in a line for each what cannot be used and where it came from.

Below: `settings`, whose sources are read. Above: everything that starts a server or a command.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import BaseModel, ValidationError
from pydantic_settings import EnvSettingsSource

from goalport.errors import SettingsError
from goalport.secrecy import hide
from goalport.settings.settings import (
    ENV_FILE,
    PREFIX,
    SETTINGS_FILE,
    WITHIN,
    Settings,
    dotenv_source,
    known_settings,
    offer_settings,
)
from goalport.words import did_you_mean, nearest, validation_reason

__all__ = ["load_settings"]

_NEARLY = 0.75
_log = logging.getLogger(__name__)


def load_settings(workspace: Path, **options: Any) -> Settings:
    """The settings of a workspace. `options` precede all other sources; one that is None counts as not given.

    Raises `SettingsError`, with a line for each setting that is invalid and the source that it came from.
    """
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name in given:
        if name not in known_settings():
            raise SettingsError(f"There is no setting {name!r}. {offer_settings(name)}")
    try:
        settings = Settings(**given, workspace=workspace)
    except ValidationError as error:
        raise SettingsError(_problems(error, workspace, given)) from None
    except UnicodeDecodeError as error:
        raise SettingsError(f"{workspace / ENV_FILE}: should be text in UTF-8 ({error.reason}).") from None
    for name, meant in _misspelt(os.environ):
        _log.warning("The environment variable %s is not a setting. %s", name, did_you_mean([meant]))
    return settings


def _misspelt(environment: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Variables that look like misspelt settings, with the probable names. Names in tables are checked elsewhere."""
    names = {each.upper() for each in Settings.model_fields}
    for name in sorted(each for each in environment if each.startswith(PREFIX)):
        # Without the prefix, which all have: it would make any two names alike.
        head, delimiter, rest = name.removeprefix(PREFIX).partition(WITHIN)
        if head not in names and (near := nearest(head, names, likeness=_NEARLY)):
            yield name, f"{PREFIX}{near[0]}{delimiter}{rest}"


def _problems(error: ValidationError, workspace: Path, options: Mapping[str, object]) -> str:
    """One line per invalid setting. The value is shown, unless it is or may contain a secret."""
    lines: list[str] = []
    for each in error.errors(include_url=False, include_context=False):
        path = tuple(map(str, each["loc"])) if each["loc"][0] in _TABLES else (str(each["loc"][0]),)
        reason = validation_reason(each["msg"])
        came = "" if _is_secret(path) else hide(f"; came {each['input']!r}")
        problem = f"{'.'.join(path)} {reason}{came}"
        if each["type"] == "extra_forbidden":
            offered = offer_settings(path[-1], _names_at(path))
            problem = f"there is no setting {path[-1]!r} in [{'.'.join(path[:-1])}]. {offered}"
        lines.append(f"{_origin(path, workspace, options)}: {problem}")
    return "\n".join(dict.fromkeys(lines))


_TABLES = ("models", "llm_operations", "retry", "autonomy", "documents", "auth")
_KEYLESS = (("default_llm",), ("default_embedding_model",), ("llms",), ("embedding_services",))
_SECRET_OF_AUTH = ((), ("key_entries",), ("introspection",))
_LEAF = len(("models", "providers", "openai", "api_key"))
"""The depth of single settings of providers and models; what is higher in the tree contains keys."""


def _is_secret(path: tuple[str, ...]) -> bool:
    if path[0] == "auth":
        return path[1:2] in _SECRET_OF_AUTH
    if path[0] != "models" or path[1:2] in _KEYLESS:
        return path[0] in {"state_keys", "store"} or path in {("documents",), ("documents", "store")}
    return len(path) < _LEAF or path[-1] in {"api_key", "base_url"}


def _names_at(path: Iterable[str]) -> tuple[str, ...]:
    """The fields of the model that a path leads to; keys and indexes of items in the path are skipped."""
    table: type[BaseModel] = Settings
    for each in path:
        field = table.model_fields.get(each)
        inner = [] if field is None else [field.annotation, *get_args(field.annotation)]
        table = next((kind for kind in inner if isinstance(kind, type) and issubclass(kind, BaseModel)), table)
    return tuple(table.model_fields)


def _origin(path: tuple[str, ...], workspace: Path, options: Mapping[str, object]) -> str:
    """The source of a setting's value, as the user would look for it."""
    variable = f"{PREFIX}{WITHIN.join(path).upper()}"
    if path[0] in options:
        return "option"
    if _is_in(EnvSettingsSource(Settings)(), path):
        return f"environment variable {variable}"
    if _is_in(dotenv_source(Settings, workspace)(), path):
        return f"{workspace / ENV_FILE}, {variable}"
    return str(workspace / SETTINGS_FILE)


def _is_in(values: object, path: tuple[str, ...]) -> bool:
    """Whether a source has a value at a path, or for something that contains the path."""
    for each in path:
        if not isinstance(values, Mapping):
            return True
        if each not in values:
            return False
        values = cast("Mapping[str, object]", values)[each]
    return True
