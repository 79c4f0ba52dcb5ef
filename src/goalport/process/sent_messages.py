"""Sends the messages of an action to the person that its process talks to, piece by piece where they come so.

The platform keeps the messages (`PlatformServices.send_message`); whoever listens to the process is told of them.
Below: the process and the journal. Above: `context`.
"""

from collections.abc import AsyncGenerator, AsyncIterator
from typing import TypeAlias, cast

from goalport.events import MessageDelta, MessageSent
from goalport.llm import AssistantMessage, TextDelta, ThinkingDelta
from goalport.process.attempt import Attempt
from goalport.process.journal import id_of_step

__all__ = ["Sendable", "send_message"]

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
    process, text, thoughts = attempt.process, list[str](), list[str]()
    try:
        async for piece in message:
            thinking, words = isinstance(piece, ThinkingDelta), piece if isinstance(piece, str) else piece.text
            (thoughts if thinking else text).append(words)
            process.emit(MessageDelta(message_id, words, thinking, attempt.action, process_id=process.id))
    finally:
        await _close(message)
    return AssistantMessage("".join(text), thinking="".join(thoughts))


async def _close(message: object) -> None:
    """End the request to a model whose answer nobody reads any further."""
    if isinstance(message, AsyncGenerator):
        await cast("AsyncGenerator[object]", message).aclose()
