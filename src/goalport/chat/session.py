"""A session: somebody talks to a chatbot in one conversation. It holds nothing that the store does not have.

Behind it is a process that rests between turns. When that is gone, was ended, or cannot be read any more, or when the
conversation goes on from an earlier message, another process begins with the same conversation. Below: turns,
conversations, processes. Above: chatbots. (User guide, section 3.12.12.)
"""

from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING

from goalport.caller import Caller
from goalport.chat.conversation import Conversation
from goalport.chat.messages import ConversationMessage, role_of
from goalport.chat.turn import Turn, TurnResult
from goalport.errors import BadInput, ConversationEnded, UnknownName, Unreadable
from goalport.events import EventListener
from goalport.llm import Message, SystemMessage, UserMessage
from goalport.process import AgentProcess, Completed, ProcessStatus, Question

if TYPE_CHECKING:
    from goalport.chat.chatbots import AgentProcessChatbot

__all__ = ["ChatSession"]

_BOUND_AS = "conversation"


class ChatSession:
    """A conversation of a caller with a chatbot, as `Chatbot.create_session` and `find_session` give it."""

    def __init__(
        self,
        chatbot: "AgentProcessChatbot",
        conversation: Conversation,
        caller: Caller,
        channel: EventListener | None = None,
        process: AgentProcess | None = None,
    ) -> None:
        self.chatbot, self.conversation, self.caller, self.channel = chatbot, conversation, caller, channel
        self._platform = chatbot.platform
        self._process = process

    @property
    def process_id(self) -> str:
        """The id of the process behind it; empty before the first message."""
        return self.conversation.loaded.record.process

    @property
    def idle(self) -> bool:
        """Whether nothing runs: it waits for a message, or for the answer to a question."""
        return self._process is None or not (self._process.active or _runs(self._process))

    @property
    def questions(self) -> tuple[Question, ...]:
        """What people have to answer before it goes on; the answer to any of them may come over any door."""
        return () if self._process is None else self._process.open_questions

    def is_finished(self) -> bool:
        """Whether the conversation has reached its goal: nothing more is answered."""
        return self.conversation.finished

    async def on_user_message(self, message: UserMessage, *, name: str = "") -> TurnResult:
        """Say something to the chatbot, and return when the turn is over; the channel receives what happens meanwhile.

        `name` is that of the speaker. Raises what `begin_turn` raises.
        """
        return await self._to_the_end(await self.begin_turn(message, name=name))

    async def trigger(self, event: object) -> TurnResult:
        """Let the chatbot react to something else than a message: actions with its type as their trigger may run."""
        return await self._to_the_end(await self.begin_turn(events=[event]))

    async def begin_turn(
        self,
        message: UserMessage | None = None,
        *,
        events: Sequence[object] = (),
        earlier: Sequence[Message] = (),
        name: str = "",
        after: str | None = None,
    ) -> Turn:
        """Tell the chatbot a message, or `events`, and return the turn that begins with it.

        Both are stored by then. While another turn of the conversation runs, this waits for its end. `after` is the id
        of the message that this one follows, empty for none: if that is not the last one, the conversation is forked
        there. `earlier` was said before the message, elsewhere, and is added without a reaction. Raises
        `ConversationEnded`, `BadInput`, `UnknownName` if the conversation was deleted, and `StoreError`.
        """
        said = [*earlier, *([message] if message is not None else [])]
        if not said and not events:
            raise BadInput("Expected a message or an event, but came neither.")
        added = [ConversationMessage(role=role_of(each), message=each) for each in said]
        if message is not None and name:
            added[-1] = ConversationMessage(role="user", message=message, name=name)
        told = [*([message] if message is not None else []), *events]
        return await self._begin(told, added, after, reacts=message is not None)

    async def regenerate(self) -> Turn:
        """Answer the last message of a person again, in another branch. Raises as `begin_turn` does."""
        asked = next((each for each in reversed(self.conversation.entries) if each.role == "user"), None)
        if asked is None:
            raise BadInput("Nobody has said anything yet, so there is nothing to answer again.")
        return await self._begin([asked.message], [], asked.id, reacts=True, again=True)

    async def answer(self, question_id: str | None = None, response: object = None, *, declined: str = "") -> Turn:
        """Answer a question, as `AgentPlatform.answer` does, and return the turn that goes on with it.

        Raises what that raises.
        """
        process = await self._behind()
        if process is None:
            raise BadInput("No question is open, so nothing can be answered.")
        turn = self._turn(process, reacts=False)
        try:
            await self._platform.answer(process.id, question_id, response, declined=declined)
        except BaseException:
            turn.abandon()
            raise
        turn.go_on(lambda: None)
        return turn

    async def follow(self) -> Turn | None:
        """The turn that runs now, for one more reader; None: none does."""
        turn = self._running
        if turn is not None:
            return turn
        process = await self._behind()
        return self._watch(process) if process is not None and _runs(process) else None

    async def last_turn(self) -> Turn | None:
        """The turn that runs now, or how the last one left the process; None: there is no process.

        A turn that was over before has no events and no messages, but its outcome and its open questions.
        """
        turn = self._running
        if turn is not None:
            return turn
        process = await self._behind()
        return None if process is None else self._watch(process)

    @property
    def _running(self) -> Turn | None:
        """The turn that runs now, if it was begun here."""
        turn = self.conversation.loaded.turn
        return None if turn is None or turn.over else turn

    def _watch(self, process: AgentProcess) -> Turn:
        turn = self._turn(process, reacts=False)
        turn.go_on(lambda: None)
        return turn

    async def _to_the_end(self, turn: Turn) -> TurnResult:
        if self.channel is not None:
            async with aclosing(turn.events()) as events:
                async for each in events:
                    self.channel.on_event(each)
        return await turn.result()

    async def _begin(
        self,
        told: Sequence[object],
        added: Sequence[ConversationMessage],
        after: str | None,
        *,
        reacts: bool,
        again: bool = False,
    ) -> Turn:
        loaded = self.conversation.loaded
        await loaded.turns.acquire()
        try:
            process = await self._ready(after, again=again)
            await self._platform.conversations.append(self.conversation, *added)
            turn = await self._tell(process, told, reacts=reacts)
        except BaseException:
            loaded.turns.release()
            raise
        loaded.turn = turn
        turn.go_on(loaded.turns.release)
        return turn

    async def _ready(self, after: str | None, *, again: bool) -> AgentProcess:
        """The process that is told next, at rest, in the branch that ends with the message `after`."""
        await self._at_rest()
        if again or (after is not None and after != self._last_said):
            await self._fork(after or "")
        process = await self._behind()
        if self.is_finished() or (process is not None and process.over):
            raise ConversationEnded(self.conversation.id)
        return process or await self._new_process()

    async def _tell(self, process: AgentProcess, told: Sequence[object], *, reacts: bool) -> Turn:
        turn = self._turn(process, reacts=reacts)
        try:
            await self._platform.tell(process, *told, caller=self.caller)
        except BaseException:
            turn.abandon()
            raise
        return turn

    @property
    def _last_said(self) -> str:
        said = self.conversation.entries
        return said[-1].id if said else ""

    async def _at_rest(self) -> None:
        """Wait until nothing runs in the process, here or elsewhere, and show what is stored by then."""
        await self._platform.conversations.load(self.conversation)
        process = await self._behind()
        while process is not None and _runs(process):
            await process.changed()
        await self._platform.conversations.load(self.conversation)

    async def _behind(self) -> AgentProcess | None:
        """The process of the conversation, if it can go on; None: there is none, or it was ended, or is unreadable."""
        process_id = self.process_id
        if not process_id:
            return None
        try:
            process = await self._platform.process(process_id)
        except (UnknownName, Unreadable):
            return None
        self._process = process
        return None if process.over and not isinstance(process.outcome, Completed) else process

    async def _new_process(self) -> AgentProcess:
        process = self.chatbot.new_process(self.conversation, self.caller)
        process.blackboard.bind_protected(_BOUND_AS, self.conversation)
        await self._platform.conversations.change(self.conversation, lambda record: record._replace(process=process.id))
        self._process = process
        return process

    async def _fork(self, after: str) -> None:
        process = await self._behind()
        await self._platform.conversations.fork(self.conversation, after)
        if process is not None:
            process.terminate("The conversation goes on from an earlier message, in another process.")
        self._process = None

    def _turn(self, process: AgentProcess, *, reacts: bool) -> Turn:
        return Turn(process, self.conversation, self._platform.conversations.load, reacts=reacts)

    async def look_up(self) -> None:
        """Find the process behind it, so that `questions` and `idle` say how it stands."""
        await self._behind()

    async def instruct(self, text: str) -> None:
        """Begin the conversation with instructions for the model."""
        said = ConversationMessage(role="system", message=SystemMessage(text))
        await self._platform.conversations.append(self.conversation, said)


def _runs(process: AgentProcess) -> bool:
    return process.status in {ProcessStatus.RUNNING, ProcessStatus.PAUSED}
