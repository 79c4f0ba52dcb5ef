"""The progress of a turn of a chatbot: beside that of its process, the text that the chatbot has written so far.

Text comes in many small pieces, so it is gathered: a client is told it at once, and then some times in a second.
`chat_observer` is above.
"""

from contextlib import aclosing, suppress
from typing import Final

import anyio

from goalport.base.errors import GoalportError
from goalport.base.events import Event, MessageDelta, MessageSent
from goalport.base.secrecy import hide_known
from goalport.base.words import visible
from goalport.runtime.chat import Turn
from goalport.server.doors.mcp.notifications import Notifier
from goalport.server.doors.mcp.progress_notifications import ProcessProgress

_GAP: Final = 0.25
"""Seconds between two notifications with text."""
_MOST_SHOWN: Final = 8_000
"""The most characters of one notification: each has the text so far, and the answer has the whole of it."""


class ChatProgress(ProcessProgress):
    """The progress and log notifications to one request while it waits for a turn."""

    def __init__(self, notifier: Notifier, begin: float, heartbeat_seconds: float) -> None:
        super().__init__(notifier, begin, heartbeat_seconds)
        self._sent = ""
        """The messages that are complete, or their end."""
        self._text = ""
        """The same with what was written since."""
        self._told = ""
        self._more = anyio.Event()

    async def follow_turn(self, turn: Turn) -> None:
        """Report all events of a turn, from its beginning to its end, and the text that is written in it.

        Why a turn was not followed to its end is raised by its `result`: a task group would raise it in another form.
        """
        async with anyio.create_task_group() as tasks, aclosing(turn.events()) as events:
            tasks.start_soon(self.beat, "")
            tasks.start_soon(self._report_text)
            with suppress(GoalportError):
                async for event in events:
                    self._note(event)
                    await self.report_event(event)
            tasks.cancel_scope.cancel()

    def _note(self, event: Event) -> None:
        match event:
            case MessageDelta(thinking=False, text=text):
                self._text = _end_of(self._text + text)
            case MessageSent(text=text):
                self._sent = self._text = _end_of(f"{self._sent}{text}\n\n")
            case _:
                return
        self._more.set()

    async def _report_text(self) -> None:
        """Report the text so far whenever there is more of it, not more often than every `_GAP` seconds."""
        while True:
            await self._more.wait()
            self._more = anyio.Event()
            text = hide_known(visible(self._text).strip())  # a secret may have come in two pieces
            if text != self._told:
                self._told = text
                await self.report_words(text)
                await self.flush()
                await anyio.sleep(_GAP)


def _end_of(text: str) -> str:
    return text if len(text) <= _MOST_SHOWN else f"…{text[1 - _MOST_SHOWN :]}"
