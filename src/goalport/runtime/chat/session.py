"""Chatbots, and the sessions in which people talk to them, turn by turn.

The state of a session is in the store. Its process rests between turns. If the process is gone, was ended or cannot be
read any more, or if the conversation goes on from an earlier message, a new process continues the conversation. A turn
is all that a chatbot does about a message, until nothing more happens by itself. Several readers may follow one turn,
each from its beginning; the reply is finished even if all of them disconnect. Below: conversations, processes. Above:
the platform (`Platform` says what is needed of it), and the doors. (User guide, sections 3.12.12 and 3.12.13.)
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, aclosing, suppress
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol, Self
from weakref import ref

from anyio import CancelScope

from goalport.agents.domain import Agent, ChatbotMark, PlannerType
from goalport.base.caller import ANONYMOUS, Caller
from goalport.base.errors import BadInput, ConversationEnded, UnknownName, Unreadable
from goalport.base.events import Event, EventListener, MessageSent, QuestionAsked
from goalport.models.llm import Message, Models, SystemMessage, TokenUsage, UserMessage
from goalport.runtime.ai import Ai
from goalport.runtime.chat.conversation import REPLY_SEPARATOR, Conversation, ConversationMessage
from goalport.runtime.chat.conversations import Conversations
from goalport.runtime.chat.front_end import FrontEnd
from goalport.runtime.process import (
    AgentProcess,
    Budget,
    Completed,
    ContextRepository,
    Outcome,
    ProcessOptions,
    ProcessStatus,
    Question,
    Stuck,
    Verbosity,
    Waiting,
)


class Recovery(Protocol):
    """Continues the processes of programs that ended."""

    async def recover(self, process: AgentProcess, /) -> None: ...


class Platform(Protocol):
    """What chatbots need of a platform; `AgentPlatform` has it."""

    options: ProcessOptions
    conversations: Conversations
    contexts: ContextRepository
    models: Models
    ai: Ai

    @property
    def agents(self) -> Iterable[Agent]: ...
    @property
    def processes(self) -> Recovery: ...
    def deploy(self, agent: object, /) -> Agent: ...
    def create_agent_process(
        self, agent: str | Agent, /, *, options: ProcessOptions | None = None, caller: Caller = ANONYMOUS
    ) -> AgentProcess: ...
    async def process(self, process_id: str, /) -> AgentProcess: ...
    async def tell(
        self, process: str | AgentProcess, /, *objects: object, caller: Caller | None = None
    ) -> AgentProcess: ...
    async def stop_turn(self, process_id: str, reason: str, /) -> None: ...
    async def answer(
        self, process_id: str, question_id: str | None = None, response: object = None, *, declined: str = ""
    ) -> AgentProcess: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnResult:
    """How a turn has ended."""

    outcome: Outcome
    """How the process rested at the end of the turn. Since then it may have gone on, with the next turn."""
    messages: tuple[ConversationMessage, ...]
    """What the chatbot has said."""
    questions: tuple[Question, ...] = ()
    """What people have to answer before it goes on."""
    failure: str = ""
    """Why there is no reply, or only a part of one, in words; empty: nothing has failed."""
    finished: bool = False
    """Whether the conversation has reached its goal, so that nothing more is answered."""
    usage: TokenUsage = field(default_factory=TokenUsage)
    """The tokens and the cost of models in the turn."""

    @property
    def text(self) -> str:
        """The messages as one text."""
        return REPLY_SEPARATOR.join(each.text for each in self.messages)


class Turn:
    """A turn that runs, or has ended. `async for event in turn.events(): …`, then `await turn.result()`."""

    def __init__(self, session: "ChatSession", process: AgentProcess, *, reacts: bool = False) -> None:
        """`reacts`: whether a person spoke, so that there must be a reply."""
        self.process, self._session, self._reacts = process, session, reacts
        self._conversation, self._platform = session.conversation, session.platform
        self._known = {each.id for each in session.conversation.entries}
        self._events: list[Event] = []
        self._news = asyncio.Event()
        """Set, and replaced by a new one, when an event of the process came or the turn has ended."""
        self._task: asyncio.Task[TurnResult] | None = None
        self.abandon = process.subscribe(self)
        """Stops following the process, for example if the message could not be delivered."""

    def on_event(self, event: Event, /) -> None:
        """Keep an event of the process for the readers."""
        self._events.append(event)
        self._wake()

    def start(self, after: Callable[[], None] = lambda: None) -> Self:
        """Follow the process until it rests; then call `after`, also if that failed."""
        self._task = asyncio.get_running_loop().create_task(self._follow(), name=f"turn {self.process.id}")

        def end(task: asyncio.Task[TurnResult]) -> None:
            self.abandon()
            if not task.cancelled():
                task.exception()  # `result` raises it
            self._session.note(self.process)
            after()
            self._wake()

        self._task.add_done_callback(end)
        return self

    async def events(self) -> AsyncGenerator[Event]:
        """What happens in the process, from the beginning of the turn to its end. Raises what `result` raises."""
        number = 0
        while True:
            while number < len(self._events):
                yield self._events[number]
                number += 1
            if self._task is not None and self._task.done():
                self._task.result()
                return
            await self._news.wait()

    async def result(self) -> TurnResult:
        """Wait for the end of the turn. Raises `HandedOver` if this program ends first."""
        assert self._task is not None
        return await asyncio.shield(self._task)

    @property
    def over(self) -> bool:
        """Whether it has ended."""
        return self._task is not None and self._task.done()

    def cancel(self, reason: str = "The reply was stopped.") -> None:
        """Stop the reply: what runs is cancelled. The conversation goes on with the next message."""
        if not self.over:
            self.process.in_background(self._platform.stop_turn(self.process.id, reason))

    async def _follow(self) -> TurnResult:
        outcome = await self.process.wait()
        await self.process.rest()
        with suppress(UnknownName):  # it was deleted meanwhile, which is why the process has ended
            await self._platform.conversations.load(self._conversation)
        new = (each for each in self._conversation.entries if each.id not in self._known)
        said = tuple(each for each in new if each.role == "assistant")
        open_questions = self.process.open_questions
        # What was said and asked while another program ran the process.
        seen = {each.message_id for each in self._events if isinstance(each, MessageSent)}
        seen |= {each.question_id for each in self._events if isinstance(each, QuestionAsked)}
        where, conversation = self.process.id, self._conversation.id
        for each in said:
            if each.id not in seen:
                self.on_event(MessageSent(each.id, each.text, conversation_id=conversation, process_id=where))
        for each in open_questions:
            if each.id not in seen:
                self.on_event(QuestionAsked(each.id, each.action, each.message, process_id=where))
        failure = "" if isinstance(outcome, Completed | Waiting) else outcome.reason
        if isinstance(outcome, Stuck) and not outcome.turn_failed:
            failure = f"No action has answered: {outcome.reason}" if self._reacts and not said else ""
        return TurnResult(
            outcome=outcome,
            messages=said,
            questions=open_questions if isinstance(outcome, Waiting) else (),
            failure=failure,
            finished=isinstance(outcome, Completed),
            usage=self.process.turn_usage,
        )

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()


class ChatSession:
    """A conversation of a caller with a chatbot, as `Chatbot.create_session` and `find_session` return it.

    Every method that waits for the store raises `StoreError` if the store fails.
    """

    def __init__(
        self,
        chatbot: "AgentProcessChatbot",
        conversation: Conversation,
        caller: Caller,
        channel: EventListener | None = None,
    ) -> None:
        self.chatbot, self.conversation, self.caller, self.channel = chatbot, conversation, caller, channel
        self.platform = chatbot.platform
        self._busy: AgentProcess | None = None
        """The process of the session, if it ran or waited for people when it was last seen."""
        self._seen: ref[AgentProcess] | None = None

    @property
    def process_id(self) -> str:
        """The id of the process of the session; empty before the first message."""
        return self.conversation.loaded.record.process

    @property
    def last_seen(self) -> AgentProcess | None:
        """The process of the session, as last seen; None: there is none, or it rests and was dropped from memory."""
        return self._busy or (None if self._seen is None else self._seen())

    @property
    def idle(self) -> bool:
        """Whether nothing runs: it waits for a message, or for the answer to a question."""
        process = self.last_seen
        return process is None or not (process.active or _runs(process))

    @property
    def questions(self) -> tuple[Question, ...]:
        """What people have to answer before it goes on; the answer to any of them may come over any door."""
        process = self.last_seen
        return () if process is None else process.open_questions

    def is_finished(self) -> bool:
        """Whether the conversation has reached its goal: nothing more is answered."""
        return self.conversation.record.finished

    async def on_user_message(self, message: UserMessage, *, name: str = "") -> TurnResult:
        """Say something to the chatbot, and return when the turn is over; the channel receives what happens meanwhile.

        `name` is that of the speaker. Raises what `begin_turn` raises.
        """
        return await self._result_of(await self.begin_turn(message, name=name))

    async def trigger(self, event: object) -> TurnResult:
        """Let the chatbot react to an event that is no message: actions that have its type as trigger may run."""
        return await self._result_of(await self.begin_turn(events=[event]))

    async def begin_turn(
        self,
        message: UserMessage | None = None,
        *,
        events: Sequence[object] = (),
        context: Sequence[object] = (),
        earlier: Sequence[Message] = (),
        name: str = "",
        after: str | None = None,
    ) -> Turn:
        """Tell the chatbot a message, or `events`, and return the turn that begins with it.

        Both are stored by then. While another turn of the conversation runs, this waits for its end. `after` is the id
        of the message that this one follows, empty for none: if that is not the last one, the conversation is forked
        there. `earlier` are messages from elsewhere that come before the message; no action reacts to them. `context`
        are objects for the blackboard, to which no action reacts either. Raises `ConversationEnded`, `BadInput`, and
        `UnknownName` if the conversation was deleted.
        """
        said = [*earlier, *([message] if message is not None else [])]
        if not said and not events:
            raise BadInput("Expected a message or an event, but came neither.")
        added = [ConversationMessage.of(each, name=name if each is message else "") for each in said]
        objects = [*context, *([message] if message is not None else []), *events]
        return await self._begin(objects, added, after, reacts=message is not None)

    async def regenerate(self, message_id: str = "", *, context: Sequence[object] = ()) -> Turn:
        """Answer a message of a person again, in another branch: the last message, or the one with this id.

        `context` is as in `begin_turn`. Raises as `begin_turn` does, and `BadInput` if nobody has said it.
        """
        said = [each for each in self.conversation.entries if each.role == "user" and message_id in {"", each.id}]
        if not said:
            raise BadInput("Nobody has said anything yet, so there is nothing to answer again.")
        return await self._begin([*context, said[-1].message], [], said[-1].id, reacts=True, again=True)

    async def answer(self, question_id: str | None = None, response: object = None, *, declined: str = "") -> Turn:
        """Answer a question, as `AgentPlatform.answer` does, and return the turn that goes on with it.

        Raises what that raises.
        """
        process = await self.find_process()
        if process is None:
            raise BadInput("No question is open, so nothing can be answered.")
        turn = Turn(self, process)
        with ExitStack() as undo:
            undo.callback(turn.abandon)
            await self.platform.answer(process.id, question_id, response, declined=declined)
            undo.pop_all()
        return turn.start()

    async def follow(self) -> Turn | None:
        """The turn that runs now, for one more reader; None: no turn runs."""
        return await self.last_turn(running=True)

    async def last_turn(self, *, running: bool = False) -> Turn | None:
        """The turn that runs now, or else the last one; None: there is no process.

        Of a turn that was over before, only the outcome and the open questions are known. With `running`, it is not
        returned.
        """
        turn = self.conversation.loaded.turn
        if isinstance(turn, Turn) and not turn.over:
            return turn
        process = await self.find_process()
        if process is None or (running and not _runs(process)):
            return None
        return Turn(self, process).start()

    async def _result_of(self, turn: Turn) -> TurnResult:
        if self.channel is not None:
            async with aclosing(turn.events()) as events:
                async for each in events:
                    self.channel.on_event(each)
        return await turn.result()

    async def _begin(
        self,
        objects: Sequence[object],
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
            with CancelScope(shield=True):  # a stored message reaches the process, even if its sender goes away
                await self.platform.conversations.append(self.conversation, *added)
                turn = Turn(self, process, reacts=reacts)
                undo.callback(turn.abandon)
                # The process gets the front end of this turn if that is not the one of the last turn.
                now = next((each for each in objects if isinstance(each, FrontEnd)), FrontEnd())
                known = process.blackboard.last(FrontEnd) or FrontEnd()
                rest = [each for each in objects if not isinstance(each, FrontEnd)]
                await self.platform.tell(process, *([] if now == known else [now]), *rest, caller=self.caller)
            undo.pop_all()
        assert turn is not None
        loaded.turn = turn
        return turn.start(loaded.end_turn)

    def note(self, process: AgentProcess) -> None:
        """Note the state of the process; if it rests, it stays in memory while the conversation was used recently."""
        self._busy = process if _runs(process) or process.open_questions else None
        self._seen = ref(process)
        self.platform.conversations.keep(process, len(self.conversation.loaded.messages))

    async def find_process(self) -> AgentProcess | None:
        """The process, if it can go on or has reached its goal; None: another one is needed.

        Afterwards `questions` and `idle` describe its state.
        """
        if not self.process_id:
            return None
        try:
            process = await self.platform.process(self.process_id)
            if _runs(process):
                await self.platform.processes.recover(process)
        except (UnknownName, Unreadable):
            return None
        self.note(process)
        return None if process.over and not isinstance(process.outcome, Completed) else process

    async def _ready(self, after: str | None, *, again: bool) -> AgentProcess:
        """The process for the next turn, once nothing runs in it; the conversation then ends with the message `after`.

        If another message is the last one, or with `again`, the conversation is forked first. Raises
        `ConversationEnded`, and `BadInput` for the id of no message.
        """
        conversation, stored = self.conversation, self.platform.conversations
        await stored.load(conversation)
        process = await self.find_process()
        if process is not None and _runs(process):  # here or elsewhere
            while _runs(process):
                await process.changed()
            await stored.load(conversation)
            process = await self.find_process()
        last_said = conversation.entries[-1].id if conversation.entries else ""
        if again or (after is not None and after != last_said):
            await stored.fork(conversation, after or "")
            if process is not None:
                process.terminate("The conversation goes on from an earlier message, in another process.")
            process = self._busy = self._seen = None
        if conversation.record.finished or (process is not None and process.over):
            raise ConversationEnded(f"Conversation {conversation.id} has reached its goal. Begin another one.")
        if process is None:
            process = new = self.chatbot.new_process(conversation, self.caller)
            new.blackboard.bind_protected("conversation", conversation)
            await stored.change(conversation, lambda record: record._replace(process=new.id))
            self.note(new)
        return process


def _runs(process: AgentProcess) -> bool:
    """Whether it runs, here or in another program; one that can be found and has not started is about to run."""
    return process.status in {ProcessStatus.NOT_STARTED, ProcessStatus.RUNNING, ProcessStatus.PAUSED}


class AgentProcessChatbot:
    """A chatbot whose conversations are processes of an agent: each message is an object to which actions react.

    Every method that waits for the store raises `StoreError` if the store fails.
    """

    def __init__(self, platform: Platform, agent: str, *, verbosity: Verbosity | None = None) -> None:
        """`agent` is the name of a deployed agent. `verbosity`: what of its turns is written to the log."""
        self.platform, self.name, self._verbosity = platform, agent, verbosity

    @classmethod
    def utility_from_platform(
        cls, platform: Platform, verbosity: Verbosity | None = None, *, name: str = "chatbot", description: str = ""
    ) -> "AgentProcessChatbot":
        """A chatbot that answers with whichever action of the platform is worth most.

        These are the actions of all components and of all agents that are not opaque, also of agents that are deployed
        later. `name` is the name of the agent that is deployed for the chatbot. Raises `DeploymentError` if another
        agent has that name.
        """
        found = next((each for each in platform.agents if each.name == name and each.open), None)
        if found is None:
            platform.deploy(open_chatbot(name, description))
        return cls(platform, name, verbosity=verbosity)

    @property
    def agent(self) -> Agent:
        """The agent. Raises `UnknownName` if it is not deployed any more."""
        agents = {each.name: each for each in self.platform.agents}
        if self.name not in agents:
            raise UnknownName("agent", self.name, agents)
        return agents[self.name]

    @property
    def description(self) -> str:
        """What it is for, for people and models."""
        return self.agent.description

    @property
    def mark(self) -> ChatbotMark:
        """How people talk to it."""
        return self.agent.chat or ChatbotMark()

    async def create_session(
        self,
        caller: Caller = ANONYMOUS,
        channel: EventListener | None = None,
        *,
        system_message: str = "",
        conversation_id: str = "",
        context_id: str = "",
    ) -> ChatSession:
        """Begin a conversation of a caller, or go on with the conversation of that id if it is theirs.

        `channel` receives the events of turns. `system_message`: the instructions to the model in a new conversation.
        `context_id`: the context of the caller that gives a new conversation its first objects; empty: that of the
        chatbot, if any. Raises `BadInput` if the conversation of that id is not theirs, or if the id is not valid.
        """
        if conversation_id and (found := await self.find_session(conversation_id, caller, channel)) is not None:
            return found
        conversation = await self.platform.conversations.create(
            self.name, caller, conversation_id=conversation_id, context_id=context_id or self.mark.context_id
        )
        if system_message:
            instructions = ConversationMessage.of(SystemMessage(system_message))
            await self.platform.conversations.append(conversation, instructions)
        return ChatSession(self, conversation, caller, channel)

    async def find_session(
        self, conversation_id: str, caller: Caller = ANONYMOUS, channel: EventListener | None = None
    ) -> ChatSession | None:
        """The session of a conversation of this chatbot; None if there is none, or it is somebody else's."""
        conversation = await self.platform.conversations.find(conversation_id, caller)
        if conversation is None or conversation.record.chatbot != self.name:
            return None
        session = ChatSession(self, conversation, caller, channel)
        await session.find_process()
        return session

    async def open_thread(self, thread: str, caller: Caller, *, system_message: str = "") -> ChatSession:
        """The session of the caller's conversation that a client names `thread`; a new one if there is none.

        The id of a new conversation is made from the caller and the name, so that nobody learns which ids others have.
        For the anonymous caller it is the name itself, if that can be an id and is free.
        """
        if (found := await self.find_thread(thread, caller)) is not None:
            return found
        own = self._own_id(thread, caller)
        try:
            named = thread if caller.same_as(ANONYMOUS) else own
            return await self.create_session(caller, conversation_id=named, system_message=system_message)
        except BadInput:  # a request at the same time has begun it, or the anonymous caller cannot have it
            found = await self.find_thread(thread, caller)
            return found or await self.create_session(caller, conversation_id=own, system_message=system_message)

    async def find_thread(self, thread: str, caller: Caller) -> ChatSession | None:
        """The session that `open_thread` opens, if its conversation is there already."""
        found = await self.find_session(thread, caller)
        return found or await self.find_session(self._own_id(thread, caller), caller)

    def _own_id(self, thread: str, caller: Caller) -> str:
        return sha256("\n".join([*caller.identity, self.name, thread]).encode()).hexdigest()

    def new_process(self, conversation: Conversation, caller: Caller) -> AgentProcess:
        """A new process for a conversation, not yet begun. It belongs to the owner, even if an admin speaks."""
        mark, given, record = self.mark, self.platform.options, conversation.record
        budget = Budget(actions=mark.max_actions_per_turn, cost=mark.max_cost_per_turn, tokens=mark.max_tokens_per_turn)
        options = given.with_(
            turns=True,
            budget=budget,
            deadline=mark.seconds_per_turn,
            context_id=record.context_id,
            context_scope=mark.context_scope if record.context_id == mark.context_id else "",
            keep_events=True,
            planner=PlannerType.UTILITY,
            verbosity=self._verbosity or given.verbosity,
        )
        owner = caller if caller.same_as(record.caller) else record.caller
        return self.platform.create_agent_process(self.name, options=options, caller=owner)


Chatbot = AgentProcessChatbot
"""A chatbot to talk to."""


class Chatbots(Mapping[str, AgentProcessChatbot]):
    """The chatbots of a platform by name, as they are now."""

    def __init__(self, platform: Platform) -> None:
        self._platform = platform

    def __iter__(self) -> Iterator[str]:
        return (each.name for each in self._platform.agents if each.chat is not None)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __getitem__(self, name: str) -> AgentProcessChatbot:
        if name not in tuple(self):
            raise KeyError(name)
        return AgentProcessChatbot(self._platform, name)

    def named(self, name: str) -> AgentProcessChatbot:
        """The chatbot of that name. Raises `UnknownName`, which says what there is."""
        if name not in self:
            raise UnknownName("chatbot", name, self)
        return self[name]


def open_chatbot(name: str, description: str = "") -> Agent:
    """The agent of a chatbot that uses the actions of all others."""
    return Agent(
        name,
        description or "Answers with whichever action of this server fits best.",
        planner=PlannerType.UTILITY,
        chat=ChatbotMark(),
        open=True,
    )
