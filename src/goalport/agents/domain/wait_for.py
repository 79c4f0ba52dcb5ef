"""`WaitFor`, which an action returns to wait for a person: the question, and the type of the answer.

Data: nothing here waits. The process asks, stores the question and binds the answer. (User guide, "Human in the loop".)
"""

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from types import NoneType
from typing import Annotated, Any, Final, Generic, TypeGuard, TypeVar, cast, get_args, get_origin
from urllib.parse import quote, urlsplit

from goalport.agents.blackboard import matcher
from goalport.agents.domain.checks import require_amount
from goalport.base.hosts import is_secure
from goalport.base.words import first_line, offer, type_name

_LONGEST = 3_000_000_000
"""Seconds after which a question expires at the latest: not quite a hundred years."""
_LABELS: Final = ("label", "name", "title")
_KEYS: Final = ("key", "id")

T = TypeVar("T")
P = TypeVar("P")


@dataclass(frozen=True)
class WaitFor(Generic[T]):
    """What an action returns to wait for a person: `-> WaitFor[Feedback]` has the effect of `Feedback`.

    Use `form_submission`, `confirmation`, `choice`, `input` or `url`. Subclass it if the answer has to be converted to
    the object that the next action needs: override `response_type` and `accept`.
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
        """The type of the person's answer. Raises `TypeError` if a subclass does not define it."""
        raise TypeError(f"{type(self).__name__} does not say what it waits for. Override response_type and accept.")

    def accept(self, response: Any) -> T | None:
        """The object made from an answer; None: the person said no.

        Raises `ValueError` for an answer that the person has to correct, and `TypeError` if a subclass does not define
        it.
        """
        raise TypeError(f"{type(self).__name__} does not say what an answer comes to. Override accept.")

    def asked_as(self, question_id: str, process_id: str) -> "WaitFor[T]":
        """The same question, with its id and its process's id filled in, if it uses them."""
        return self

    @staticmethod
    def form_submission(
        message: str, kind: type[P], *, prefill: P | None = None, expires_in: float | None = None
    ) -> "WaitFor[P]":
        """Ask for an object of a type, as a form of its fields.

        `message`: the question, in words for a person. `kind`: a dataclass or pydantic model. `prefill`: a draft of the
        object; its values are shown in the form, and are used for fields that the person does not change. `expires_in`:
        seconds after which the question counts as declined; None: never. Raises `TypeError` for an empty message, for a
        type that no form can be made of, and for a draft of another type.
        """
        return FormSubmission(message, kind, expires_in, prefill)

    @staticmethod
    def confirmation(payload: P, message: str, *, expires_in: float | None = None) -> "WaitFor[P]":
        """Ask a person to confirm an object; with a yes the object is put on the blackboard.

        `payload`: the object. `message`: the question, in words for a person. `expires_in`: seconds after which the
        question counts as declined; None: never. Raises `TypeError` for a message that is empty, and without an object.
        """
        return Confirmation(message, payload, expires_in)

    @staticmethod
    def choice(
        message: str,
        options: Iterable[P],
        kind: type[P],
        *,
        label: Callable[[P], str] | None = None,
        expires_in: float | None = None,
    ) -> "WaitFor[P]":
        """Ask a person to choose one of several objects; the answer is that object itself.

        `message`: the question, in words for a person. `options`: the objects; the answer names one by its `key` or
        `id`, if it has such an attribute, or by its label. `kind`: their type. `label`: returns the label of an option;
        by default its `label`, `name` or `title`, or its `str`. `expires_in`: seconds after which the question counts
        as declined; None: never. Raises `TypeError` for an empty message, for no options, for an option of another
        type, and for options with equal keys.
        """
        values, labels, keys = list(options), list[str](), list[str]()
        for value in values:
            named = (getattr(value, name, None) for name in _LABELS if not isinstance(value, str))
            own_label = next((each for each in named if isinstance(each, str) and each.strip()), str(value))
            labels.append(own_label if label is None else label(value))
            known = (getattr(value, name, None) for name in _KEYS)
            own_keys = (str(each) for each in known if isinstance(each, str | int) and str(each).strip())
            keys.append(next(own_keys, labels[-1]))
        times = Counter(labels)  # options with equal labels show their keys too
        described = (
            Option(key, text if times[text] == 1 or key == text else f"{text} ({key})", value)
            for key, text, value in zip(keys, labels, values, strict=True)
        )
        return Choice(message, tuple(described), kind, expires_in)

    @staticmethod
    def input(message: str, *, prefill: str = "", expires_in: float | None = None) -> "WaitFor[str]":
        """Ask for a text, which may not be empty.

        `message`: the question, in words for a person. `prefill`: a draft of the text. `expires_in`: seconds after
        which the question counts as declined; None: never. Raises `TypeError` for a message that is empty.
        """
        return TextInput(message, prefill, expires_in)

    @staticmethod
    def url(
        message: str, url: str, *, calls_back: bool = False, expires_in: float | None = None
    ) -> "WaitFor[VisitedUrl]":
        """Ask a person to do something at an address, for what must not pass through a model: a password, a payment.

        The answer is only whether it is done; a yes returns a `VisitedUrl`. `message`: what to do there, in words for a
        person. `url`: begins with `https://`, or with `http://` on this machine; `{question_id}` and `{process_id}` in
        it are replaced. `calls_back`: only the program that serves the page reports that it is done, by
        `AgentPlatform.answer`; otherwise the person does. `expires_in`: seconds after which the question counts as
        declined; None: never. Raises `TypeError` for an empty message, and for another address.
        """
        return UrlVisit(message, url, expires_in, calls_back)


