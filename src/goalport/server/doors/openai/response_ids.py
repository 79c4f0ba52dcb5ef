"""The ids of responses. Each names the place in a conversation from which a later request goes on.

So any replica can go on from a response, and nothing is stored besides the conversation. Above: the handlers.
"""

from dataclasses import dataclass
from typing import Final, Self

_BEGINNING: Final = "resp_"
_BETWEEN: Final = "."


@dataclass(frozen=True, slots=True)
class ResponseId:
    """Where a response stands: the conversation, and the message of it that was answered."""

    conversation: str
    """Its id; or that of a process, for the result of a goal."""
    said: str = ""
    """The id of the message; for a goal, how many questions were settled before."""

    def __str__(self) -> str:
        return f"{_BEGINNING}{self.conversation}{_BETWEEN}{self.said}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The id that is written so; None for another text."""
        conversation, between, said = text.removeprefix(_BEGINNING).rpartition(_BETWEEN)
        return cls(conversation, said) if text.startswith(_BEGINNING) and between else None
