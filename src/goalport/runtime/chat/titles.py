"""Titles of conversations: the first words of the first message, or a few words that a cheap model finds.

A model is asked beside the conversation, after its first reply, so that nobody waits for it; a title that a person gave
stays. Below: conversations. Above: the hooks of turns.
"""

import logging
from collections.abc import Sequence
from typing import Final

from goalport.base.errors import GoalportError
from goalport.base.words import excerpt, one_line
from goalport.runtime.ai import Ai
from goalport.runtime.chat.conversation import Conversation, ConversationMessage
from goalport.runtime.chat.conversations import Conversations

_log = logging.getLogger(__name__)
_LONGEST: Final = 60
"""The most characters of a title."""
_SHOWN: Final = 2_000
"""The most characters of a message that the model is shown."""
_INSTRUCTIONS: Final = (
    "You name conversations. Write a title of at most six words for the one below, in its language, without quotes and"
    " without a full stop. Write only the title."
)


def first_words(entries: Sequence[ConversationMessage]) -> str:
    """The beginning of what a person said first, in one line; empty as long as nobody was answered."""
    if not any(each.role == "assistant" for each in entries):
        return ""
    first = next((each.text for each in entries if each.role == "user" and each.text.strip()), "")
    return excerpt(one_line(first), _LONGEST)


async def better_title(conversation: Conversation, instead_of: str, conversations: Conversations, ai: Ai) -> None:
    """Let a model find a title, which takes the place of one that was made of words. A failure is only logged."""
    said = "\n\n".join(f"{each.role}: {excerpt(each.text, _SHOWN)}" for each in conversation.entries[:4])
    try:
        told = await ai.with_id("title").with_system_prompt(_INSTRUCTIONS).generate_text(said)
        title = excerpt(one_line(told).strip("\"'“” .#*"), _LONGEST)
        if title:
            await conversations.change(
                conversation, lambda record: record._replace(title=title) if record.title == instead_of else record
            )
    except GoalportError as error:
        _log.info("Conversation %s keeps the title %r: %s", conversation.id, instead_of, error)
