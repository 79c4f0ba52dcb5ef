"""Where the messages of a chat come from: options, lines in a pipe, or a person at a terminal.

Above: `chat`; below: `chat_prompt`, which is loaded on a terminal.
"""

import asyncio
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Protocol

from goalport.cli.dialogues import Chats
from goalport.cli.prompts import Unanswered


class Messages(Protocol):
    """Gives one message or command after the other."""

    def next(self, default: str = "") -> str:
        """The next one; `default` is there to be edited. Raises `Unanswered` at the end, and `Interrupted`."""
        ...


def messages_here(runner: asyncio.Runner, history: Path | None, chats: Chats) -> Messages:
    """What a person types at the terminal; without one, the lines of standard input.

    `history` is the file with what was typed before; None: it is kept in memory. The names of `chats` are completed.
    """
    if not sys.stdin.isatty():
        return _PipedMessages()
    # Imported here, because its library takes a quarter of a second to load.
    from goalport.cli.chat_prompt import TypedMessages

    return TypedMessages(runner, history, chats)


class GivenMessages:
    """Messages that are known from the beginning."""

    def __init__(self, texts: Iterable[str]) -> None:
        self._texts = iter(texts)

    def next(self, default: str = "") -> str:
        for each in self._texts:
            return each
        raise Unanswered


class _PipedMessages:
    """A message in each line of standard input; a line that ends with a backslash goes on in the next one."""

    def next(self, default: str = "") -> str:
        text = ""
        while line := sys.stdin.readline():
            text += line.rstrip("\r\n")
            if not text.endswith("\\"):
                return text
            text = f"{text[:-1]}\n"
        if not text:
            raise Unanswered
        return text
