"""What stands above a prompt: the system prompt, made anew at each call of all that has something to say.

Pure but for those who contribute. Above: `LlmEngine`.
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
"""What a model is told that may decline."""


def all_messages(
    messages: Sequence[Message], interaction: Interaction, card: ModelCard, form: Sequence[str] = ()
) -> list[Message]:
    """All that goes to a model: the system prompt, what was said, and the images with the newest of the user's words.

    `form` are further texts for the system prompt, about the form of the answer.
    """
    parts = [part.strip() for part in (*_parts(interaction, card), *form)]
    text = "\n\n".join(part for part in parts if part)
    above = [SystemMessage(text)] if text else []
    return [*above, *_with_images(messages, interaction.images)]


def _parts(interaction: Interaction, card: ModelCard) -> Iterator[str]:
    yield interaction.system_prompt
    yield from card.contributors
    yield from map(contribution_of, interaction.contributors)
    for reference in interaction.references:
        yield _told_of(reference)
    if card.knowledge_cutoff:
        yield KnowledgeCutoffDate(card.knowledge_cutoff).contribution()


def _told_of(reference: LlmReference) -> str:
    lines = [f"Reference: {reference.name}", reference.description, reference.notes()]
    if reference.tools():
        lines.append(f"Its tools have names that begin with {reference_prefix(reference.name)}")
    return "\n".join(line for line in lines if line)


def _with_images(messages: Sequence[Message], images: tuple[Image, ...]) -> list[Message]:
    said = list(messages)
    if not images:
        return said
    for place in reversed(range(len(said))):
        message = said[place]
        if isinstance(message, UserMessage):
            said[place] = UserMessage(message.content, (*message.images, *images))
            return said
    return [*said, UserMessage("", images)]
