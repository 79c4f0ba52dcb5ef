"""Requests to an `Ai`: as tests inspect them, how prompts are matched, and whether a prepared response fits."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from goalport.base.words import excerpt, type_name, with_article
from goalport.models.llm import AssistantMessage, Message, UserMessage
from goalport.runtime.ai import Determination, Interaction, Request
from goalport.runtime.ai.output_type import output_type

PromptMatch = str | Callable[[str], bool]
"""A prompt, word for word, or a function that decides whether a prompt matches: `contains("fox")`, `str.isupper`."""

InteractionMatch = Callable[[Interaction], bool]
"""Decides whether settings match: `lambda asked: asked.llm.temperature == 0.9 and not asked.tool_groups`."""

_SHOWN: Final = 1_000
"""The most characters of a prompt that an error shows."""


@dataclass(frozen=True, slots=True)
class LlmInvocation:
    """One request to an `Ai`."""

    request: Request

    @property
    def prompt(self) -> str:
        """The user's last message; for embeddings, the texts, one per line."""
        said = [each.content for each in self.messages if isinstance(each, UserMessage)]
        return "\n".join(said) if self.verb == "embed" else said[-1] if said else ""

    @property
    def interaction(self) -> Interaction:
        """The settings of the request: `llm` (options), `tools`, `tool_groups`, `contributors`, `id` and the rest."""
        return self.request.interaction

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole conversation, without the system prompt."""
        return self.request.messages

    @property
    def verb(self) -> str:
        """The method of `Ai` that was called, such as `create_object`, `generate_text`, `streaming` or `embed`."""
        return self.request.verb

    @property
    def output(self) -> object:
        """The requested type; None: text, or vectors."""
        return self.request.output

    def __str__(self) -> str:
        wanted = "" if self.output is None else f" of {type_name(self.output)}"
        prompt = excerpt(self.prompt, _SHOWN)
        asked = self.interaction
        settings = [f"{name}={value!r}" for name, value in asked.llm if name in asked.llm.model_fields_set]
        settings += [f"tool_groups={asked.tool_groups!r}"] if asked.tool_groups else []
        settings += [f"id={asked.id!r}"] if asked.id else []
        return f"{self.verb}{wanted} with the prompt {prompt!r}" + (f" ({', '.join(settings)})" if settings else "")


def answer_to(request: Request, said: object) -> object:
    """The value that an `Ai` returns for a prepared response. Raises `AssertionError` when it does not fit the request.

    For a condition, a bool becomes a `Determination` without doubt; nothing else is converted.
    """
    if request.output is None:
        if isinstance(said, str | AssistantMessage):
            return said if isinstance(said, str) else said.content
        raise _wrong(request, said, "a text")
    if said is None and request.may_decline:
        return None
    try:
        return value_of(request.output, said)
    except ValueError as error:
        raise _wrong(request, said, with_article(request.output)) from error


def value_of(kind: object, said: object) -> object:
    """A prepared value, checked to be of a type; a bool may become a `Determination`. Raises `ValueError`."""
    if isinstance(said, bool) and kind is Determination:
        return Determination(result=said, confidence=1, explanation="The test says so.")
    return output_type(kind).plain.validate_python(said, strict=True)


def _wrong(request: Request, said: object, expected: str) -> AssertionError:
    return AssertionError(
        f"Expected {expected} to answer {LlmInvocation(request)}, but the response for it is of type "
        f"{type(said).__name__}: {said!r}. Responses are used in the order in which they were given."
    )


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


def prompt_matches(match: PromptMatch, prompt: str) -> bool:
    """Whether a prompt matches."""
    return match == prompt if isinstance(match, str) else bool(match(prompt))


def words_of(match: PromptMatch) -> str:
    """A description of the match, for an error message."""
    if isinstance(match, str):
        return f"the prompt {match!r}"
    if isinstance(match, _PromptPattern):
        return match.words
    return f"a prompt for which {getattr(match, '__name__', repr(match))} says yes"
