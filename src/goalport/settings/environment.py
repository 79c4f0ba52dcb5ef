"""What the environment of a server holds besides settings: the keys of providers, and which of its values are secret.

Below: `settings`. Above: the platform, which hides the secrets.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import cast

from dotenv import dotenv_values
from pydantic import BaseModel, SecretStr

from goalport.secrecy import passwords_in, secrets_in_environment
from goalport.settings.settings import ENV_FILE, Settings

__all__ = ["environment_of", "secrets_of"]


def environment_of(workspace: Path) -> Mapping[str, str]:
    """The variables of the environment, completed by the workspace's `.env` for those that are not set.

    Providers' keys are read from here. Nothing is put into the environment of this process, so no program it starts
    inherits a key from the file.
    """
    found = dotenv_values(workspace / ENV_FILE, encoding="utf-8") | os.environ
    return {name: value for name, value in found.items() if value}


def secrets_of(settings: Settings) -> Iterator[str]:
    """Every key and token in a server's settings, its environment and its `.env`."""
    yield from _secrets_in(settings)
    yield from secrets_in_environment(environment_of(settings.workspace))


def _secrets_in(value: object) -> Iterator[str]:
    match value:
        case SecretStr():
            yield value.get_secret_value()
        case str():
            yield from passwords_in(value)
        case BaseModel():
            yield from _secrets_in(vars(value))
        case Mapping():
            for each in cast("Mapping[object, object]", value).values():
                yield from _secrets_in(each)
        case tuple() | list():
            for each in cast("Sequence[object]", value):
                yield from _secrets_in(each)
        case _:
            pass
