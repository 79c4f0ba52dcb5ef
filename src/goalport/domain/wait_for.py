"""`WaitFor`, which an action returns to wait for a person: what is asked, and of which type the answer is.

Data: nothing here waits. The process asks, keeps the question and binds the answer. (User guide, "Human in the loop".)
"""

from dataclasses import dataclass
from types import NoneType
from typing import Any, Generic, TypeVar, cast, get_args, get_origin

from goalport.blackboard import matcher
from goalport.domain.checks import require_amount
from goalport.words import first_line, type_name

__all__ = ["Confirmation", "FormSubmission", "WaitFor", "awaited", "promised"]

_LONGEST = 3_000_000_000
"""Seconds after which a question expires at the latest: not quite a hundred years."""

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True)
class WaitFor(Generic[T]):
    """What an action returns to wait for a person: `-> WaitFor[Feedback]` has the effect of `Feedback`.

    Use `WaitFor.form_submission` or `WaitFor.confirmation`. Subclass it where the answer has to be translated into what
    the next action needs: override `response_type` and `accept`.
    """

    message: str
    """The question, in words for a person."""

    expires_in = None
    """Seconds after which the question counts as declined; None: never."""

    def __post_init__(self) -> None:
        if not isinstance(self.message, str) or not self.message.strip():  # pyright: ignore[reportUnnecessaryIsInstance]
            raise TypeError(f"Expected a question in words, but got {self.message!r}. Write what a person is to read.")
        if self.expires_in is not None:
            require_amount("expires_in", self.expires_in, "None, for never, or a number of seconds", most=_LONGEST)

    @property
    def response_type(self) -> object:
        """The type of what the person sends. Raises `TypeError` where a subclass does not say it."""
        raise TypeError(f"{type(self).__name__} does not say what it waits for. Override response_type and accept.")

    def accept(self, response: Any) -> T | None:
        """The object that an answer gives; None: the person said no.

        Raises `ValueError` for an answer that the person has to correct, and `TypeError` where a subclass does not say
        what an answer gives.
        """
        raise TypeError(f"{type(self).__name__} does not say what an answer comes to. Override accept.")

    @staticmethod
    def form_submission(message: str, kind: type[P], *, expires_in: float | None = None) -> "WaitFor[P]":
        """Ask for an object of a type, as a form of its fields.

        `message`: the question, in words for a person. `kind`: a dataclass or pydantic model. `expires_in`: seconds
        after which the question counts as declined; None: never. Raises `TypeError` for a message that is empty, and
        for a type of which no form can be made.
        """
        return FormSubmission(message, kind, expires_in)

    @staticmethod
    def confirmation(payload: P, message: str, *, expires_in: float | None = None) -> "WaitFor[P]":
        """Ask for a yes to an object that is there already; with a yes it goes on the blackboard.

        `payload`: the object. `message`: the question, in words for a person. `expires_in`: seconds after which the
        question counts as declined; None: never. Raises `TypeError` for a message that is empty, and without an object.
        """
        return Confirmation(message, payload, expires_in)


@dataclass(frozen=True)
class FormSubmission(WaitFor[T]):
    """Ask for an object of a type."""

    kind: type[T]
    expires_in: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        _refuse_formless(self.kind)

    @property
    def response_type(self) -> object:
        return self.kind

    def accept(self, response: T) -> T | None:
        return response


@dataclass(frozen=True)
class Confirmation(WaitFor[T]):
    """Ask for a yes or a no."""

    payload: T
    expires_in: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.payload is None:
            raise TypeError("Expected an object that a person agrees to, but got None. Give what a yes shall come to.")

    @property
    def response_type(self) -> object:
        return bool

    def accept(self, response: bool) -> T | None:  # noqa: FBT001 - the answer is what it is
        return self.payload if response else None


def promised(kind: object) -> object | None:
    """The type that a `WaitFor[T]`, or a subclass of one, promises; None for every other type."""
    if get_origin(kind) is not None and _waits(get_origin(kind)):
        return get_args(kind)[0]
    if _waits(kind):
        bases = cast("tuple[object, ...]", getattr(kind, "__orig_bases__", ()))
        return next((found for base in bases if (found := promised(base)) is not None), None)
    return None


def awaited(wait: WaitFor[Any]) -> object | None:
    """The type of the object that an answer gives; None where only the answer itself tells."""
    match wait:
        case FormSubmission() if type(cast("object", wait)) is FormSubmission:
            return wait.kind
        case Confirmation() if type(cast("object", wait)) is Confirmation:
            return type(cast("object", wait.payload))
        case _:
            kind = promised(type(wait))
            return None if isinstance(kind, TypeVar) else kind


def _refuse_formless(kind: object) -> None:
    """Raise `TypeError` unless there can be a form of a type."""
    from pydantic import TypeAdapter
    from pydantic.errors import PydanticUserError

    try:
        matcher(kind)
        expected = kind not in (None, NoneType)
    except TypeError:
        expected = False
    if not expected:
        raise TypeError(f"Expected the type of the answer, but got {kind!r}. Write the class, without quotes.")
    try:
        TypeAdapter[Any](cast("type", kind)).json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        reason = first_line(str(error))
        raise TypeError(
            f"Expected a type of which a form can be made, but {type_name(kind)} is none: {reason} Use a dataclass or"
            " a pydantic model, or subclass WaitFor and make the object of what a person can send."
        ) from None


def _waits(kind: object) -> bool:
    return isinstance(kind, type) and issubclass(kind, WaitFor)
