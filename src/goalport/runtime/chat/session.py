"""A session: somebody talks to a chatbot in one conversation. It holds nothing that the store does not have.

Behind it is a process that rests between turns. When that is gone, was ended, or cannot be read any more, or when the
conversation goes on from an earlier message, another process begins with the same conversation. Below: turns,
conversations, processes. Above: chatbots. (User guide, section 3.12.12.)
"""

from collections.abc import Callable, Sequence
from contextlib import ExitStack, aclosing
from typing import Protocol
from weakref import ref

from anyio import CancelScope

from goalport.agents.domain import ChatbotMark
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import BadInput, ConversationEnded, UnknownName, Unreadable
from goalport.base.events import EventListener
from goalport.models.llm import Message, SystemMessage, UserMessage
from goalport.runtime.chat.conversation import Conversation, ConversationMessage, role_of
from goalport.runtime.chat.front_end import FrontEnd, renewed
from goalport.runtime.chat.platform import Platform
from goalport.runtime.chat.turn import Turn, TurnResult
from goalport.runtime.process import AgentProcess, Completed, ProcessStatus, Question


class Chatbot(Protocol):
    """Somebody to talk to."""

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def mark(self) -> ChatbotMark: ...
    async def create_session(
        self,
        caller: Caller = ANONYMOUS,
        channel: EventListener | None = None,
        *,
        system_message: str = "",
        conversation_id: str = "",
        context_id: str = "",
    ) -> "ChatSession": ...
    async def find_session(
        self, conversation_id: str, caller: Caller = ANONYMOUS, channel: EventListener | None = None
    ) -> "ChatSession | None": ...


