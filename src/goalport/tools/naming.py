"""How tools are renamed on their way out.

A naming is a function from name to name. It knows no tool and no clash: whoever applies it looks for those.
"""

import re
from collections.abc import Callable, Mapping
from functools import reduce

__all__ = [
    "Naming",
    "composed",
    "identity",
    "lower",
    "prefixed",
    "reference_prefix",
    "renamed",
    "snake",
    "suffixed",
    "upper",
]

Naming = Callable[[str], str]

_WORD_START = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])")
_NOT_PORTABLE = re.compile(r"[^A-Za-z0-9]")


def identity(name: str) -> str:
    """The name as it is."""
    return name


def upper(name: str) -> str:
    return name.upper()


def lower(name: str) -> str:
    return name.lower()


def snake(name: str) -> str:
    """The name in snake case: `getWeather`, `get-weather` and `GetWeather` become `get_weather`."""
    words = _WORD_START.sub("_", name)
    return re.sub(r"[\s.\-]+", "_", words).lower()


def prefixed(prefix: str) -> Naming:
    """A naming that puts `prefix` in front: `prefixed("calc_")` makes `calc_add` of `add`."""
    return lambda name: f"{prefix}{name}"


def suffixed(suffix: str) -> Naming:
    """A naming that puts `suffix` behind: `suffixed("_v2")` makes `add_v2` of `add`."""
    return lambda name: f"{name}{suffix}"


def renamed(names: Mapping[str, str]) -> Naming:
    """A naming for single tools: those that `names` lists get the name there, the others keep theirs."""
    chosen = dict(names)
    return lambda name: chosen.get(name, name)


def composed(*namings: Naming) -> Naming:
    """One naming after the other, the first first: `composed(prefixed("person_"), suffixed("_v2"))`."""
    return lambda name: reduce(lambda current, naming: naming(current), namings, name)


def reference_prefix(name: str) -> str:
    """The prefix of the tools of a reference called `name`: "My-API.v2" gives `my_api_v2_`.

    Whatever is not an ASCII letter or digit becomes an underscore, so that the tools keep names that every host takes.
    """
    return f"{_NOT_PORTABLE.sub('_', name).lower()}_"
