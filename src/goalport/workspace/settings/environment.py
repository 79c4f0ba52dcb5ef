"""What the environment of a server holds besides settings: the keys of providers, and which of its values are secret.

Below: `settings`. Above: the platform, which hides the secrets.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import cast

from dotenv import dotenv_values
from pydantic import BaseModel, SecretStr

from goalport.base.secrecy import passwords_in, secrets_in_environment
from goalport.models.llm.providers import PROVIDERS
from goalport.workspace.settings.settings import ENV_FILE, PREFIX, Settings


def share_environment(workspace: Path) -> None:
    """Put the workspace's `.env` into the environment of this process, for the modules that are about to be loaded.

    What is set there stays, and goalport's own variables and the keys of models' providers are left out: goalport reads
    these from the file, and no program that it starts inherits them.
    """
    keys = {each.key for each in PROVIDERS.values()}
    with suppress(UnicodeDecodeError):  # which is said when the settings are read
        for name, value in dotenv_values(workspace / ENV_FILE, encoding="utf-8").items():
            if value and not name.startswith(PREFIX) and name not in keys:
                os.environ.setdefault(name, value)


def environment_of(workspace: Path) -> Mapping[str, str]:
    """The variables of the environment, completed by the workspace's `.env` for those that are not set.

    Providers' keys are read from here.
    """
    found = dotenv_values(workspace / ENV_FILE, encoding="utf-8") | os.environ
    return {name: value for name, value in found.items() if value}


def secrets_of(settings: Settings) -> Iterator[str]:
    """Every key and token in a server's settings, its environment and its `.env`."""
    yield from secrets_in(settings)
    yield from secrets_in_environment(environment_of(settings.workspace))


def secrets_in(value: object) -> Iterator[str]:
    """Every key and token in a setting, or in several."""
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case str():
            yield from passwords_in(value)
        case BaseModel():
            yield from secrets_in(vars(value))
        case Mapping():
            for each in cast("Mapping[object, object]", value).values():
                yield from secrets_in(each)
        case tuple() | list():
            for each in cast("Sequence[object]", value):
                yield from secrets_in(each)
        case _:
            pass
