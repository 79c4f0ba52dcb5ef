"""The rules by which scripted models answer, and the record of what they were asked.

Pure. Above: `models` is what tests hold.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Generic, Self, TypeVar

from goalport.ai import Request
from goalport.ai.output_type import output_type
from goalport.llm import TextDelta, ThinkingDelta
from goalport.testing.invocations import LlmInvocation, value_of
from goalport.testing.prompts import InteractionMatch, PromptMatch, prompt_matches, words_of
from goalport.testing.scripted import Script, Streamed
from goalport.words import with_article

__all__ = ["Answers", "Beside", "Rules", "UnexpectedPrompt", "Wanted"]

T = TypeVar("T")


class UnexpectedPrompt(AssertionError):
    """A model was asked for something that no rule of a test is for."""


class Beside(Enum):
    """What is asked for beside objects."""

    TEXT = "text"
    VECTOR = "a vector"


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which requests are meant."""

    prompt: PromptMatch
    kind: object
    """A type, or what there is `Beside` objects."""
    llm: InteractionMatch | None = None

    def is_met_by(self, asked: LlmInvocation) -> bool:
        """Whether a request is one of these."""
        return (
            asked_for(asked) == self.kind
            and prompt_matches(self.prompt, asked.prompt)
            and (self.llm is None or bool(self.llm(asked.interaction)))
        )

    @property
    def value_type(self) -> object:
        """The type of an answer."""
        match self.kind:
            case Beside.TEXT:
                return str
            case Beside.VECTOR:
                return Sequence[float]
            case kind:
                return kind

    def __str__(self) -> str:
        kind = self.kind.value if isinstance(self.kind, Beside) else with_article(self.kind)
        return f"{kind}, with {words_of(self.prompt)}" + (" and settings that are looked at" if self.llm else "")


class Answers(Generic[T]):
    """What a model says to such prompts, in order; the last is said again and again."""

    def __init__(self, wanted: Wanted) -> None:
        self.wanted = wanted
        self._scripts: list[Callable[[Request], Script]] = []
        self._used = 0

    def then_return(self, *values: T | None) -> Self:
        """Give these, one each time; None: the model says that it knows too little."""
        for value in values:
            self._check(value)
            self._scripts.append(partial(_written, value))
        return self

    def then_stream(self, *pieces: T | ThinkingDelta | BaseException) -> Self:
        """Give all of these at one time, piece by piece; an exception breaks the stream off."""
        for piece in pieces:
            if not isinstance(piece, ThinkingDelta | BaseException):
                self._check(piece)
        self._scripts.append(partial(_streamed, pieces))
        return self

    def then_raise(self, *errors: BaseException) -> Self:
        """Fail with these, one each time, as a provider does: `ModelUnavailable`, `ModelRefused`, …."""
        return self.then_reply(*errors)

    def then_reply(self, *scripts: Script) -> Self:
        """Say just this, one each time, as a `ScriptedModel` does: `calls_tool(…)`, JSON that breaks rules."""
        for script in scripts:
            self._scripts.append(partial(_said, script))
        return self

    def is_for(self, asked: LlmInvocation) -> bool:
        """Whether there is an answer here to what is asked."""
        return bool(self._scripts) and self.wanted.is_met_by(asked)

    def __str__(self) -> str:
        return str(self.wanted) if self._scripts else f"{self.wanted} (no answer yet: add `.then_return(…)`)"

    def next_script(self, request: Request) -> Script:
        """What is said now to a request that this is for."""
        script = self._scripts[min(self._used, len(self._scripts) - 1)]
        self._used += 1
        return script(request)

    def _check(self, value: object) -> None:
        if value is None and not isinstance(self.wanted.kind, Beside):
            return
        kind = self.wanted.value_type
        try:
            answer = value_of(kind, value)
        except ValueError:
            raise AssertionError(f"Expected an answer for {self.wanted}, but came {value!r}.") from None
        if lost := _lost(kind, answer):
            raise AssertionError(
                f"Expected an answer for {self.wanted}, that a model can give, but {value!r} {lost}. "
                f"Say it in JSON: `then_reply({{…}})`."
            )


