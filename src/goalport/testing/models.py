"""Models that answer by rules: a test defines the reply for each kind of prompt, and verifies the requests afterwards.

Pass `ScriptedModels` to a platform as its models; it has a model of any name that an action asks for. `LlmInvocation`,
a request to an `Ai` that tests inspect, is here too. User guide, section 3.26.2.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, Generic, Self, TypeVar, cast

from typing_extensions import TypeForm

from goalport.base.words import excerpt, type_name, with_article
from goalport.models.llm import (
    AssistantMessage,
    EmbeddingService,
    Message,
    ModelCall,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    UserMessage,
)
from goalport.runtime.ai import Determination, Interaction, Request
from goalport.runtime.ai.output_type import output_type
from goalport.testing.scripted import USAGE, ModelsOfAnyName, Script, Streamed

T = TypeVar("T")
PromptMatch = str | Callable[[str], bool]
"""A prompt, word for word, or a function that decides whether a prompt matches: `contains("fox")`, `str.isupper`."""
InteractionMatch = Callable[[Interaction], bool]
"""Decides whether settings match: `lambda asked: asked.llm.temperature == 0.9 and not asked.tool_groups`."""
_SHOWN: Final = 1_000
"""The most characters of a prompt that an error shows."""


class _Untyped(StrEnum):
    """What a request without an output type asks for."""

    TEXT = "text"
    VECTOR = "a vector"


class UnexpectedPrompt(AssertionError):
    """A model received a request for which the test has no rule."""


@dataclass(frozen=True, slots=True)
class LlmInvocation:
    """One request to an `Ai`."""

    request: Request = field(repr=False)
    interaction: Interaction = field(init=False)
    """The settings of the request: `llm` (options), `tools`, `tool_groups`, `contributors`, `id` and the rest."""
    messages: tuple[Message, ...] = field(init=False)
    """The whole conversation, without the system prompt."""
    verb: str = field(init=False)
    """The method of `Ai` that was called, such as `create_object`, `generate_text`, `streaming` or `embed`."""
    output: object = field(init=False)
    """The requested type; None: text, or vectors."""

    def __post_init__(self) -> None:
        for name in ("interaction", "messages", "verb", "output"):
            object.__setattr__(self, name, getattr(self.request, name))

    @property
    def prompt(self) -> str:
        """The user's last message; for embeddings, the texts, one per line."""
        said = [each.content for each in self.messages if isinstance(each, UserMessage)]
        return "\n".join(said) if self.verb == "embed" else said[-1] if said else ""

    def __str__(self) -> str:
        wanted = "" if self.output is None else f" of {type_name(self.output)}"
        asked = self.interaction
        settings = [f"{name}={value!r}" for name, value in asked.llm if name in asked.llm.model_fields_set]
        settings += [f"tool_groups={asked.tool_groups!r}"] if asked.tool_groups else []
        settings += [f"id={asked.id!r}"] if asked.id else []
        told = f" ({', '.join(settings)})" if settings else ""
        return f"{self.verb}{wanted} with the prompt {excerpt(self.prompt, _SHOWN)!r}{told}"


def checked_response(request: Request, response: object) -> object:
    """The value that an `Ai` returns for a prepared response. Raises `AssertionError` when it does not fit the request.

    For a condition, a bool becomes a `Determination` with confidence 1; nothing else is converted.
    """
    if request.output is None and isinstance(response, str | AssistantMessage):
        return response if isinstance(response, str) else response.content
    if request.output is not None and response is None and request.may_decline:
        return None
    cause: Exception | None = None
    if request.output is not None:
        try:
            return _value_of(request.output, response)
        except ValueError as error:
            cause = error
    expected = "a text" if request.output is None else with_article(request.output)
    raise AssertionError(
        f"Expected {expected} to answer {LlmInvocation(request)}, but the response for it is of type "
        f"{type(response).__name__}: {response!r}. Responses are used in the order in which they were given."
    ) from cause


def _value_of(kind: object, response: object) -> object:
    """A prepared value, checked to be of a type; a bool may become a `Determination`. Raises `ValueError`."""
    if isinstance(response, bool) and kind is Determination:
        return Determination(result=response, confidence=1, explanation="The test says so.")
    return output_type(kind).plain.validate_python(response, strict=True)


@dataclass(frozen=True, slots=True)
class _PromptPattern:
    """A matching function that can describe what it looks for."""

    words: str
    test: Callable[[str], bool] = field(repr=False)

    def __call__(self, prompt: str) -> bool:
        return self.test(prompt)


def contains(*texts: str) -> Callable[[str], bool]:
    """Matches prompts that contain each of these texts, in any order."""
    words = " and ".join(map(repr, texts))
    return _PromptPattern(f"a prompt that contains {words}", lambda prompt: all(each in prompt for each in texts))


def matches(pattern: str) -> Callable[[str], bool]:
    """Matches prompts in which a regular expression is found; a dot matches line breaks too."""
    found = re.compile(pattern, re.DOTALL)
    return _PromptPattern(f"a prompt that matches {pattern!r}", lambda prompt: found.search(prompt) is not None)