class ChatSession:
    """A conversation of a caller with a chatbot, as `Chatbot.create_session` and `find_session` give it."""

    def __init__(
        self,
        chatbot: Chatbot,
        conversation: Conversation,
        caller: Caller,
        channel: EventListener | None,
        platform: Platform,
        new_process: Callable[[Conversation, Caller], AgentProcess],
    ) -> None:
        """`new_process` makes a process of the chatbot that has not begun."""
        self.chatbot, self.conversation, self.caller, self.channel = chatbot, conversation, caller, channel
        self._platform, self._new_process = platform, new_process
        self._busy: AgentProcess | None = None
        """The process behind it, if it ran or waited for people when it was seen last."""
        self._seen: ref[AgentProcess] | None = None

    @property
    def process_id(self) -> str:
        """The id of the process behind it; empty before the first message."""
        return self.conversation.loaded.record.process

    @property
    def last_seen(self) -> AgentProcess | None:
        """The process behind it, as it was seen last; None: there is none, or it rests, and is in memory no longer."""
        return self._busy or (None if self._seen is None else self._seen())

    @property
    def idle(self) -> bool:
        """Whether nothing runs: it waits for a message, or for the answer to a question."""
        process = self.last_seen
        return process is None or not (process.active or runs(process))

    @property
    def questions(self) -> tuple[Question, ...]:
        """What people have to answer before it goes on; the answer to any of them may come over any door."""
        process = self.last_seen
        return () if process is None else process.open_questions

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
        beside: Sequence[object] = (),
        earlier: Sequence[Message] = (),
        name: str = "",
        after: str | None = None,
    ) -> Turn:
        """Tell the chatbot a message, or `events`, and return the turn that begins with it.

        Both are stored by then. While another turn of the conversation runs, this waits for its end. `after` is the id
        of the message that this one follows, empty for none: if that is not the last one, the conversation is forked
        there. `earlier` was said before the message, elsewhere, and is added without a reaction. `beside` are objects
        that actions find on the blackboard, to which none reacts. Raises `ConversationEnded`, `BadInput`, `UnknownName`
        if the conversation was deleted, and `StoreError`.
        """
        said = [*earlier, *([message] if message is not None else [])]
        if not said and not events:
            raise BadInput("Expected a message or an event, but came neither.")
        added = [ConversationMessage(role=role_of(each), message=each) for each in said]
        if message is not None and name:
            added[-1] = ConversationMessage(role="user", message=message, name=name)
        told = [*beside, *([message] if message is not None else []), *events]
        return await self._begin(told, added, after, reacts=message is not None)

    async def regenerate(self, message_id: str = "", *, beside: Sequence[object] = ()) -> Turn:
        """Answer a message of a person again, in another branch: the last one, or that of the id.

        `beside` is as in `begin_turn`. Raises as `begin_turn` does, and `BadInput` if nobody has said it.
        """
        said = [each for each in self.conversation.entries if each.role == "user" and message_id in {"", each.id}]
        if not said:
            raise BadInput("Nobody has said anything yet, so there is nothing to answer again.")
        return await self._begin([*beside, said[-1].message], [], said[-1].id, reacts=True, again=True)

    async def answer(self, question_id: str | None = None, response: object = None, *, declined: str = "") -> Turn:
        """Answer a question, as `AgentPlatform.answer` does, and return the turn that goes on with it.

        Raises what that raises.
        """
        process = await self._find()
        if process is None:
            raise BadInput("No question is open, so nothing can be answered.")
        turn = self._turn(process, reacts=False)
        with ExitStack() as undo:
            undo.callback(turn.abandon)
            await self._platform.answer(process.id, question_id, response, declined=declined)
            undo.pop_all()
        self._follow(turn)
        return turn

    async def follow(self) -> Turn | None:
        """The turn that runs now, for one more reader; None: none does."""
        turn = self._running
        if turn is not None:
            return turn
        process = await self._find()
        return self._watch(process) if process is not None and runs(process) else None

    async def last_turn(self) -> Turn | None:
        """The turn that runs now, or how the last one left the process; None: there is no process.

        A turn that was over before has no events and no messages, but its outcome and its open questions.
        """
        turn = self._running
        if turn is not None:
            return turn
        process = await self._find()
        return None if process is None else self._watch(process)

    @property
    def _running(self) -> Turn | None:
        """The turn that runs now, if it was begun here."""
        turn = self.conversation.loaded.turn
        return turn if isinstance(turn, Turn) and not turn.over else None

    def _watch(self, process: AgentProcess) -> Turn:
        turn = self._turn(process, reacts=False)
        self._follow(turn)
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
        loaded, turn = self.conversation.loaded, None
        with ExitStack() as undo:
            await loaded.turns.acquire()
            undo.callback(loaded.turns.release)
            process = await self._ready(after, again=again)
            with CancelScope(shield=True):  # what is stored is told too, if whoever says it goes away meanwhile
                await self._platform.conversations.append(self.conversation, *added)
                turn = self._turn(process, reacts=reacts)
                undo.callback(turn.abandon)
                whole = renewed(told, process.blackboard.last(FrontEnd))
                await self._platform.tell(process, *whole, caller=self.caller)
            undo.pop_all()
        assert turn is not None
        loaded.turn = turn
        self._follow(turn, loaded.end_turn)
        return turn

    def _follow(self, turn: Turn, after: Callable[[], None] = lambda: None) -> None:
        def over() -> None:
            self._see(turn.process)
            after()

        turn.go_on(over)

    def _turn(self, process: AgentProcess, *, reacts: bool) -> Turn:
        load, stop = self._platform.conversations.load, self._platform.stop_turn
        return Turn(process, self.conversation, load, stop, reacts=reacts)

    async def look_up(self) -> None:
        """Find the process behind it, so that `questions` and `idle` say how it stands."""
        await self._find()

    def _see(self, process: AgentProcess) -> None:
        """Note how the process is now: one that rests is kept only as long as the conversation was used lately."""
        self._busy = process if runs(process) or process.open_questions else None
        self._seen = ref(process)
        self._platform.conversations.recent.keep(process, len(self.conversation.loaded.messages))

    async def _find(self) -> AgentProcess | None:
        """The process, if it can go on or has reached its goal; None: another one is needed. Raises `StoreError`."""
        if not self.process_id:
            return None
        try:
            process = await self._platform.process(self.process_id)
            if runs(process):
                await self._platform.processes.recover(process)
        except (UnknownName, Unreadable):
            return None
        self._see(process)
        return None if process.over and not isinstance(process.outcome, Completed) else process

    async def _ready(self, after: str | None, *, again: bool) -> AgentProcess:
        """The process that is told next, once nothing runs in it, where the conversation ends with the message `after`.

        If another message is the last one, or with `again`, the conversation is forked first. Raises
        `ConversationEnded`, `BadInput` for the id of no message, and `StoreError`.
        """
        conversation, stored = self.conversation, self._platform.conversations
        await stored.load(conversation)
        process = await self._find()
        if process is not None and runs(process):  # here or elsewhere
            while runs(process):
                await process.changed()
            await stored.load(conversation)
            process = await self._find()
        last_said = conversation.entries[-1].id if conversation.entries else ""
        if again or (after is not None and after != last_said):
            await stored.fork(conversation, after or "")
            if process is not None:
                process.terminate("The conversation goes on from an earlier message, in another process.")
            process = self._busy = self._seen = None
        if conversation.finished or (process is not None and process.over):
            raise ConversationEnded(f"Conversation {conversation.id} has reached its goal. Begin another one.")
        if process is None:
            process = new = self._new_process(conversation, self.caller)
            new.blackboard.bind_protected("conversation", conversation)
            await stored.change(conversation, lambda record: record._replace(process=new.id))
            self._see(new)
        return process

    async def instruct(self, text: str) -> None:
        """Begin the conversation with instructions for the model."""
        said = ConversationMessage(role="system", message=SystemMessage(text))
        await self._platform.conversations.append(self.conversation, said)


def runs(process: AgentProcess) -> bool:
    """Whether it runs, here or in another program: one that can be found has been told something."""
    return process.status in {ProcessStatus.NOT_STARTED, ProcessStatus.RUNNING, ProcessStatus.PAUSED}
