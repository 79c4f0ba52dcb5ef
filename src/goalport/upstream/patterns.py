"""Patterns of tools' names, as configurations write them. Pure."""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

__all__ = ["any_matches", "matches"]

_GLOB = re.compile(r"[*?\[]")


def matches(pattern: str, server: str, name: str) -> bool:
    """Whether a pattern means a tool of a server by the name that the server gives it.

    `*`, `?` and `[…]` are as in file names; upper and lower case differ. A bare word means the tool of that name, and
    those whose names end in it: `weather` also means `get_weather`. In front of either, `SERVER/` means that server's.
    """
    own = pattern.removeprefix(f"{server}/")
    return any(_matches(each, name) for each in {pattern, own})


def any_matches(patterns: Iterable[str], server: str, name: str) -> bool:
    return any(matches(each, server, name) for each in patterns)


def _matches(pattern: str, name: str) -> bool:
    if _GLOB.search(pattern):
        return fnmatchcase(name, pattern)
    return bool(pattern) and name.endswith(pattern)
