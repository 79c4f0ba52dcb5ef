"""Comparing the history that a client sends with the one that is stored: is it continued, edited, or unknown?

Clients such as those of OpenAI's API send the whole conversation each time. Pure functions over messages.
"""

from collections.abc import Sequence
from itertools import islice, takewhile
from typing import NamedTuple

from goalport.chat.messages import REPLY_SEPARATOR, ConversationMessage, role_of
from goalport.llm import AssistantMessage, Message, SystemMessage, UserMessage

__all__ = ["HistoryMatch", "compare"]


class HistoryMatch(NamedTuple):
    """How a history that was given goes on from what is stored."""

    after: str
    """The id of the last message that both have; empty: not even the first one is the same."""
    tail: tuple[Message, ...]
    """What was given after that, oldest first. Empty: it ends with a message that is stored."""
    forks: bool
    """Whether the stored conversation goes on differently after that: something was edited or is answered anew."""

    @property
    def regenerates(self) -> bool:
        """Whether what was given ends with a message of a person that was answered before: another reply is wanted."""
        return self.forks and not self.tail


def compare(entries: Sequence[ConversationMessage], given: Sequence[Message]) -> HistoryMatch:
    """Compare the messages of a stored branch with those that a client gives. Instructions (`system`) do not count.

    Messages are the same if their roles are, and their texts but for white space at the ends, and their images. Several
    messages of a chatbot in a row are the same as one that shows them all.
    """
    stored = [each for each in entries if each.role != "system"]
    said = [each for each in given if not isinstance(each, SystemMessage)]
    agree = known = 0
    while known < len(said) and (shown := _shown_as(stored, agree, said[known])):
        agree, known = agree + shown, known + 1
    after = stored[agree - 1].id if agree else ""
    return HistoryMatch(after, tuple(said[known:]), forks=agree < len(stored))


def _shown_as(stored: Sequence[ConversationMessage], at: int, said: Message) -> int:
    """How many stored messages, from a place on, a message is: one, several that were shown as one, or none."""
    if at < len(stored) and _same(stored[at].message, said):
        return 1
    replies = takewhile(lambda each: each.role == "assistant", islice(stored, at, None))
    texts = [each.text for each in replies] if isinstance(said, AssistantMessage) else []
    shown = (_plain(REPLY_SEPARATOR.join(texts[:number])) for number in range(2, len(texts) + 1))
    return next((number for number, text in enumerate(shown, 2) if text == _plain(said.content)), 0)


def _same(one: Message, other: Message) -> bool:
    if role_of(one) != role_of(other) or _plain(one.content) != _plain(other.content):
        return False
    return not isinstance(one, UserMessage) or not isinstance(other, UserMessage) or one.images == other.images


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").strip()
