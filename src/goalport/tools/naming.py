"""Naming strategies: how tools are renamed when they are published or put into a group.

A naming strategy is a function from name to name. It knows no tools and detects no clashes: its caller does. To add a
strategy without parameters, write its function and an entry in `NAMING_STYLES`, the values that the setting
`naming.style` of mcp_config.json may have.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from functools import reduce
from itertools import chain, count
from typing import Final

Naming = Callable[[str], str]

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9]")
_NOT_ACCEPTED = re.compile(r"[^A-Za-z0-9_-]")
_LONGEST: Final = 60


def identity(name: str) -> str:
    """The name, unchanged."""
    return name


def upper(name: str) -> str:
    """The name in capitals: `getWeather` becomes `GETWEATHER`."""
    return name.upper()


def lower(name: str) -> str:
    """The name in small letters: `getWeather` becomes `getweather`."""
    return name.lower()


def snake(name: str) -> str:
    """The name in snake case: `getWeather`, `get-weather` and `GetWeather` become `get_weather`."""
    words = _WORD_START.sub("_", name)
    return re.sub(r"[\s.\-]+", "_", words).lower()


NAMING_STYLES: Final[Mapping[str, Naming]] = {"identity": identity, "lower": lower, "upper": upper, "snake": snake}
"""The strategies that a configuration may name; the first is the default."""


def prefixed(prefix: str) -> Naming:
    """A naming that puts `prefix` in front: `prefixed("calc_")` makes `calc_add` of `add`."""
    return lambda name: f"{prefix}{name}"


def suffixed(suffix: str) -> Naming:
    """A naming that puts `suffix` behind: `suffixed("_v2")` makes `add_v2` of `add`."""
    return lambda name: f"{name}{suffix}"


def renamed(names: Mapping[str, str]) -> Naming:
    """A naming that renames the tools listed in `names` and keeps the names of all others."""
    chosen = dict(names)
    return lambda name: chosen.get(name, name)


def composed(*namings: Naming) -> Naming:
    """A naming that applies several in order, the first one first: `composed(prefixed("person_"), suffixed("_v2"))`."""
    return lambda name: reduce(lambda current, naming: naming(current), namings, name)


def reference_prefix(name: str) -> str:
    """The prefix of the tools of a reference called `name`: "My-API.v2" gives `my_api_v2_`.

    Whatever is not an ASCII letter or digit becomes an underscore, so that every MCP host accepts the names.
    """
    return f"{_NOT_PORTABLE.sub('_', name).lower()}_"


def distinct(names: Iterable[str]) -> list[str]:
    """Unique names that every model provider accepts: the second `make` becomes `make_2`."""
    found: list[str] = []
    for name in names:
        portable = _NOT_ACCEPTED.sub("_", name)[:_LONGEST] or "_"
        numbered = (f"{portable}_{number}" for number in count(2))
        found.append(next(each for each in chain((portable,), numbered) if each not in found))
    return found
