"""Services for the validators of types that models are asked for. User guide, section 3.8.2 ("Validation").

Pydantic hands a validator what is given as its context; here that is a way to the services of the platform.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, TypeVar

__all__ = ["Services", "service_of"]

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Services:
    """The context of a validation."""

    find: Callable[[type], object | None]
    """The service of a type, or None."""


class _Validation(Protocol):
    """What pydantic tells a validator: its `ValidationInfo`."""

    @property
    def context(self) -> object: ...


def service_of(info: _Validation, kind: type[T]) -> T:
    """The platform's service of a type, for a validator of a type that a model is asked for.

    Raises ValueError, which the validation reports, where there is none: validated by other code than an `Ai` of a
    platform, `info.context` is no `Services`.
    """
    found = info.context.find(kind) if isinstance(info.context, Services) else None
    if not isinstance(found, kind):
        raise ValueError(f"There is no service of type {kind.__name__} here. Give it to AgentPlatform(services=[…])")  # noqa: TRY004 - pydantic takes it for a violation
    return found
