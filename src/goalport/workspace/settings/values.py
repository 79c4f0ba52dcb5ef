"""The values of settings: how each kind is written in a file or in a variable, and what it may be.

A variable of the environment is text, so lists and tables are read from it. Above: the settings that have these values.
"""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    ByteSize,
    Discriminator,
    Field,
    SecretStr,
    Tag,
    TypeAdapter,
    WithJsonSchema,
)

from goalport.store.postgres import PostgresAddress


def listed(value: object) -> object:
    """A list from an environment variable: JSON, or values separated by commas. Raises `ValueError`."""
    if not isinstance(value, str):
        return value
    if value.lstrip().startswith("["):
        try:
            return json.loads(value)
        except json.JSONDecodeError as error:
            raise ValueError(f"should be a JSON list or separated by commas ({error.msg})") from None
    return [part.strip() for part in value.split(",") if part.strip()]


def read_table(value: object) -> object:
    """A table from an environment variable, as JSON. Raises `ValueError`."""
    try:
        return json.loads(value) if isinstance(value, str) else value
    except json.JSONDecodeError as error:
        raise ValueError(f"should be a JSON object ({error.msg})") from None


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


def _size(value: object) -> object:
    if isinstance(value, str) and not re.fullmatch(r"\s*[\d.]+\s*\w*\s*", value):  # pydantic ignores what follows
        raise ValueError("should be a number of bytes, or a number with a unit such as MiB")
    return TypeAdapter(ByteSize).validate_python(value)


def _place(value: str, *names: str) -> str:
    """The name of a place, or a URL. Raises `ValueError`."""
    if value not in names:
        if "://" not in value:
            known = ", ".join(f"`{each}`" for each in names)
            raise ValueError(f"should be {known} or the URL of a PostgreSQL database")
        PostgresAddress(value)
    return value


Words = Annotated[tuple[str, ...], BeforeValidator(listed)]
Paths = Annotated[tuple[Path, ...], BeforeValidator(listed)]
Secrets = Annotated[tuple[SecretStr, ...], BeforeValidator(listed)]
LogLevel = Annotated[Literal["debug", "info", "warning", "error", "critical"], BeforeValidator(_lower)]
Personality = Annotated[
    Literal["", "starwars", "severance", "colossus", "hitchhiker", "montypython"], BeforeValidator(_lower)
]
Seconds = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Count = Annotated[int, Field(ge=1)]
WorkerCount = Annotated[
    Annotated[Count, Tag("number")] | Annotated[Literal["auto"], Tag("auto")],
    Discriminator(lambda value: "auto" if value == "auto" else "number"),
]
"""A number of processes; `auto`: as many as there are cores for them."""
Delay = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Size = Annotated[
    int,
    BeforeValidator(_size),
    Field(ge=1),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "string"}]}),
]
StorePlace = Annotated[str, AfterValidator(lambda value: _place(value, "memory", "sqlite"))]
DocumentsPlace = Annotated[str, AfterValidator(lambda value: _place(value, "sqlite"))]
ScopeTable = Annotated[Mapping[str, tuple[str, ...]], BeforeValidator(read_table)]
Table = BeforeValidator(read_table)
