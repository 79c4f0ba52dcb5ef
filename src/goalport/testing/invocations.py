"""Requests to an `Ai`, as tests inspect them, and the check whether a prepared response fits a request."""

from dataclasses import dataclass
from typing import Final

from goalport.ai import Determination, Interaction, Request
from goalport.ai.output_type import output_type
from goalport.llm import AssistantMessage, Message, UserMessage
from goalport.words import excerpt, type_name, with_article

__all__ = ["LlmInvocation", "answer_to", "prompt_of", "value_of"]

_SHOWN: Final = 1_000
"""The most characters of a prompt that an error shows."""


@dataclass(frozen=True, slots=True)
class LlmInvocation:
    """One request to an `Ai`."""

    request: Request

    @property
    def prompt(self) -> str:
        """The user's last message; for embeddings, the texts, one per line."""
        return prompt_of(self.request)

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


def prompt_of(request: Request) -> str:
    """The user's last message in a request; for embeddings, the texts."""
    said = [each.content for each in request.messages if isinstance(each, UserMessage)]
    return "\n".join(said) if request.verb == "embed" else said[-1] if said else ""


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
