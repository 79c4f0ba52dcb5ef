"""Chatbots and conversations with them: of a platform in this program, or of a running server.

Whoever may read the store of a workspace sees the conversations of all callers, may continue each of them, and then
speaks as its caller. A server is reached over its AG-UI door: an AG-UI thread is a conversation, and each message or
answer is a run, which streams its events. AG-UI has no requests for such things as lists of conversations: those are
only in the commands that read the store.
"""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NamedTuple, cast
from urllib.parse import quote

from goalport.base.caller import OPERATOR
from goalport.base.errors import AlreadyAnswered, BadInput, GoalportError
from goalport.base.events import (
    ActionStarted,
    ConversationCompacted,
    Event,
    MessageDelta,
    MessageSent,
    ProgressUpdated,
    SourcesShown,
    ToolCalled,
)
from goalport.base.words import listed
from goalport.cli.conversations import READER
from goalport.cli.server_client import ServerClient
from goalport.cli.workspace import LoadedWorkspace, failure_of
from goalport.models.llm import UserMessage
from goalport.runtime.chat import ChatSession, Turn
from goalport.runtime.process import find_question, new_id
from goalport.server.publish.forms import form_of
from goalport.server.publish.resources import question_view

Question = Mapping[str, Any]
"""A question as JSON data, with `id`, `message` and `schema`."""
AguiMessage = Mapping[str, Any]
AGUI_PATH: Final = "/agui"
_BEFORE_REFUSALS: Final = frozenset({"RUN_STARTED", "STATE_SNAPSHOT", "STATE_DELTA"})
"""The events that a run sends before it may turn out to be refused."""


class ChatMessage(NamedTuple):
    """A message of a conversation."""

    id: str
    role: str
    text: str
    after: str = ""
    """The id of the message before it; empty for the first."""


class ReplyEnd(NamedTuple):
    """How a reply has ended."""

    texts: Sequence[str] = ()
    """The messages of the chatbot."""
    questions: Sequence[Question] = ()
    """The open questions, which have to be answered before it goes on."""
    failure: str = ""
    """Why there is no reply, or only a part of one; empty: nothing has failed."""
    error: BaseException | None = None
    """The exception of user code that made it fail; None also for a reply of a server."""
    finished: bool = False
    """Whether the conversation has reached its goal, so that no more messages are answered."""


Reply = AsyncGenerator[Event | ReplyEnd | None]
"""The events of a reply, the last of which is its `ReplyEnd`. Cancelling the task that reads them stops the reply."""


async def _questions_alone(questions: Sequence[Question]) -> Reply:
    """A reply that consists of these questions only."""
    yield ReplyEnd(questions=questions)


class LocalChats:
    """The chatbots and conversations of a platform in this program."""

    def __init__(self, loaded: LoadedWorkspace, options: str = "") -> None:
        self._loaded = loaded
        self.conversations = loaded.platform.conversations
        self.options = options
        """The command-line options that name this workspace, with a space before them."""
        self.chatbots: Mapping[str, str] = {name: each.description for name, each in loaded.platform.chatbots.items()}
        """The descriptions of the chatbots, by their names."""

    async def begin(self, chatbot: str, conversation_id: str = "") -> "LocalDialogue":
        """Begin a conversation. Raises `BadInput` if there is one of that id already."""
        if conversation_id and await self.conversations.find(conversation_id, READER) is not None:
            raise BadInput(f"There is a conversation {conversation_id!r} already. Leave out --new to go on with it.")
        found = self._loaded.platform.chatbots.named(chatbot)
        return LocalDialogue(self._loaded, await found.create_session(OPERATOR, conversation_id=conversation_id))

    async def open(self, conversation_id: str, chatbot: str) -> "LocalDialogue":
        """Continue a conversation. Raises `UnknownName`. `chatbot` is only needed by `RemoteChats`."""
        conversation = await self.conversations.get(conversation_id, READER)
        found = self._loaded.platform.chatbots.named(conversation.record.chatbot)
        session = await found.find_session(conversation_id, conversation.record.caller)
        assert session is not None
        return LocalDialogue(self._loaded, session)


