"""The rules by which scripted models answer, and the record of the requests.

Nothing here does I/O. Above: `models`, which tests use.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from typing import Generic, Self, TypeVar

from goalport.base.words import with_article
from goalport.models.llm import TextDelta, ThinkingDelta
from goalport.runtime.ai import Request
from goalport.runtime.ai.output_type import output_type
from goalport.testing.invocations import (
    InteractionMatch,
    LlmInvocation,
    PromptMatch,
    prompt_matches,
    value_of,
    words_of,
)
from goalport.testing.scripted import Script, Streamed

T = TypeVar("T")


class UnexpectedPrompt(AssertionError):
    """A model received a request for which the test has no rule."""


class PlainOutput(Enum):
    """What a request may ask for other than objects."""

    TEXT = "text"
    VECTOR = "a vector"


@dataclass(frozen=True, slots=True)
class RequestPattern:
    """Describes the requests that a rule or a verification matches."""

    prompt: PromptMatch
    kind: object
    """The requested type, or a member of `PlainOutput`."""
    llm: InteractionMatch | None = None

    def matches(self, invocation: LlmInvocation) -> bool:
        """Whether a request matches."""
        return (
            _output_of(invocation) == self.kind
            and prompt_matches(self.prompt, invocation.prompt)
            and (self.llm is None or bool(self.llm(invocation.interaction)))
        )

    @property
    def value_type(self) -> object:
        """The type of a reply."""
        match self.kind:
            case PlainOutput.TEXT:
                return str
            case PlainOutput.VECTOR:
                return Sequence[float]
            case kind:
                return kind

    def __str__(self) -> str:
        kind = self.kind.value if isinstance(self.kind, PlainOutput) else with_article(self.kind)
        return f"{kind}, with {words_of(self.prompt)}" + (" and settings that are looked at" if self.llm else "")


class Answers(Generic[T]):
    """The replies to matching requests, in order; the last one is repeated."""

    def __init__(self, pattern: RequestPattern) -> None:
        self.pattern = pattern
        self._scripts: list[Callable[[Request], Script]] = []
        self._used = 0

    def then_return(self, *values: T | None) -> Self:
        """Reply with these values, one per request; None: the model declines because it knows too little."""
        for value in values:
            self._check(value)
            self._scripts.append(partial(_as_json, value))
        return self

    def then_stream(self, *pieces: T | ThinkingDelta | BaseException) -> Self:
        """Reply to one request with all of these, piece by piece; an exception breaks the stream off."""
        for piece in pieces:
            if not isinstance(piece, ThinkingDelta | BaseException):
                self._check(piece)
        self._scripts.append(partial(_streamed, pieces))
        return self

    def then_raise(self, *errors: BaseException) -> Self:
        """Fail with these errors, one per request, as a provider does: `ModelUnavailable`, `ModelRefused`, …."""
        return self.then_reply(*errors)

    def then_reply(self, *scripts: Script) -> Self:
        """Reply with exactly this, one per request, as a `ScriptedModel` does: `calls_tool(…)`, or invalid JSON."""
        for script in scripts:
            self._scripts.append(partial(_unchanged, script))
        return self

    def applies_to(self, invocation: LlmInvocation) -> bool:
        """Whether these replies are for a request."""
        return bool(self._scripts) and self.pattern.matches(invocation)

    def __str__(self) -> str:
        return str(self.pattern) if self._scripts else f"{self.pattern} (no answer yet: add `.then_return(…)`)"

    def next_script(self, request: Request) -> Script:
        """The next reply to a request that matches."""
        script = self._scripts[min(self._used, len(self._scripts) - 1)]
        self._used += 1
        return script(request)

    def _check(self, value: object) -> None:
        if value is None and not isinstance(self.pattern.kind, PlainOutput):
            return
        kind = self.pattern.value_type
        try:
            answer = value_of(kind, value)
        except ValueError:
            raise AssertionError(f"Expected an answer for {self.pattern}, but came {value!r}.") from None
        if lost := _round_trip_problem(kind, answer):
            raise AssertionError(
                f"Expected an answer for {self.pattern}, that a model can give, but {value!r} {lost}. "
                f"Say it in JSON: `then_reply({{…}})`."
            )


@dataclass(slots=True)
class Rules:
    """All rules of a test, and the requests so far."""

    answers: list[Answers[object]] = field(default_factory=list[Answers[object]])
    """The newest rule that matches is used."""
    invocations: list[LlmInvocation] = field(default_factory=list[LlmInvocation])
    unexpected: list[LlmInvocation] = field(default_factory=list[LlmInvocation])
    _verified: set[int] = field(default_factory=set[int])

    def add(self, pattern: RequestPattern) -> Answers[object]:
        """Add a rule, which has no replies yet."""
        self.answers.append(Answers(pattern))
        return self.answers[-1]

    def note(self, request: Request) -> None:
        """Record a request once, however many turns it takes."""
        if all(each.request is not request for each in self.invocations):
            self.invocations.append(LlmInvocation(request))

    def script(self, request: Request) -> Script:
        """The reply to a request. Raises `UnexpectedPrompt` when no rule matches."""
        invocation = LlmInvocation(request)
        for each in reversed(self.answers):
            if each.applies_to(invocation):
                return each.next_script(request)
        self.unexpected.append(invocation)
        raise UnexpectedPrompt(self._unforeseen([invocation]))

    def verify(self, pattern: RequestPattern, times: int) -> None:
        """Raises `AssertionError` unless exactly `times` requests match."""
        found = [index for index, each in enumerate(self.invocations) if pattern.matches(each)]
        if len(found) != times:
            raise AssertionError(
                f"Expected {pattern}, to be asked for {_times(times)}, but it was {_times(len(found))}. "
                f"What was asked for:\n{_listed(self.invocations)}"
            )
        self._verified.update(found)

    def verify_rest(self) -> None:
        """Raises `AssertionError` when there was a request that no verification has matched."""
        rest = [each for index, each in enumerate(self.invocations) if index not in self._verified]
        if rest:
            raise AssertionError(f"Expected nothing else to be asked of a model, but this was:\n{_listed(rest)}")

    def verify_expected(self) -> None:
        """Raises `UnexpectedPrompt` when there was a request that no rule matches."""
        if self.unexpected:
            raise UnexpectedPrompt(self._unforeseen(self.unexpected))

    def _unforeseen(self, invocations: Iterable[LlmInvocation]) -> str:
        rules = _listed(self.answers)
        return f"A model was asked for what no rule is for:\n{_listed(invocations)}\nThere are rules for:\n{rules}"


def _output_of(invocation: LlmInvocation) -> object:
    """What a request asks for: a type, or a member of `PlainOutput`."""
    if invocation.verb == "embed":
        return PlainOutput.VECTOR
    return PlainOutput.TEXT if invocation.output is None else invocation.output


def _round_trip_problem(kind: object, value: object) -> str:
    """Why a value is not the same after a round trip through JSON; empty when it is."""
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


def _unchanged(script: Script, _request: Request) -> Script:
    return script


def _as_json(value: object, request: Request) -> Script:
    """A value in the form in which a model writes it."""
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


def _piece(value: object, request: Request) -> TextDelta | ThinkingDelta | BaseException:
    if isinstance(value, ThinkingDelta | BaseException):
        return value
    text = str(_as_json(value, request))
    return TextDelta(text if request.output is None else f"{text}\n")


def _times(times: int) -> str:
    return {0: "never", 1: "once"}.get(times, f"{times} times")


def _listed(lines: Iterable[object]) -> str:
    return "\n".join(f"- {each}" for each in lines) or "- nothing"