@dataclass(frozen=True, slots=True)
class RequestPattern:
    """Describes the requests that a rule or a verification matches."""

    prompt: PromptMatch
    kind: object
    """The requested type, or an `_Untyped`."""
    llm: InteractionMatch | None = None

    def matches(self, asked: LlmInvocation) -> bool:
        """Whether a request matches."""
        kind = _Untyped.VECTOR if asked.verb == "embed" else _Untyped.TEXT if asked.output is None else asked.output
        prompt = self.prompt
        fits = prompt == asked.prompt if isinstance(prompt, str) else bool(prompt(asked.prompt))
        return kind == self.kind and fits and (self.llm is None or bool(self.llm(asked.interaction)))

    def __str__(self) -> str:
        kind = self.kind if isinstance(self.kind, str) else with_article(self.kind)
        prompt: object = self.prompt
        words = f"a prompt for which {getattr(prompt, '__name__', repr(prompt))} says yes"
        if isinstance(prompt, str | _PromptPattern):
            words = f"the prompt {prompt!r}" if isinstance(prompt, str) else prompt.words
        return f"{kind}, with {words}" + (" and settings that are looked at" if self.llm else "")


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
            self._scripts.append(lambda request, said=value: _as_json(said, request))
        return self

    def then_stream(self, *pieces: T | ThinkingDelta | BaseException) -> Self:
        """Reply to one request with all of these, piece by piece; an exception breaks the stream off."""
        for each in pieces:
            if not isinstance(each, ThinkingDelta | BaseException):
                self._check(each)

        def script(request: Request) -> Script:
            end = "" if request.output is None else "\n"
            kept = (ThinkingDelta, BaseException)
            return Streamed(
                tuple(e if isinstance(e, kept) else TextDelta(f"{_as_json(e, request)}{end}") for e in pieces)
            )

        self._scripts.append(script)
        return self

    def then_raise(self, *errors: BaseException) -> Self:
        """Fail with these errors, one per request, as a provider does: `ModelUnavailable`, `ModelRefused`, …."""
        return self.then_reply(*errors)

    def then_reply(self, *scripts: Script) -> Self:
        """Reply with exactly this, one per request, as a `ScriptedModel` does: `calls_tool(…)`, or invalid JSON."""
        for script in scripts:
            self._scripts.append(lambda _, said=script: said)
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
        """Raise `AssertionError` unless a model can reply with the value: its type fits, and JSON preserves it."""
        kind = self.pattern.kind
        if isinstance(kind, str):
            kind = str if kind == _Untyped.TEXT else Sequence[float]
        elif value is None:
            return
        try:
            answer = _value_of(kind, value)
        except ValueError:
            raise AssertionError(f"Expected an answer for {self.pattern}, but came {value!r}.") from None
        plain, text = output_type(kind).plain, b""
        try:
            text = plain.dump_json(answer, by_alias=True)
            read = plain.validate_json(text)
            lost = "" if read == answer else f"is {text.decode()} in JSON, read as {read!r}"
        except ValueError as error:
            lost = f"cannot be read from what it is in JSON, {text.decode()}"
            lost = lost if text else f"cannot be written as JSON ({error})"
        if lost:
            raise AssertionError(
                f"Expected an answer for {self.pattern}, that a model can give, but {value!r} {lost}. "
                f"Say it in JSON: `then_reply({{…}})`."
            )


def _as_json(value: object, request: Request) -> Script:
    """A value in the form in which a model writes it."""
    if request.output is None:
        return value
    if value is None and request.may_decline:
        return {"result": None, "failure": "The test says that there is too little information."}
    if isinstance(value, bool):
        value = _value_of(request.output, value)
    shape = output_type(request.output, may_decline=request.may_decline)
    text = shape.plain.dump_json(value, by_alias=True).decode()
    return f'{{"result": {text}}}' if shape.wrapped else text


def _listed(lines: Iterable[object]) -> str:
    return "\n".join(f"- {each}" for each in lines) or "- nothing"


