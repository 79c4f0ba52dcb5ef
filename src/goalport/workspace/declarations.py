"""The decorators for settings, services, and extensions of goalport such as listeners, in the modules of a workspace.

They mark a class, or a function that returns the object, and return it unchanged. The platform, above, creates the
objects, and injects the parameters of constructors and functions.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

from pydantic import BaseModel

from goalport.agents.domain import inject
from goalport.base.introspection import Origin
from goalport.workspace.settings.settings import KNOWN_SETTINGS

F = TypeVar("F", bound=Callable[..., Any])
M = TypeVar("M", bound=BaseModel)
_ATTRIBUTE: Final = "__goalport_declared__"
_TABLE: Final = "__goalport_settings__"


@dataclass(frozen=True, slots=True)
class Declaration:
    """A class or function that decorators have marked."""

    target: Callable[..., Any]
    roles: tuple[str, ...]
    """The names of its decorators."""

    @property
    def origin(self) -> Origin:
        """The function, or the constructor of the class, with its annotations."""
        return Origin(self.target.__init__, self.target) if isinstance(self.target, type) else Origin(self.target)

    def hints(self) -> Mapping[str, object]:
        """The types of its parameters. Raises `DeclarationError` if an annotation names something unknown."""
        fields = self.origin.hints(self.target) if isinstance(self.target, type) else {}
        return {**fields, **self.origin.hints()}

    def __str__(self) -> str:
        """File, line and name, for the beginning of a message."""
        try:
            file, line = Path(inspect.getsourcefile(self.target) or ""), inspect.getsourcelines(self.target)[1]
        except (OSError, TypeError):
            return self.target.__qualname__
        return f"{file}:{line}: {self.target.__qualname__}"


class _Decorator:
    """Marks a class or a function, and returns it unchanged."""

    def __init__(self, role: str) -> None:
        self._role = role

    def __call__(self, target: F | None = None, /) -> F:
        if target is None:
            raise TypeError(f"@{self._role} takes no arguments. Write it without parentheses.")
        made: object = target
        if not (isinstance(made, type) or inspect.isfunction(made)):
            raise TypeError(f"@{self._role} marks classes and functions, but came to {target!r}. Mark what makes it.")
        setattr(target, _ATTRIBUTE, (*vars(target).get(_ATTRIBUTE, ()), self._role))
        if isinstance(made, type) and self._role == "service":
            inject(made)
        return target


service = _Decorator("service")
"""Marks what is injected by its type: a class, or a function with a return annotation. It is created once, at first
use; a generator function or a context manager is entered then, and exited when the server stops."""
listener = _Decorator("listener")
"""Marks a listener, which receives every event (`goalport.events.EventListener`)."""
guard = _Decorator("guard")
"""Marks a guard, which checks all that is sent to models and comes from them (`goalport.runtime.Guard`)."""
argument_resolver = _Decorator("argument_resolver")
"""Marks a resolver, which fills those parameters that it chooses (`goalport.runtime.ArgumentResolver`)."""
ranker = _Decorator("ranker")
"""Marks a ranker, which chooses agents and goals in place of a model (`goalport.runtime.Ranker`)."""


def declaration_of(value: object) -> Declaration | None:
    """The declaration of a class or function; None: it is not marked. A subclass does not inherit the mark."""
    if not (isinstance(value, type) or inspect.isfunction(value)):
        return None
    roles = vars(value).get(_ATTRIBUTE)
    return Declaration(value, roles) if roles else None


def settings(table: str) -> Callable[[type[M]], type[M]]:
    """Mark a pydantic model in `agents/`, `tools/` or `server/` as settings: `@settings("star_news")`.

    Its fields are filled from the table of that name in `server/settings.toml`, from variables such as
    `GOALPORT_STAR_NEWS__STORY_COUNT`, and from `.env`. It is injected into parameters of its type: of actions, and of
    constructors of agents and services. Raises `TypeError` for a name that a table cannot have.
    """
    if not isinstance(table, str) or not re.fullmatch(r"[a-z][a-z0-9_]*", table) or "__" in table:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(f'Expected the name of a table, but got {table!r}. Write @settings("star_news").')
    if table in (*KNOWN_SETTINGS, "workspace"):
        raise TypeError(f"Expected a table of your own, but {table!r} is a setting of goalport. Choose another name.")

    def mark(kind: type[M]) -> type[M]:
        if not (isinstance(kind, type) and issubclass(kind, BaseModel)):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"@settings marks pydantic models, but came to {kind!r}. Derive it from BaseModel.")
        setattr(kind, _TABLE, table)
        return inject(kind)

    return mark


def table_of(kind: object) -> str | None:
    """The table of a class that is marked as settings; None: it is not. A subclass does not inherit the mark."""
    return vars(kind).get(_TABLE) if isinstance(kind, type) else None
