"""Sends the messages of an action to the person that its process talks to, piece by piece where they come so.

The platform keeps the messages (`PlatformServices.send_message`); whoever listens to the process is told of them.
Below: the process and the journal. Above: `context`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeAlias, cast

from goalport.base.events import MessageDelta, MessageSent
from goalport.base.secrecy import SecretHider
from goalport.models.llm import AssistantMessage, TextDelta, ThinkingDelta
from goalport.runtime.process.attempt import Attempt
from goalport.runtime.process.journal import id_of_step

Sendable: TypeAlias = AssistantMessage | str | AsyncIterator[str] | AsyncIterator[TextDelta | ThinkingDelta]
"""A message, its text, or its pieces as they come."""


async def send_message(attempt: Attempt, message: Sendable) -> AssistantMessage:
    """Send a message, and return it as it is kept; one that an earlier run of the action has sent is not sent again."""
    name = attempt.names.next("message")
    known = attempt.journal.messages.get(name)
    if known is not None:
        await _close(message)
        return known
    process, message_id = attempt.process, id_of_step(name)
    whole = await _whole(attempt, message_id, message)
    sent = await process.services.send_message(process, message_id, whole)
    attempt.journal.note_message(name, sent)
    process.emit(MessageSent(message_id, sent.content, action=attempt.action, process_id=process.id))
    return sent


async def _whole(attempt: Attempt, message_id: str, message: Sendable) -> AssistantMessage:
    """The message, after its pieces were told."""
    if isinstance(message, AssistantMessage):
        return message
    if isinstance(message, str):
        return AssistantMessage(message)
    text, thoughts = _Pieces(attempt, message_id), _Pieces(attempt, message_id, thinking=True)
    try:
        async for piece in message:
            now, before = (thoughts, text) if isinstance(piece, ThinkingDelta) else (text, thoughts)
            before.pause()
            now.add(piece if isinstance(piece, str) else piece.text)
    finally:
        await _close(message)
    text.pause()
    thoughts.pause()
    return AssistantMessage(text.whole, thinking=thoughts.whole)


class _Pieces:
    """The pieces of a message, or of the thoughts about it; each is told when it comes, without secrets."""

    def __init__(self, attempt: Attempt, message_id: str, *, thinking: bool = False) -> None:
        self._attempt, self._message_id, self._thinking = attempt, message_id, thinking
        self._came: list[str] = []
        self._hider = SecretHider()

    def add(self, piece: str) -> None:
        """Tell one more piece."""
        self._came.append(piece)
        self._tell(self._hider.next(piece))

    def pause(self) -> None:
        """Tell what was held back, since another text goes on now."""
        self._tell(self._hider.end())

    @property
    def whole(self) -> str:
        """All pieces as they came."""
        return "".join(self._came)

    def _tell(self, words: str) -> None:
        process, action = self._attempt.process, self._attempt.action
        if words:
            process.emit(MessageDelta(self._message_id, words, self._thinking, action, process_id=process.id))


async def _close(message: object) -> None:
    """End the request to a model whose answer nobody reads any further."""
    if isinstance(message, AsyncGenerator):
        await cast("AsyncGenerator[object]", message).aclose()