@dataclass(slots=True)
class Rules:
    """All rules of a test, and what was asked so far."""

    answers: list[Answers[object]] = field(default_factory=list[Answers[object]])
    """The newest that is meant counts."""
    asked: list[LlmInvocation] = field(default_factory=list[LlmInvocation])
    unexpected: list[LlmInvocation] = field(default_factory=list[LlmInvocation])
    _verified: set[int] = field(default_factory=set[int])

    def add(self, wanted: Wanted) -> Answers[object]:
        """A new rule, still without an answer."""
        self.answers.append(Answers(wanted))
        return self.answers[-1]

    def note(self, request: Request) -> None:
        """Remember what was asked, once, however many turns it takes."""
        if all(each.request is not request for each in self.asked):
            self.asked.append(LlmInvocation(request))

    def script(self, request: Request) -> Script:
        """What is said to a request. Raises `UnexpectedPrompt`."""
        asked = LlmInvocation(request)
        for each in reversed(self.answers):
            if each.is_for(asked):
                return each.next_script(request)
        self.unexpected.append(asked)
        raise UnexpectedPrompt(self._unforeseen([asked]))

    def verify(self, wanted: Wanted, times: int) -> None:
        """Raises `AssertionError` unless this was asked just so often."""
        found = [index for index, each in enumerate(self.asked) if wanted.is_met_by(each)]
        if len(found) != times:
            raise AssertionError(
                f"Expected {wanted}, to be asked for {_often(times)}, but it was {_often(len(found))}. "
                f"What was asked for:\n{_listed(self.asked)}"
            )
        self._verified.update(found)

    def verify_rest(self) -> None:
        """Raises `AssertionError` when something was asked that no verification was about."""
        rest = [each for index, each in enumerate(self.asked) if index not in self._verified]
        if rest:
            raise AssertionError(f"Expected nothing else to be asked of a model, but this was:\n{_listed(rest)}")

    def verify_expected(self) -> None:
        """Raises `UnexpectedPrompt` when something was asked that no rule is for."""
        if self.unexpected:
            raise UnexpectedPrompt(self._unforeseen(self.unexpected))

    def _unforeseen(self, asked: Iterable[LlmInvocation]) -> str:
        rules = _listed(self.answers)
        return f"A model was asked for what no rule is for:\n{_listed(asked)}\nThere are rules for:\n{rules}"


def asked_for(asked: LlmInvocation) -> object:
    """What a request is for: a type, or what there is `Beside` objects."""
    if asked.verb == "embed":
        return Beside.VECTOR
    return Beside.TEXT if asked.output is None else asked.output


def _lost(kind: object, value: object) -> str:
    """What becomes of a value on its way through JSON, if it does not come out as it was."""
    plain = output_type(kind).plain
    try:
        text = plain.dump_json(value, by_alias=True)
    except ValueError as error:
        return f"cannot be written as JSON ({error})"
    try:
        read = plain.validate_json(text)
    except ValueError:
        return f"cannot be read from what it is in JSON, {text.decode()}"
    return "" if read == value else f"is {text.decode()} in JSON, read as {read!r}"


def _said(script: Script, _request: Request) -> Script:
    return script


def _written(value: object, request: Request) -> Script:
    """A value as a model writes it."""
    if request.output is None:
        return value
    if value is None and request.may_decline:
        return {"result": None, "failure": "The test says that there is too little information."}
    if isinstance(value, bool):
        value = value_of(request.output, value)
    shape = output_type(request.output, may_decline=request.may_decline)
    text = shape.plain.dump_json(value, by_alias=True).decode()
    return f'{{"result": {text}}}' if shape.wrapped else text


def _streamed(pieces: Iterable[object], request: Request) -> Script:
    return Streamed(tuple(_piece(each, request) for each in pieces))


def _piece(said: object, request: Request) -> TextDelta | ThinkingDelta | BaseException:
    if isinstance(said, ThinkingDelta | BaseException):
        return said
    text = str(_written(said, request))
    return TextDelta(text if request.output is None else f"{text}\n")


def _often(times: int) -> str:
    return {0: "never", 1: "once"}.get(times, f"{times} times")


def _listed(lines: Iterable[object]) -> str:
    return "\n".join(f"- {each}" for each in lines) or "- nothing"