class LocalDialogue:
    """A conversation with a chatbot that runs in this program."""

    stopped = "Stopped."
    """The text to show when a reply was stopped."""

    def __init__(self, loaded: LoadedWorkspace, session: ChatSession) -> None:
        self._loaded, self._session = loaded, session
        self.id, self.chatbot = session.conversation.id, session.chatbot.name

    @property
    def messages(self) -> Sequence[ChatMessage]:
        """The messages of people and of the chatbot, the oldest first."""
        return [ChatMessage(each.id, each.role, each.text, each.parent) for each in self._session.conversation.entries]

    @property
    def questions(self) -> Sequence[Question]:
        """The open questions."""
        return [*map(question_view, self._session.questions)]

    async def say(self, text: str, after: str | None = None) -> Reply:
        """Send a message. `after` is the id of the message that it follows; None: the last one."""
        return self._reply(await self._session.begin_turn(UserMessage(text), after=after))

    async def again(self) -> Reply:
        """Let the last message be answered again."""
        return self._reply(await self._session.regenerate())

    async def answer(self, question_id: str, response: object, declined: str = "") -> Reply:
        """Answer or decline a question. Raises `BadInput` for an answer that does not fit, and `AlreadyAnswered`."""
        asked = next((each for each in self._session.questions if each.id == question_id), None)
        read = response if declined or asked is None else form_of(asked).read(response)
        return self._reply(await self._session.answer(question_id, read, declined=declined))

    async def status(self, question_id: str) -> str:
        """The status of a question: open, answered, declined, expired or withdrawn."""
        process = await self._loaded.platform.processes.peek(self._session.process_id)
        return find_question(process, question_id)[1].status

    async def follow(self) -> Reply | None:
        """The reply that is running, for whichever message, or one with the open questions; None: there is neither."""
        if (turn := await self._session.follow()) is not None:
            return self._reply(turn)
        return _questions_alone(self.questions) if self.questions else None

    async def _reply(self, turn: Turn) -> Reply:
        try:
            async for each in turn.events():
                yield each
            result = await turn.result()
        except asyncio.CancelledError:
            turn.cancel("The reply was stopped with Ctrl-C.")
            await turn.result()
            raise
        failure, error = result.failure, None
        if failure:
            failure, error = failure_of(turn.process, failure, self._loaded.workspace.root)
        texts, questions = [each.text for each in result.messages], [*map(question_view, result.questions)]
        yield ReplyEnd(texts, questions, failure, error, result.finished)


class RemoteChats:
    """The chatbots of a server, and the caller's conversations. `LocalChats` documents the methods."""

    conversations = None
    """A server does not list them."""

    def __init__(self, server: ServerClient, options: str, agents: Sequence[Mapping[str, Any]]) -> None:
        """`agents` are what the server answers at `AGUI_PATH`."""
        self._server, self.options = server, options
        # An entry with `custom`, which has the schemas of a goal, is no chatbot.
        found = [each for each in agents if "custom" not in each["capabilities"]]
        self.chatbots = {each["name"]: each["capabilities"]["identity"].get("description", "") for each in found}

    async def begin(self, chatbot: str, conversation_id: str = "") -> "RemoteDialogue":
        return RemoteDialogue(self._server, chatbot, conversation_id or new_id())

    async def open(self, conversation_id: str, chatbot: str) -> "RemoteDialogue":
        if not chatbot:
            raise BadInput(f"Say with which chatbot the conversation is: {listed(self.chatbots)}.")
        dialogue = RemoteDialogue(self._server, chatbot, conversation_id)
        await dialogue.fetch()
        return dialogue


