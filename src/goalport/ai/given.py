"""Refusing, where it is written, what no model can be asked with; at the call nobody would see where it came from."""

from collections.abc import Iterable
from typing import Final, TypeVar, cast

from goalport.llm import AssistantMessage, Message, SystemMessage, ToolReply, UserMessage

__all__ = ["conversation", "each"]

T = TypeVar("T")
_MESSAGES: Final = (SystemMessage, UserMessage, AssistantMessage, ToolReply)


def each(given: tuple[T, ...], kind: type[object] | tuple[type[object], ...], wanted: str) -> tuple[T, ...]:
    """What was given, one by one. Raises `TypeError` for what is not of a kind, which may be a protocol."""
    for one in given:
        if not isinstance(one, kind):
            raise TypeError(f"Expected {wanted}, but came {one!r}.")
    return given


def conversation(messages: Iterable[Message]) -> tuple[Message, ...]:
    """The messages; none will do where images go with them. Raises `TypeError` for anything else."""
    said = tuple(cast("Iterable[object]", messages))
    if not all(isinstance(one, _MESSAGES) for one in said):
        raise TypeError(f"Expected messages, like UserMessage('…'), but came {messages!r}.")
    return cast("tuple[Message, ...]", said)
