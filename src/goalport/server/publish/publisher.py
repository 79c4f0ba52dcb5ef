"""The publisher: it holds the current publication, publishes again after changes, and notifies its subscribers.

One publisher serves all doors (`site.app.Door`) of a server, and knows no client. Its functions start what a client
asks a door for: a process of a goal, or a turn of a conversation, which the client may follow as a task.
"""

import asyncio
import logging
import secrets
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

import anyio
from anyio import to_thread

from goalport.base.caller import Caller
from goalport.base.errors import BadInput, SettingsError
from goalport.base.events import EventListener
from goalport.runtime.chat import (
    AgentProcessChatbot,
    ChatbotMark,
    ChatSession,
    ConversationMessage,
    Turn,
    TurnResult,
    conversation_of,
)
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.platform.runs import CANCELLED, IdempotentCall, Runs
from goalport.runtime.process import AgentProcess, Question, Waiting
from goalport.server.publish.calls import AuditTrail, Call, OpenCalls
from goalport.server.publish.exported_tools import exported_groups
from goalport.server.publish.goal_tools import GoalTool
from goalport.server.publish.limits import Limits
from goalport.server.publish.publication import Publication, publish
from goalport.store import ProcessStore
from goalport.workspace import Workspace
from goalport.workspace.settings import Settings, audit_of

ListKind = Literal["tools", "prompts", "resources"]

_log = logging.getLogger(__name__)
_NO_REPLY: Final = "The conversation has gone on, and nothing was replied to this message."
_FREE: Final = "free"
_HELD: Final = "held "
"""The prefix of the stored value while a call is sending its message to the chatbot."""
_GAP: Final = 0.05
"""Seconds in which changes of several upstream servers are collected into one publication."""


class Publisher:
    """The current publication of one server. Raises `SettingsError` for a role whose model is not ready, and for
    settings tables of the workspace's own classes that cannot be used.
    """

    def __init__(self, platform: AgentPlatform, workspace: Workspace, settings: Settings) -> None:
        if problems := platform.models.problems():
            raise SettingsError("\n".join(f"[models] {each}" for each in problems))
        if platform.misconfigured:
            raise SettingsError("\n".join(platform.misconfigured))
        platform.processes.tells_errors = settings.show_errors
        self.platform = platform
        self.workspace = workspace
        self.settings = settings
        self.calls = OpenCalls()
        self.audit_trail = AuditTrail(audit_of(settings))
        self.calls.observers.append(self.audit_trail.on_call)
        self.limits = Limits(platform, settings.limits, self.calls.refused)
        self.runs = Runs(platform)
        self.publication: Publication = publish(platform, workspace, settings)
        self.loading = asyncio.Lock()
        """Held while the workspace is reloaded, which changes what Python can import."""
        self._publishing = asyncio.Lock()
        self._subscribers: list[Callable[..., Awaitable[None]]] = []

    def subscribe(self, tell: Callable[..., Awaitable[None]]) -> None:
        """Call `tell` with the kinds of the lists that changed, at each change, for as long as the server runs."""
        self._subscribers.append(tell)

    async def adopt(self, workspace: Workspace) -> None:
        """Publish a workspace that was reloaded; open calls finish with the agents that they started with."""
        self.platform.load(workspace)
        self.platform.leave_services()
        self.workspace = workspace
        try:
            await self.platform.upstream.reload()
        except SettingsError as error:
            _log.error("The upstream servers are not all as they should be: %s", error)
        await self.republish("tools", "prompts", "resources")

    async def republish(self, *kinds: ListKind) -> None:
        """Publish platform and workspace again, and tell the subscribers that the lists of these kinds changed."""
        # In a thread: a hundred agents take half a second, which would block the event loop.
        async with self._publishing:
            before = self.publication.of_groups
            self.publication = await to_thread.run_sync(publish, self.platform, self.workspace, self.settings, before)
        await self._tell(*kinds)

    @asynccontextmanager
    async def connected(self) -> AsyncGenerator[None]:
        """A context in which upstream servers are connected.

        The publication follows the tools that they list, and the agents that actions deploy and undeploy.
        """
        upstream, loop = self.platform.upstream, asyncio.get_running_loop()
        changed = asyncio.Event()
        upstream.on_change = changed.set
        self.platform.on_deployment = lambda: loop.call_soon_threadsafe(changed.set)
        changed.set()
        try:
            if not upstream.connected:
                await upstream.open()
                if upstream.connected or self.platform.agents.all != self.publication.agents:
                    await self.republish()
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(self._follow, changed)
                yield
                tasks.cancel_scope.cancel()
        finally:
            await to_thread.run_sync(self.audit_trail.close)
            upstream.on_change = self.platform.on_deployment = lambda: None

    async def _follow(self, changed: asyncio.Event) -> None:
        """Publish again whenever the agents or the tools of exported groups change, until cancelled."""
        while True:
            await changed.wait()
            await anyio.sleep(_GAP)
            changed.clear()
            before = self.publication
            # In a thread, as publishing is: comparing thousands of tools would block the event loop.
            groups = await to_thread.run_sync(exported_groups, self.platform)
            if (groups, self.platform.agents.all) == (before.of_groups.groups, before.agents):
                continue
            await self.republish()
            now = self.publication
            lists: list[ListKind] = ["tools"] if now.tool_list != before.tool_list else []
            if now.prompt_list != before.prompt_list:
                lists.append("prompts")
            if now.resource_list != before.resource_list:
                lists.append("resources")
            await self._tell(*lists)
            for level, found, known in (
                (logging.ERROR, now.problems, before.problems),
                (logging.WARNING, now.warnings, before.warnings),
            ):
                for each in found:
                    if each not in known:
                        _log.log(level, "%s", each)

    async def _tell(self, *kinds: ListKind) -> None:
        for tell in self._subscribers:
            await tell(*kinds)


