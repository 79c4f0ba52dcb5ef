"""The decorator `@settings`: a class of a workspace says what can be set in a table of its name.

It marks the class and returns it unchanged. Above: `loading` fills such classes, and the workspace finds them.
"""

import re
from collections.abc import Callable
from typing import TypeVar

from pydantic import BaseModel

from goalport.agents.domain import inject
from goalport.workspace.settings.settings import known_settings

M = TypeVar("M", bound=BaseModel)
_ATTRIBUTE = "__goalport_settings__"


def settings(table: str) -> Callable[[type[M]], type[M]]:
    """Mark a pydantic model in `agents/`, `tools/` or `server/` as settings: `@settings("star_news")`.

    Its fields are filled from the table of that name in `server/settings.toml`, from variables such as
    `GOALPORT_STAR_NEWS__STORY_COUNT`, and from `.env`. Constructors of agents, services and actions that have a
    parameter of its type are given it. Raises `TypeError` for a name that a table cannot have.
    """
    if not isinstance(table, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", table) or "__" in table:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'Expected the name of a table, but got {table!r}. Write @settings("star_news").')
    if table in (*known_settings(), "workspace"):
        raise TypeError(f"Expected a table of your own, but {table!r} is a setting of goalport. Choose another name.")

    def mark(kind: type[M]) -> type[M]:
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"@settings marks pydantic models, but came to {kind!r}. Derive it from BaseModel.")
        setattr(kind, _ATTRIBUTE, table)
        return inject(kind)

    return mark


def table_of(kind: object) -> str | None:
    """The table of a class that was marked itself; a subclass is marked anew."""
    return vars(kind).get(_ATTRIBUTE) if isinstance(kind, type) else None