@dataclass(frozen=True)
class FormSubmission(WaitFor[T]):
    """Ask for an object of a type."""

    kind: type[T]
    expires_in: float | None = None
    prefill: T | None = None
    """A draft of the object, whose values are the defaults of the form."""

    def __post_init__(self) -> None:
        super().__post_init__()
        from pydantic import TypeAdapter
        from pydantic.errors import PydanticUserError

        try:
            matcher(self.kind)
            is_type = cast("object", self.kind) not in (None, NoneType)
        except TypeError:
            is_type = False
        if not is_type:
            raise TypeError(f"Expected the type of the answer, but got {self.kind!r}. Write the class, without quotes.")
        try:
            TypeAdapter[Any](self.kind).json_schema()
        except (PydanticUserError, TypeError, NameError) as error:
            raise TypeError(
                f"Expected a type of which a form can be made, but {type_name(self.kind)} is none:"
                f" {first_line(str(error))} Use a dataclass or a pydantic model, or subclass WaitFor and make the"
                " object of what a person can send."
            ) from None
        if self.prefill is not None and not matcher(self.kind)(self.prefill):
            raise TypeError(f"Expected a draft of type {type_name(self.kind)}, but got {self.prefill!r}.")

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


@dataclass(frozen=True)
class Option(Generic[T]):
    """One of the objects between which a person chooses."""

    key: str
    """The key that an answer contains."""
    label: str
    """What the person reads."""
    value: T