class RemoteDialogue:
    """A conversation with a chatbot of a server. `LocalDialogue` documents the methods."""

    stopped = "You follow the reply no longer; the server finishes it, unless its chatbot says otherwise."

    def __init__(self, server: ServerClient, chatbot: str, conversation_id: str) -> None:
        self.chatbot, self.id = chatbot, conversation_id
        self._server, self._thread = server, conversation_id
        self._messages: list[AguiMessage] = []
        self._state: dict[str, Any] = {}
        """The AG-UI state, as the server sent it in earlier runs."""
        self._interrupts: Sequence[Question] = ()
        """The questions with which the last run ended."""
        self._resume: dict[str, Mapping[str, Any]] = {}
        """The answers that are sent once each open question has one."""
        self._fetched: Reply | None = None

    @property
    def messages(self) -> Sequence[ChatMessage]:
        found: list[ChatMessage] = []
        for each in self._messages:
            content = each.get("content") or ""
            if not isinstance(content, str):
                parts = cast("Sequence[Mapping[str, Any]]", content)
                content = "\n".join(str(part["text"]) for part in parts if part["type"] == "text")
            found.append(ChatMessage(each["id"], each["role"], content, found[-1].id if found else ""))
        return found

    @property
    def questions(self) -> Sequence[Question]:
        return [each for each in self._interrupts if each["id"] not in self._resume]

    async def fetch(self) -> None:
        """Fetch the earlier messages, and the reply that is running, if there is one."""
        self._fetched = await self._run([])

    async def follow(self) -> Reply | None:
        fetched, self._fetched = self._fetched, None
        return fetched

    async def say(self, text: str, after: str | None = None) -> Reply:
        message = {"id": new_id(), "role": "user", "content": text}
        return await self._run([message], None if after is None else self._up_to(after))

    async def again(self) -> Reply:
        asked = next((each["id"] for each in reversed(self._messages) if each["role"] == "user"), None)
        if asked is None:
            raise BadInput("Nobody has said anything yet, so there is nothing to answer again.")
        return await self._run([], self._up_to(asked))

    async def answer(self, question_id: str, response: object, declined: str = "") -> Reply:
        entry = {"status": "cancelled"} if declined else {"status": "resolved", "payload": response}
        self._resume[question_id] = {"interruptId": question_id, **entry}
        if self.questions:
            return _questions_alone(self.questions)
        resume, self._resume = [*self._resume.values()], {}
        return await self._run([], resume=resume)

    async def status(self, question_id: str) -> str:
        return "open"  # a server says only when it gets the answer whether the question is open

    def _up_to(self, message_id: str) -> list[AguiMessage]:
        ids = [each["id"] for each in self._messages]
        return self._messages[: ids.index(message_id) + 1] if message_id else []

    async def _run(
        self,
        new: Sequence[AguiMessage],
        earlier: Sequence[AguiMessage] | None = None,
        resume: Sequence[Mapping[str, Any]] = (),
    ) -> Reply:
        """Begin a run with `new` messages. If the server refuses it, raises the error.

        With `earlier`, the conversation is forked after these messages. `resume` are answers to questions.
        """
        body = {
            "threadId": self._thread,
            "runId": new_id(),
            "messages": [*(earlier or ()), *new],
            "state": {} if earlier is None else self._state,
            "tools": [],
            "context": [],
            "forwardedProps": {},
            **({"resume": [*resume]} if resume else {}),
        }
        stream = self._server.stream(f"{AGUI_PATH}/{quote(self.chatbot, safe='')}", body)
        messages = [*(self._messages if earlier is None else earlier), *new]
        reply = self._reply(stream, messages, str(resume[-1]["interruptId"]) if resume else "")
        await anext(reply, None)
        return reply

    async def _reply(
        self, stream: AsyncGenerator[Mapping[str, Any]], messages: list[AguiMessage], answered: str
    ) -> Reply:
        """The events of an AG-UI run as events of goalport; the first one is None, once the run was not refused.

        `messages` are the messages of the conversation then. `answered` is the id of the question that is answered.
        """
        texts, sent, steps, begun, failure = defaultdict[str, str](str), list[str](), 0, False, ""
        async with aclosing(stream):
            async for event in stream:
                if event["type"] == "RUN_ERROR" and not begun and event.get("code") != "turn-failed":
                    raise _refusal(event, answered)
                if not begun and event["type"] not in _BEFORE_REFUSALS:
                    begun, self._messages, self._interrupts = True, messages, ()
                    yield None
                match event["type"]:
                    case "TEXT_MESSAGE_CONTENT":
                        texts[event["messageId"]] += event["delta"]
                        yield MessageDelta(event["messageId"], event["delta"])
                    case "TEXT_MESSAGE_END":
                        sent.append(texts.pop(event["messageId"], ""))
                        self._messages.append({"id": event["messageId"], "role": "assistant", "content": sent[-1]})
                        yield MessageSent(event["messageId"], sent[-1])
                    case "STEP_STARTED":
                        steps += 1
                        yield ActionStarted(event["stepName"], steps, steps)
                    case "RUN_ERROR":
                        failure = event["message"]
                    case _:
                        self._update_from(event)
                        yield _event_of(event)
        yield ReplyEnd(sent, self._interrupts, failure, finished=bool(self._conversation.get("finished")))

    @property
    def _conversation(self) -> Mapping[str, Any]:
        """The part of the AG-UI state about the conversation."""
        return self._state.get("goalport", {}).get("conversation", {})

    def _update_from(self, event: Mapping[str, Any]) -> None:
        """Store what an event of a run says about the conversation."""
        match event["type"]:
            case "STATE_SNAPSHOT":
                self._state = {**event["snapshot"]}
            case "STATE_DELTA":
                for each in event["delta"]:  # goalport only sets members below "goalport"
                    *_, owner, name = each["path"].split("/")
                    if owner == "goalport":
                        self._state = {**self._state, owner: {**self._state.get(owner, {}), name: each["value"]}}
            case "MESSAGES_SNAPSHOT":
                spoken = (each for each in event["messages"] if each["role"] in {"user", "assistant"})
                self._messages = [each for each in spoken if each.get("content")]
            case "RUN_FINISHED":
                outcome: Mapping[str, Any] = event.get("outcome") or {}
                self._interrupts = [
                    {**(each.get("metadata") or {}), **each, "schema": each.get("responseSchema") or {}}
                    for each in outcome.get("interrupts", ())
                ]
            case _:
                pass
        self.id = self._conversation.get("id", self.id)


