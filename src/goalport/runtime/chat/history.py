"""Comparing the history that a client sends with the one that is stored: is it continued, edited, or unknown?

Clients such as those of OpenAI's API send the whole conversation each time. Pure functions over messages.
"""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import NamedTuple

from goalport.models.llm import AssistantMessage, Message, SystemMessage, UserMessage
from goalport.runtime.chat.conversation import REPLY_SEPARATOR, ConversationMessage, role_of


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
    if not isinstance(said, AssistantMessage):
        return 0
    following = (stored[place] for place in range(at, len(stored)))
    replies = takewhile(lambda each: each.role == "assistant", following)
    return _shown_together((each.text for each in replies), _plain(said.content))


def _shown_together(texts: Iterable[str], whole: str) -> int:
    """How many texts are shown as a whole one, with an empty line between two; 0: they are not.

    Each character is compared once, since a conversation may have very many replies in a row.
    """
    at = 0
    for number, each in enumerate(texts, 1):
        text = each if at else each.lstrip()
        if not (at or text):  # the whole one does not begin with white space
            continue
        last = _lines(text).rstrip()
        if at + len(last) == len(whole) and whole.endswith(last):
            return number
        shown = _lines(text + REPLY_SEPARATOR)
        if not whole.startswith(shown, at):
            return 0
        at += len(shown)
    return 0


def _same(one: Message, other: Message) -> bool:
    if role_of(one) != role_of(other):
        return False
    if one.content != other.content and _plain(one.content) != _plain(other.content):
        return False
    return not isinstance(one, UserMessage) or not isinstance(other, UserMessage) or one.images == other.images


def _plain(text: str) -> str:
    return _lines(text).strip()


def _lines(text: str) -> str:
    return text.replace("\r\n", "\n")
