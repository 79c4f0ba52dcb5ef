"""What was asked of an `Ai`, as tests look at it, and whether what a test wrote down is an answer to it."""

from dataclasses import dataclass
from typing import Final

from goalport.ai import Determination, Interaction, Request
from goalport.ai.output_type import output_type
from goalport.llm import AssistantMessage, Message, UserMessage
from goalport.words import type_name, with_article

__all__ = ["LlmInvocation", "answer_to", "prompt_of", "value_of"]

_SHOWN: Final = 1_000
"""Characters of a prompt that an error shows."""


@dataclass(frozen=True, slots=True)
class LlmInvocation:
    """One thing that was asked of an `Ai`."""

    request: Request

    @property
    def prompt(self) -> str:
        """What the user said last; texts to embed, each on its line."""
        return prompt_of(self.request)

    @property
    def interaction(self) -> Interaction:
        """What it was asked with: `llm` (the options), `tools`, `tool_groups`, `contributors`, `id` and the rest."""
        return self.request.interaction

    @property
    def messages(self) -> tuple[Message, ...]:
        """All of the conversation, without the system prompt."""
        return self.request.messages

    @property
    def verb(self) -> str:
        """The method of `Ai` that was called, such as `create_object`, `generate_text`, `streaming` or `embed`."""
        return self.request.verb

    @property
    def output(self) -> object:
        """The type that was asked for; None: text, or vectors."""
        return self.request.output

    def __str__(self) -> str:
        wanted = "" if self.output is None else f" of {type_name(self.output)}"
        prompt = self.prompt if len(self.prompt) <= _SHOWN else f"{self.prompt[:_SHOWN]} …"
        asked = self.interaction
        settings = [f"{name}={value!r}" for name, value in asked.llm if name in asked.llm.model_fields_set]
        settings += [f"tool_groups={asked.tool_groups!r}"] if asked.tool_groups else []
        settings += [f"id={asked.id!r}"] if asked.id else []
        return f"{self.verb}{wanted} with the prompt {prompt!r}" + (f" ({', '.join(settings)})" if settings else "")


def prompt_of(request: Request) -> str:
    """The newest words of a user in a request; of one for vectors, its texts."""
    said = [each.content for each in request.messages if isinstance(each, UserMessage)]
    return "\n".join(said) if request.verb == "embed" else said[-1] if said else ""


def answer_to(request: Request, said: object) -> object:
    """What an `Ai` gives for what a test wrote down. Raises `AssertionError` when it is no answer to the request.

    A yes or no for a condition becomes a sure one; nothing else is turned into something that it is not.
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
    """What is a value of a type already. Raises `ValueError` when it is none; a yes or no is a sure `Determination`."""
    if isinstance(said, bool) and kind is Determination:
        return Determination(result=said, confidence=1, explanation="The test says so.")
    return output_type(kind).plain.validate_python(said, strict=True)


def _wrong(request: Request, said: object, expected: str) -> AssertionError:
    return AssertionError(
        f"Expected {expected} to answer {LlmInvocation(request)}, but the response for it is of type "
        f"{type(said).__name__}: {said!r}. Responses are used in the order in which they were given."
    )