async def start_goal(
    publisher: Publisher,
    goal: GoalTool,
    objects: Sequence[object],
    caller: Caller,
    *,
    once: IdempotentCall | None = None,
    stored: bool = True,
    listener: EventListener | None = None,
) -> AgentProcess:
    """Start a process of a goal for a caller and count it; if an earlier call `once` started one, return that.

    `stored`: return when the process is stored, so that its caller can find it by its id. `listener` gets all its
    events. Raises `LimitReached`, `StoreError`, and `BadInput` if the key of `once` was used with other arguments.
    """
    platform, goals = publisher.platform, goal.goals
    key = None if once is None else (once.name, once.digest)
    with publisher.limits.starting(caller) as started:
        if not stored and key is None:
            process = platform.start(goal.agent, *objects, goals=goals, caller=caller)
        else:
            process = await platform.start_stored(
                goal.agent, *objects, once=key, keep_events=stored, listener=listener, goals=goals, caller=caller
            )
        if process is None:
            assert once is not None
            once.refuse()
        started(process)
    return process


async def answer_question(
    publisher: Publisher, caller: Caller, question: Question, response: object = None, *, declined: str = ""
) -> None:
    """Answer a question of a process, or decline it with a reason; the audit log notes it.

    Raises `AlreadyAnswered`, `StoreError`, and `BadInput` for an answer that does not fit the question.
    """
    await publisher.platform.answer(question.process_id, question.id, response, declined=declined)
    publisher.audit_trail.answered(caller, question, response, declined=bool(declined))


async def answer_in_session(
    publisher: Publisher,
    caller: Caller,
    session: ChatSession,
    question: Question,
    response: object = None,
    *,
    declined: str = "",
) -> Turn:
    """Answer or decline a question of a chatbot, as `answer_question` does; return the turn that continues."""
    turn = await session.answer(question.id, response, declined=declined)
    publisher.audit_trail.answered(caller, question, response, declined=bool(declined))
    return turn


async def counted_turn(limits: Limits, call: Call, begin: Callable[[], Awaitable[Turn]]) -> Turn:
    """Begin a turn by `begin`, and count it among the processes and the costs of its caller.

    Raises `LimitReached`, and what `begin` raises.
    """
    with limits.starting(call.caller) as started:
        turn = await begin()
        started(turn.process)
    call.process = turn.process
    return turn