def _event_of(event: Mapping[str, Any]) -> Event | None:
    """The event of goalport for an event of an AG-UI run, if that one needs no other events."""
    value: Mapping[str, Any] = event.get("value") or {}
    match event["type"], event.get("name"):
        case "REASONING_MESSAGE_CONTENT", _:
            return MessageDelta(event["messageId"], event["delta"], thinking=True)
        case "TOOL_CALL_START", _:
            return ToolCalled(event["toolCallName"], "")
        case "CUSTOM", "goalport.progress":
            return ProgressUpdated(value["message"])
        case "CUSTOM", "goalport.sources":
            return SourcesShown(value["reference"], "", value["query"], tuple(value["sources"]))
        case "CUSTOM", "goalport.compacted":
            sizes = value["messages"], value["tokensBefore"], value["tokensAfter"]
            return ConversationCompacted("", value["what"], *sizes)
        case _:
            return None


def _refusal(error: Mapping[str, Any], answered: str) -> GoalportError:
    """The error for a run that was refused; `answered` is the id of the question that it answers, or empty."""
    code, message = str(error.get("code", "")), str(error["message"])
    if answered and code in {"already-answered", "declined", "expired", "withdrawn"}:
        return AlreadyAnswered(answered, code.removeprefix("already-"))
    if answered and code == "invalid-answer":
        return BadInput(message, [line.removeprefix("- ") for line in message.splitlines() if line.startswith("- ")])
    return BadInput(message)
