"""Parameters of a tool that no model fills: a process, a context, whatever is current where the tool is called.

A type says for itself that it is one of those, by its classmethod `__goalport_current__`, which gives what is current
or raises a `GoalportError` when nothing is. So the floors above bring their types, and this one knows none of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from types import UnionType
from typing import Annotated, Any, Union, cast, get_args, get_origin

from goalport.errors import GoalportError, ToolError
from goalport.words import with_article

__all__ = ["Injection", "injection_of"]

_CURRENT = "__goalport_current__"


@dataclass(frozen=True, slots=True)
class Injection:
    """How one parameter is filled at each call."""

    kind: type
    is_optional: bool
    """Whether None is right where nothing is current."""

    def value(self) -> object:
        """What is current. Raises `ToolError` when nothing is and the tool cannot do without."""
        current = cast("Callable[[], object]", getattr(self.kind, _CURRENT))
        try:
            found = current()
        except GoalportError as error:
            if self.is_optional:
                return None
            raise ToolError(f"The tool needs {with_article(self.kind)}: {error}") from error
        if found is None and not self.is_optional:
            raise ToolError(f"The tool needs {with_article(self.kind)}, and it was called where there is none.")
        return found


def injection_of(hint: Any) -> Injection | None:
    """How a parameter with this annotation is filled; None: by whoever calls."""
    if get_origin(hint) is Annotated:
        return injection_of(get_args(hint)[0])
    members = get_args(hint) if get_origin(hint) in {Union, UnionType} else (hint,)
    kinds = [each for each in members if each is not type(None)]
    if len(kinds) == 1 and isinstance(kinds[0], type) and hasattr(kinds[0], _CURRENT):
        return Injection(kinds[0], is_optional=len(kinds) < len(members))
    return None