@dataclass(frozen=True)
class Choice(WaitFor[T]):
    """Ask for one of some objects."""

    options: tuple[Option[T], ...]
    kind: type[T]
    expires_in: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.options:
            raise TypeError("Expected options to choose from, but there are none. Ask only where there is a choice.")
        fits = matcher(self.kind)
        for each in self.options:
            if not fits(each.value):
                raise TypeError(f"Expected options of type {type_name(self.kind)}, but got {each.value!r}.")
        key, times = Counter(each.key for each in self.options).most_common(1)[0]
        if times > 1:
            raise TypeError(
                f"Expected options that an answer can tell apart, but {times} of them are {key!r}. Give them an"
                " attribute `key` or `id`, or give label= a function whose texts differ."
            )

    @property
    def response_type(self) -> object:
        from pydantic import WithJsonSchema

        texts: dict[str, object] = {"type": "string"}
        if all(each.key == each.label for each in self.options):
            texts["enum"] = [each.key for each in self.options]
        else:
            texts["oneOf"] = [{"const": each.key, "title": each.label} for each in self.options]
        return Annotated[object, WithJsonSchema(texts)]

    def accept(self, response: object) -> T | None:
        return self.option(response).value

    def option(self, response: object) -> Option[T]:
        """The option that an answer names by key or label, or is itself. Raises `ValueError` if there is none."""
        if isinstance(response, str | int):
            text = str(response)
            by_key = [each for each in self.options if each.key == text]
            for found in (by_key, [each for each in self.options if each.label == text]):
                if len(found) == 1:
                    return found[0]
        for each in self.options:
            if each.value is response or (type(each.value) is type(response) and each.value == response):
                return each
        known = offer(str(response), (each.label for each in self.options))
        raise ValueError(f"should be one of the options; came {response!r}. {known}")


@dataclass(frozen=True)
class TextInput(WaitFor[str]):
    """Ask for a text."""

    prefill: str = ""
    expires_in: float | None = None

    @property
    def response_type(self) -> object:
        from pydantic import Field

        return Annotated[str, Field(min_length=1)]

    def accept(self, response: str) -> str | None:
        if not response.strip():
            raise ValueError("should be a text; came none")
        return response


@dataclass(frozen=True)
class VisitedUrl:
    """A person has done what they were asked to do at an address."""

    url: str


@dataclass(frozen=True)
class UrlVisit(WaitFor[VisitedUrl]):
    """Ask a person to do something at an address."""

    address: str
    expires_in: float | None = None
    calls_back: bool = False
    """Whether only the program that serves the page reports that it is done."""

    def __post_init__(self) -> None:
        super().__post_init__()
        is_address = bool(urlsplit(self.address).hostname) and self.address.isprintable() and " " not in self.address
        if not is_address or not is_secure(self.address):
            raise TypeError(f"Expected an address that begins with https://, but got {self.address!r}.")

    def asked_as(self, question_id: str, process_id: str) -> "UrlVisit":
        ids = {"{question_id}": question_id, "{process_id}": process_id}
        address = self.address
        for placeholder, value in ids.items():
            address = address.replace(placeholder, quote(value, safe=""))
        return replace(self, address=address)

    @property
    def response_type(self) -> object:
        return bool

    def accept(self, response: bool) -> VisitedUrl | None:  # noqa: FBT001 - the answer is what it is
        return VisitedUrl(self.address) if response else None


def promised(kind: object) -> object | None:
    """The type that a `WaitFor[T]`, or a subclass of one, promises; None for every other type."""
    if get_origin(kind) is not None and waits(get_origin(kind)):
        return get_args(kind)[0]
    if waits(kind):
        bases = cast("tuple[object, ...]", getattr(kind, "__orig_bases__", ()))
        return next((found for base in bases if (found := promised(base)) is not None), None)
    return None


def awaited(wait: WaitFor[Any]) -> object | None:
    """The type of the object that the answer leads to; None if it depends on the answer."""
    match wait:
        case FormSubmission() if type(cast("object", wait)) is FormSubmission:
            return wait.kind
        case Confirmation() if type(cast("object", wait)) is Confirmation:
            return type(cast("object", wait.payload))
        case Choice() if type(cast("object", wait)) is Choice:
            return wait.kind
        case _:
            kind = promised(type(wait))
            return None if isinstance(kind, TypeVar) else kind


def waits(kind: object) -> TypeGuard[type[WaitFor[Any]]]:
    """Whether a type is a question without the type of its answer."""
    return isinstance(kind, type) and issubclass(kind, WaitFor)
