"""A turn: what a chatbot does about a message, from when it is told until nothing more happens by itself.

Several readers may follow one turn, each from its beginning; when they go away, the reply is finished nevertheless.
Below: processes and conversations. Above: sessions, which begin turns.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field

from goalport.base.errors import UnknownName
from goalport.base.events import Event, MessageSent, QuestionAsked
from goalport.models.llm import TokenUsage
from goalport.runtime.chat.conversation import REPLY_SEPARATOR, Conversation, ConversationMessage
from goalport.runtime.process import AgentProcess, Completed, Outcome, Question, Stuck, Waiting


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn has ended."""

    outcome: Outcome
    """How its process rested then. The process may go on since, with the next turn."""
    messages: tuple[ConversationMessage, ...]
    """What the chatbot has said."""
    questions: tuple[Question, ...] = ()
    """What people have to answer before it goes on."""
    failure: str = ""
    """Why there is no reply, or only a part of one, in words; empty: nothing has failed."""
    finished: bool = False
    """Whether the conversation has reached its goal, so that nothing more is answered."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    """What models have cost."""

    @property
    def text(self) -> str:
        """The messages as one text."""
        return REPLY_SEPARATOR.join(each.text for each in self.messages)


class Turn:
    """A turn that runs, or has ended. `async for event in turn.events(): …`, then `await turn.result()`.

    Parameters: `load` lets the conversation show what is stored, and `stop` stops the turn of a process. `reacts`: a
    person spoke, so that there must be a reply.
    """

    def __init__(
        self,
        process: AgentProcess,
        conversation: Conversation,
        load: Callable[[Conversation], Awaitable[None]],
        stop: Callable[[str, str], Coroutine[None, None, None]],
        *,
        reacts: bool,
    ) -> None:
        self.process, self._conversation, self._reacts = process, conversation, reacts
        self._load, self._stop = load, stop
        self._known = {each.id for each in conversation.entries}
        self._happened: list[Event] = []
        self._readers: list[asyncio.Future[None]] = []
        self._task: asyncio.Task[TurnResult] | None = None
        self._unsubscribe = process.subscribe(self)

    def on_event(self, event: Event, /) -> None:
        """Keep an event of the process for the readers."""
        self._happened.append(event)
        self._wake()

    def go_on(self, after: Callable[[], None]) -> None:
        """Follow the process until it rests; then `after` is called, whatever has happened."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name=f"turn {self.process.id}")

        def end(task: asyncio.Task[TurnResult]) -> None:
            self._unsubscribe()
            if not task.cancelled():
                task.exception()  # it is raised for those who ask for the result
            after()
            self._wake()

        self._task.add_done_callback(end)

    def abandon(self) -> None:
        """Follow the process no longer, since it could not be told."""
        self._unsubscribe()

    async def events(self) -> AsyncGenerator[Event]:
        """What happens in the process, from the beginning of the turn to its end. Raises what `result` raises."""
        number = 0
        while True:
            while number < len(self._happened):
                yield self._happened[number]
                number += 1
            if self._task is not None and self._task.done():
                self._task.result()
                return
            await self._news()

    async def result(self) -> TurnResult:
        """Wait for the end of the turn. Raises `HandedOver` if this program ends first, and `StoreError`."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._task is not None and self._task.done()

    def cancel(self, reason: str = "The reply was stopped.") -> None:
        """Stop the reply: what runs is cancelled. The conversation goes on with the next message."""
        if not self.over:
            self.process.in_background(self._stop(self.process.id, reason))

    async def _follow(self) -> TurnResult:
        outcome = await self.process.wait()
        await self.process.rest()
        with suppress(UnknownName):  # it was deleted meanwhile, which is why the process has ended
            await self._load(self._conversation)
        said = tuple(
            each for each in self._conversation.entries if each.role == "assistant" and each.id not in self._known
        )
        self._tell_missed(said)
        return TurnResult(
            outcome=outcome,
            messages=said,
            questions=self.process.open_questions if isinstance(outcome, Waiting) else (),
            failure=self._failure(outcome, said),
            finished=isinstance(outcome, Completed),
            usage=self.process.turn_usage,
        )

    def _failure(self, outcome: Outcome, said: tuple[ConversationMessage, ...]) -> str:
        if isinstance(outcome, Completed | Waiting):
            return ""
        if isinstance(outcome, Stuck) and not outcome.turn_failed:
            return f"No action has answered: {outcome.reason}" if self._reacts and not said else ""
        return outcome.reason

    def _tell_missed(self, said: tuple[ConversationMessage, ...]) -> None:
        """Tell the readers what was said and asked while another program ran the process."""
        told = {each.message_id for each in self._happened if isinstance(each, MessageSent)}
        asked = {each.question_id for each in self._happened if isinstance(each, QuestionAsked)}
        where = self.process.id
        for each in said:
            if each.id not in told:
                conversation = self._conversation.id
                self.on_event(MessageSent(each.id, each.text, conversation_id=conversation, process_id=where))
        for each in self.process.open_questions:
            if each.id not in asked:
                self.on_event(QuestionAsked(each.id, each.action, each.message, process_id=where))

    async def _news(self) -> None:
        reader: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._readers.append(reader)
        try:
            await reader
        finally:
            if reader in self._readers:
                self._readers.remove(reader)

    def _wake(self) -> None:
        readers, self._readers = self._readers, []
        for each in readers:
            if not each.done():
                each.set_result(None)
