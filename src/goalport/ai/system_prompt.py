"""The system prompt, which is put together at each call: from the interaction, its contributors and its references.

Above: `LlmEngine`.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from goalport.ai.interaction import Interaction
from goalport.llm import Image, Message, ModelCard, SystemMessage, UserMessage
from goalport.prompts import KnowledgeCutoffDate, contribution_of
from goalport.references import LlmReference
from goalport.tools import reference_prefix

__all__ = ["MAYBE", "all_messages"]

MAYBE: Final = (
    "You may not have enough information to give what is asked for. Then make nothing up: "
    "leave the result null, and say in `failure` what information is missing."
)
"""The instruction to a model that may decline, unless the settings name a template for it."""


def all_messages(
    messages: Sequence[Message], interaction: Interaction, card: ModelCard, form: Sequence[str] = ()
) -> list[Message]:
    """The messages to a model: the system prompt, then the conversation, with the images in its newest user message.

    `form` holds further texts for the system prompt, about the form of the answer.
    """
    parts = [part.strip() for part in (*_parts(interaction, card), *form)]
    text = "\n\n".join(part for part in parts if part)
    system = [SystemMessage(text)] if text else []
    return [*system, *_with_images(messages, interaction.images)]


def _parts(interaction: Interaction, card: ModelCard) -> Iterator[str]:
    yield interaction.system_prompt
    yield from card.contributors
    yield from map(contribution_of, interaction.contributors)
    for reference in interaction.references:
        yield _described(reference)
    if card.knowledge_cutoff:
        yield KnowledgeCutoffDate(card.knowledge_cutoff).contribution()


def _described(reference: LlmReference) -> str:
    lines = [f"Reference: {reference.name}", reference.description, reference.notes()]
    if reference.tools():
        lines.append(f"Its tools have names that begin with {reference_prefix(reference.name)}")
    return "\n".join(line for line in lines if line)


def _with_images(messages: Sequence[Message], images: tuple[Image, ...]) -> list[Message]:
    conversation = list(messages)
    if not images:
        return conversation
    for place in reversed(range(len(conversation))):
        message = conversation[place]
        if isinstance(message, UserMessage):
            conversation[place] = UserMessage(message.content, (*message.images, *images))
            return conversation
    return [*conversation, UserMessage("", images)]
