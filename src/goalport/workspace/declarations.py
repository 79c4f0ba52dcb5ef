"""The decorators for what a workspace has besides agents and tools: settings, services, what extends goalport itself.

They mark a class, or a function that gives the object, and return it unchanged. Nothing is made here: the platform,
above, does, and passes to constructors and functions what they have parameters for.
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
    """A class or function that is marked, and as what."""

    target: Callable[..., Any]
    roles: tuple[str, ...]
    """The names of its decorators."""

    @property
    def origin(self) -> Origin:
        """What is called, with its annotations: the function, or the constructor of the class."""
        return Origin(self.target.__init__, self.target) if isinstance(self.target, type) else Origin(self.target)

    def hints(self) -> Mapping[str, object]:
        """The types of its parameters. Raises `DeclarationError` for an annotation that names nothing."""
        fields = self.origin.hints(self.target) if isinstance(self.target, type) else {}
        return {**fields, **self.origin.hints()}

    def __str__(self) -> str:
        """Where it is and what, as messages begin."""
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
"""What is injected by its type: a class, or a function that is annotated with what it gives. It is made once, when it
is first needed; a generator function or a context manager is entered then, and left when the server stops."""
listener = _Decorator("listener")
"""What hears every event (`goalport.events.EventListener`)."""
guard = _Decorator("guard")
"""What checks all that is sent to models and comes from them (`goalport.runtime.Guard`)."""
argument_resolver = _Decorator("argument_resolver")
"""What fills parameters of its own choice (`goalport.runtime.ArgumentResolver`)."""
ranker = _Decorator("ranker")
"""What chooses agents and goals in place of a model (`goalport.runtime.Ranker`)."""


def declaration_of(value: object) -> Declaration | None:
    """What a class or a function is marked as; a subclass is marked anew."""
    if not (isinstance(value, type) or inspect.isfunction(value)):
        return None
    roles = vars(value).get(_ATTRIBUTE)
    return Declaration(value, roles) if roles else None


def settings(table: str) -> Callable[[type[M]], type[M]]:
    """Mark a pydantic model in `agents/`, `tools/` or `server/` as settings: `@settings("star_news")`.

    Its fields are filled from the table of that name in `server/settings.toml`, from variables such as
    `GOALPORT_STAR_NEWS__STORY_COUNT`, and from `.env`. Constructors of agents, services and actions that have a
    parameter of its type are given it. Raises `TypeError` for a name that a table cannot have.
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
    """The table of a class that was marked itself; a subclass is marked anew."""
    return vars(kind).get(_TABLE) if isinstance(kind, type) else None