def note_turn(call: Call, result: TurnResult) -> None:
    """Set the status of a call by its turn, for the log: the status of the process does not show whether it replied."""
    call.status = "failed" if result.failure else "waiting" if result.questions else "completed"


def on_client_disconnect(turn: Turn, mark: ChatbotMark) -> None:
    """Stop a turn whose client has disconnected, if the chatbot is marked so; otherwise its reply is finished."""
    if mark.stop_when_reader_leaves:
        turn.cancel(CANCELLED)


@dataclass(frozen=True, slots=True)
class Task:
    """What a client follows by an id: a process, or one turn of a conversation.

    A task that has ended changes no more, but the process of a conversation goes on with the next message. So the task
    of a turn names the process and the message that began the turn, and its reply is read from the conversation, on any
    server of the store.
    """

    process: AgentProcess
    message_id: str = ""
    """Of a turn: the id of the message that began it; empty for the task of a whole process."""

    @property
    def id(self) -> str:
        """The id by which clients name it."""
        return f"{self.process.id}:{self.message_id}" if self.message_id else self.process.id


async def session_of_process(platform: AgentPlatform, process: AgentProcess, caller: Caller) -> ChatSession | None:
    """The chat session of a process; None for a process of a goal, or if its conversation does not exist any more.

    Raises `StoreError`.
    """
    conversation = conversation_of(process) if process.options.turns else None
    if conversation is None:
        return None
    session = await AgentProcessChatbot(platform, process.agent.name).find_session(conversation.id, caller)
    return session if session is not None and session.process_id == process.id else None


class TurnEnd(NamedTuple):
    """How a turn ended."""

    said: Sequence[ConversationMessage]
    failure: str
    """Why the reply is missing or cut short; empty: nothing has failed."""


async def end_of_turn(session: ChatSession, task: Task) -> TurnEnd | None:
    """How the turn of a task ended; None while it runs or waits for a person.

    Raises `HandedOver` if this server shuts down first, and `StoreError`.
    """
    process, entries = task.process, session.conversation.entries
    begin = next((place for place, each in enumerate(entries) if each.id == task.message_id), len(entries))
    end = next((place for place, each in enumerate(entries) if place > begin and each.role == "user"), None)
    said, failure = [each for each in entries[begin:end] if each.role == "assistant"], ""
    if end is None:
        if process.outcome is None or isinstance(process.outcome, Waiting) or process.withheld or process.active:
            return None
        turn = await session.last_turn()
        failure = "" if turn is None else (await turn.result()).failure
    elif not said:
        failure = _NO_REPLY
    return TurnEnd(said, failure)


@dataclass(slots=True)
class DeduplicatedCall:
    """A call that may be a repetition."""

    earlier: str = ""
    """The id of the task that the first such call started; empty: this call is the first."""
    begun: Task | None = None
    """To be set to the task that this call has started."""


@asynccontextmanager
async def deduplicated(store: ProcessStore, call: IdempotentCall | None) -> AsyncGenerator[DeduplicatedCall]:
    """A context in which a call sends its message, unless a call with the same key has. `call` None: there is no key.

    Raises `StoreError`, and `BadInput` if the key had other arguments or another call has not finished with it.
    """
    if call is None:
        yield DeduplicatedCall()
        return
    held = f"{_HELD}{secrets.token_hex(8)}"
    digest, kept = await store.join(call.name, call.digest, held)
    if digest != call.digest:
        call.refuse()
    if kept == _FREE:
        _, kept = await store.join(call.name, call.digest, held, instead_of=_FREE)
    if kept != held:
        if kept.startswith(_HELD):
            raise BadInput(
                "Another call with this idempotency key is just saying its message, or its server ended meanwhile. Call"
                " again in a moment; if that does not help, look at what the conversation has."
            )
        yield DeduplicatedCall(kept)
        return
    first = DeduplicatedCall()
    try:
        yield first
    finally:
        with anyio.CancelScope(shield=True):
            told = _FREE if first.begun is None else first.begun.id
            await store.join(call.name, call.digest, told, instead_of=held)