class ScriptedModels(ModelsOfAnyName):
    """`models.when_create_object(contains("a fox"), Story).then_return(Story("…"))`.

    Everything above a model runs for real: tools, guards, templates, binding and repair, budgets. If several rules
    match a prompt, the newest is used; a prompt without a rule raises `UnexpectedPrompt`. Pass it to a platform as
    `models`. `usage` is the tokens and the cost of each model request.
    """

    def __init__(self, *, usage: TokenUsage = USAGE) -> None:
        super().__init__(usage)
        self.calls: list[ModelCall] = []
        """The requests to models, with system prompt, tools and schema; the newest last."""
        self.llm_invocations: list[LlmInvocation] = []
        """The requests to an `Ai`, each of which may have caused several requests to a model; the newest last."""
        self._rules: list[Answers[object]] = []
        self._unexpected: list[LlmInvocation] = []
        self._verified: set[int] = set()

    def when_create_object(
        self, prompt: PromptMatch, kind: TypeForm[T], llm: InteractionMatch | None = None
    ) -> Answers[T]:
        """Define the reply when an object of exactly this type is asked for, by any method."""
        return cast("Answers[T]", self._rule(prompt, kind, llm))

    def when_generate_text(self, prompt: PromptMatch, llm: InteractionMatch | None = None) -> Answers[str]:
        """Define the reply when text is asked for: by `generate_text`, by `respond`, or as a stream."""
        return cast("Answers[str]", self._rule(prompt, _Untyped.TEXT, llm))

    def when_evaluate_condition(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None
    ) -> "Answers[bool | Determination]":
        """Define the result of evaluating a condition; the prompt contains the condition and the context."""
        return cast("Answers[bool | Determination]", self._rule(prompt, Determination, llm))

    def when_embed(self, text: PromptMatch) -> Answers[Sequence[float]]:
        """Define the vector of a text."""
        return cast("Answers[Sequence[float]]", self._rule(text, _Untyped.VECTOR))

    def verify_create_object_matching(
        self, prompt: PromptMatch, kind: TypeForm[T], llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless exactly `times` such requests asked for an object of this type."""
        self._verify(RequestPattern(prompt, kind, llm), times)

    def verify_generate_text_matching(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless exactly `times` such requests asked for text."""
        self._verify(RequestPattern(prompt, _Untyped.TEXT, llm), times)

    def verify_evaluate_condition_matching(
        self, prompt: PromptMatch, llm: InteractionMatch | None = None, *, times: int = 1
    ) -> None:
        """Raises `AssertionError` unless exactly `times` such conditions were evaluated."""
        self._verify(RequestPattern(prompt, Determination, llm), times)

    def verify_embed_matching(self, text: PromptMatch, *, times: int = 1) -> None:
        """Raises `AssertionError` unless such texts were embedded exactly `times` times."""
        self._verify(RequestPattern(text, _Untyped.VECTOR), times)

    def verify_no_more_interactions(self) -> None:
        """Raises `AssertionError` when there was a request that no verification has matched."""
        rest = [each for index, each in enumerate(self.llm_invocations) if index not in self._verified]
        if rest:
            raise AssertionError(f"Expected nothing else to be asked of a model, but this was:\n{_listed(rest)}")

    def verify_expected(self) -> None:
        """Raises `UnexpectedPrompt` when there was a request that no rule matches."""
        if self._unexpected:
            raise self._unexpected_prompt(self._unexpected)

    def script(self, call: ModelCall) -> Script:
        """The reply to a call. Raises `UnexpectedPrompt` when no rule matches."""
        self.calls.append(call)
        request = call.request
        if not isinstance(request, Request):  # a call that was made without an `Ai`
            request = Request(interaction=Interaction(llm=call.options), messages=call.messages, verb="reply")
        return self.script_for(request)

    def script_for(self, request: Request) -> Script:
        """Record a request, once for all its turns, and return its reply. Raises `UnexpectedPrompt` without a rule."""
        invocation = LlmInvocation(request)
        if all(each.request is not request for each in self.llm_invocations):
            self.llm_invocations.append(invocation)
        for each in reversed(self._rules):
            if each.applies_to(invocation):
                return each.next_script(request)
        self._unexpected.append(invocation)
        raise self._unexpected_prompt([invocation])

    def embedding(self, name: str = "") -> EmbeddingService:
        """An embedding service of that name."""
        return _Embedder(name or "scripted", self)

    def _rule(self, prompt: PromptMatch, kind: object, llm: InteractionMatch | None = None) -> Answers[object]:
        """Add a rule, which has no replies yet."""
        self._rules.append(Answers(RequestPattern(prompt, kind, llm)))
        return self._rules[-1]

    def _unexpected_prompt(self, asked: Iterable[LlmInvocation]) -> UnexpectedPrompt:
        told = f"A model was asked for what no rule is for:\n{_listed(asked)}"
        return UnexpectedPrompt(f"{told}\nThere are rules for:\n{_listed(self._rules)}")

    def _verify(self, pattern: RequestPattern, times: int) -> None:
        found = [index for index, each in enumerate(self.llm_invocations) if pattern.matches(each)]
        if len(found) != times:
            wanted, was = ({0: "never", 1: "once"}.get(each, f"{each} times") for each in (times, len(found)))
            raise AssertionError(
                f"Expected {pattern}, to be asked for {wanted}, but it was {was}. "
                f"What was asked for:\n{_listed(self.llm_invocations)}"
            )
        self._verified.update(found)


@dataclass(frozen=True, slots=True)
class _Embedder:
    """One of the embedding services; the rules are applied to each text separately."""

    name: str
    models: ScriptedModels
    dimensions: int | None = None

    async def embed(self, texts: Sequence[str], /) -> list[list[float]]:
        vectors: list[list[float]] = []
        for text in texts:
            asked = Interaction(embedding_service=self.name)
            found = self.models.script_for(Request(interaction=asked, messages=(UserMessage(text),), verb="embed"))
            if isinstance(found, BaseException):
                raise found
            vectors.append(list(cast("Sequence[float]", found)))
        return vectors
