"""Chatbots and conversations with them: of a platform in this program, or of a running server.

Whoever may read the store of a workspace sees the conversations of all callers, may go on with every one, and speaks
for the caller whose it is. A server is talked to over its AG-UI door: a thread of it is a conversation, and a message
or an answer is a run, which streams its events. What AG-UI has no request for, such as lists of conversations, is for
the commands that read the store.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
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
from goalport.cli.served import ServerClient
from goalport.cli.workspace import LoadedWorkspace, failure_in_words, unexpected_error
from goalport.models.llm import UserMessage
from goalport.runtime.chat import ChatSession, Turn
from goalport.runtime.process import find_question, new_id
from goalport.server.publish.forms import form_of
from goalport.server.publish.resources import question_view

Question = Mapping[str, Any]
"""A question as JSON data, with `id`, `message` and `schema`."""
Message = Mapping[str, Any]
_AGENTS: Final = "/agui"
_QUIET: Final = frozenset({"RUN_STARTED", "STATE_SNAPSHOT", "STATE_DELTA"})
"""The events that come before it is known whether a run was refused."""
_LEFT: Final = "You follow the reply no longer; the server finishes it, unless its chatbot says otherwise."


class Said(NamedTuple):
    """A message of a conversation."""

    id: str
    role: str
    text: str
    after: str = ""
    """The id of the message before it; empty for the first."""


class ReplyEnd(NamedTuple):
    """How a reply has ended."""

    texts: Sequence[str] = ()
    """What the chatbot has said."""
    questions: Sequence[Question] = ()
    """What has to be answered before it goes on."""
    failure: str = ""
    """Why there is no reply, or only a part of one; empty: nothing has failed."""
    error: BaseException | None = None
    """The exception of the author's code by which it failed, where it ran here."""
    finished: bool = False
    """Whether the conversation has reached its goal, so that nothing more is answered."""


class Reply(NamedTuple):
    """A reply that comes."""

    events: AsyncGenerator[Event]
    """What happens until it has come."""
    end: Callable[[], Awaitable[ReplyEnd]]
    """Wait until it has come."""
    cancel: Callable[[], str]
    """Stop it; the conversation goes on. What is said of that."""


def _questions_alone(questions: Sequence[Question]) -> Reply:
    """A reply of which nothing more comes than these questions."""

    async def nothing() -> AsyncGenerator[Event]:
        return
        yield

    async def end() -> ReplyEnd:
        return ReplyEnd(questions=questions)

    return Reply(nothing(), end, str)


class ChatsHere:
    """The chatbots and conversations of a platform in this program."""

    def __init__(self, loaded: LoadedWorkspace, options: str = "") -> None:
        self._loaded = loaded
        self.conversations = loaded.platform.conversations
        self.options = options
        """The options that name the place again in another command, with a space before them."""
        self.chatbots: Mapping[str, str] = {name: each.description for name, each in loaded.platform.chatbots.items()}
        """What each chatbot is for, by its name."""

    async def begin(self, chatbot: str, conversation_id: str = "") -> "DialogueHere":
        """Begin a conversation. Raises `BadInput` if there is one of that id already."""
        if conversation_id and await self.conversations.find(conversation_id, READER) is not None:
            raise BadInput(f"There is a conversation {conversation_id!r} already. Leave out --new to go on with it.")
        found = self._loaded.platform.chatbots.named(chatbot)
        return DialogueHere(self._loaded, await found.create_session(OPERATOR, conversation_id=conversation_id))

    async def open(self, conversation_id: str, chatbot: str) -> "DialogueHere":
        """Go on with a conversation. Raises `UnknownName`. A server has to be told which chatbot it is with."""
        conversation = await self.conversations.get(conversation_id, READER)
        found = self._loaded.platform.chatbots.named(conversation.record.chatbot)
        session = await found.find_session(conversation_id, conversation.record.caller)
        assert session is not None
        return DialogueHere(self._loaded, session)


class DialogueHere:
    """A conversation with a chatbot that runs in this program."""

    def __init__(self, loaded: LoadedWorkspace, session: ChatSession) -> None:
        self._loaded, self._session = loaded, session
        self.id = session.conversation.id
        self.chatbot = session.chatbot.name

    @property
    def said(self) -> Sequence[Said]:
        """What people and the chatbot have said, the oldest first."""
        return [Said(each.id, each.role, each.text, each.parent) for each in self._session.conversation.entries]

    @property
    def questions(self) -> Sequence[Question]:
        """What is open."""
        return [*map(question_view, self._session.questions)]

    async def say(self, text: str, after: str | None = None) -> Reply:
        """Say something; `after` is the id of the message that it follows, if that is not the last one."""
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
        """What has become of a question: open, answered, declined, expired or withdrawn."""
        process = await self._loaded.platform.processes.peek(self._session.process_id)
        return find_question(process, question_id)[1].status

    async def follow(self) -> Reply | None:
        """The reply that comes now, whoever asked, or that ended with questions which are open; None: there is none."""
        turn = await self._session.follow()
        if turn is not None:
            return self._reply(turn)
        return _questions_alone(self.questions) if self.questions else None

    def _reply(self, turn: Turn) -> Reply:
        async def end() -> ReplyEnd:
            result = await turn.result()
            error = unexpected_error(turn.process) if result.failure else None
            root = self._loaded.workspace.root
            return ReplyEnd(
                texts=[each.text for each in result.messages],
                questions=[*map(question_view, result.questions)],
                failure=result.failure if error is None else failure_in_words(result.failure, error, root),
                error=error,
                finished=result.finished,
            )

        def cancel() -> str:
            turn.cancel("The reply was stopped with Ctrl-C.")
            return "Stopped."

        return Reply(turn.events(), end, cancel)


class _Run:
    """What a run of the AG-UI door tells; an interrupt at its end is a question.

    Parameters: `messages` are those of the conversation before it. `state` is what the server told in earlier runs.
    """

    def __init__(self, messages: Sequence[Message] = (), state: Mapping[str, Any] | None = None) -> None:
        self.messages: list[Message] = [*messages]
        self.state: dict[str, Any] = {**(state or {})}
        self.questions: Sequence[Question] = ()
        self.sent: list[str] = []
        self.failure = ""
        self._steps = 0
        self._texts: defaultdict[str, str] = defaultdict(str)

    @property
    def conversation(self) -> Mapping[str, Any]:
        """What the server has told of the conversation."""
        return self.state.get("goalport", {}).get("conversation", {})

    def event_of(self, told: Mapping[str, Any]) -> Event | None:  # noqa: C901 - a line or two for each kind
        """The event of goalport that an event of the run tells; what else it tells is kept."""
        match told["type"]:
            case "TEXT_MESSAGE_CONTENT":
                self._texts[told["messageId"]] += told["delta"]
                return MessageDelta(told["messageId"], told["delta"])
            case "TEXT_MESSAGE_END":
                text = self._texts.pop(told["messageId"], "")
                self.sent.append(text)
                self.messages.append({"id": told["messageId"], "role": "assistant", "content": text})
                return MessageSent(told["messageId"], text)
            case "REASONING_MESSAGE_CONTENT":
                return MessageDelta(told["messageId"], told["delta"], thinking=True)
            case "STEP_STARTED":
                self._steps += 1
                return ActionStarted(told["stepName"], self._steps, self._steps)
            case "TOOL_CALL_START":
                return ToolCalled(told["toolCallName"], "")
            case "CUSTOM":
                value: Mapping[str, Any] = told["value"]
                match told["name"]:
                    case "goalport.progress":
                        return ProgressUpdated(value["message"])
                    case "goalport.sources":
                        return SourcesShown(value["reference"], "", value["query"], tuple(value["sources"]))
                    case "goalport.compacted":
                        sizes = value["messages"], value["tokensBefore"], value["tokensAfter"]
                        return ConversationCompacted("", value["what"], *sizes)
                    case _:
                        return None
            case "STATE_SNAPSHOT":
                self.state = {**told["snapshot"]}
            case "STATE_DELTA":
                for each in told["delta"]:  # goalport sets members of its own, and changes nothing else
                    *_, owner, name = each["path"].split("/")
                    if owner == "goalport":
                        self.state = {**self.state, owner: {**self.state.get(owner, {}), name: each["value"]}}
            case "MESSAGES_SNAPSHOT":
                spoken = (each for each in told["messages"] if each["role"] in {"user", "assistant"})
                self.messages = [each for each in spoken if each.get("content")]
            case "RUN_FINISHED":
                outcome: Mapping[str, Any] = told.get("outcome") or {}
                self.questions = [
                    {**(each.get("metadata") or {}), **each, "schema": each.get("responseSchema") or {}}
                    for each in outcome.get("interrupts", ())
                ]
            case "RUN_ERROR":
                self.failure = told["message"]
            case _:
                pass
        return None


class ChatsServed:
    """The chatbots at a server, and the caller's conversations with them. `ChatsHere` tells what the methods do."""

    conversations = None
    """A server does not tell them."""

    def __init__(self, server: ServerClient, options: str, chatbots: Mapping[str, str]) -> None:
        self._server = server
        self.options = options
        self.chatbots = chatbots

    @classmethod
    async def at(cls, server: ServerClient, options: str) -> "ChatsServed":
        """Those of a server. Raises as `ServerClient.send` does."""
        agents = (await server.send("GET", _AGENTS, "agents"))["agents"]
        # A goal tells its schemas; a chatbot has none.
        found = {each["name"]: each["capabilities"] for each in agents if "custom" not in each["capabilities"]}
        return cls(server, options, {name: each["identity"].get("description", "") for name, each in found.items()})

    async def begin(self, chatbot: str, conversation_id: str = "") -> "DialogueServed":
        return DialogueServed(self._server, chatbot, conversation_id or new_id())

    async def open(self, conversation_id: str, chatbot: str) -> "DialogueServed":
        if not chatbot:
            raise BadInput(f"Say with which chatbot the conversation is: {listed(self.chatbots)}.")
        dialogue = DialogueServed(self._server, chatbot, conversation_id)
        await dialogue.look()
        return dialogue


class DialogueServed:
    """A conversation with a chatbot of a server. `DialogueHere` tells what the methods do."""

    def __init__(self, server: ServerClient, chatbot: str, conversation_id: str) -> None:
        self.chatbot = chatbot
        self._server, self._thread = server, conversation_id
        self._last = _Run()
        self._resume: dict[str, Mapping[str, Any]] = {}
        """The answers that are sent once each open question has one."""
        self._looked: Reply | None = None

    @property
    def id(self) -> str:
        return self._last.conversation.get("id", self._thread)

    @property
    def said(self) -> Sequence[Said]:
        found: list[Said] = []
        for each in self._last.messages:
            content = each.get("content") or ""
            if not isinstance(content, str):
                parts = cast("Sequence[Mapping[str, Any]]", content)
                content = "\n".join(str(part["text"]) for part in parts if part["type"] == "text")
            found.append(Said(each["id"], each["role"], content, found[-1].id if found else ""))
        return found

    @property
    def questions(self) -> Sequence[Question]:
        return [each for each in self._last.questions if each["id"] not in self._resume]

    async def look(self) -> None:
        """Learn what was said, or follow the reply that comes."""
        self._looked = await self._run([])

    async def follow(self) -> Reply | None:
        looked, self._looked = self._looked, None
        return looked

    async def say(self, text: str, after: str | None = None) -> Reply:
        message = {"id": new_id(), "role": "user", "content": text}
        if after is None:
            return await self._run([message], sent=[message])
        earlier = self._up_to(after)
        return await self._run([*earlier, message], sent=[message], earlier=earlier)

    async def again(self) -> Reply:
        asked = next((each["id"] for each in reversed(self._last.messages) if each["role"] == "user"), None)
        if asked is None:
            raise BadInput("Nobody has said anything yet, so there is nothing to answer again.")
        earlier = self._up_to(asked)
        return await self._run(earlier, earlier=earlier)

    async def answer(self, question_id: str, response: object, declined: str = "") -> Reply:
        entry = {"status": "cancelled"} if declined else {"status": "resolved", "payload": response}
        self._resume[question_id] = {"interruptId": question_id, **entry}
        if self.questions:
            return _questions_alone(self.questions)
        resume, self._resume = [*self._resume.values()], {}
        return await self._run([], resume=resume)

    async def status(self, question_id: str) -> str:
        return "open"  # whether it is, is known when it is answered

    def _up_to(self, message_id: str) -> list[Message]:
        if not message_id:
            return []
        messages = self._last.messages
        place = next(number for number, each in enumerate(messages) if each["id"] == message_id)
        return [*messages[: place + 1]]

    async def _run(
        self,
        messages: Sequence[Message],
        *,
        sent: Sequence[Message] = (),
        earlier: Sequence[Message] | None = None,
        resume: Sequence[Mapping[str, Any]] = (),
    ) -> Reply:
        """Begin a run, and read until it tells something. Raises what it was refused for.

        `sent`: what the conversation gets besides; `earlier`: it is forked after these messages.
        """
        body = {
            "threadId": self._thread,
            "runId": new_id(),
            "messages": [*messages],
            "state": {} if earlier is None else self._last.state,
            "tools": [],
            "context": [],
            "forwardedProps": {},
            **({"resume": [*resume]} if resume else {}),
        }
        run = _Run([*(self._last.messages if earlier is None else earlier), *sent], self._last.state)
        stream = self._server.stream(f"{_AGENTS}/{quote(self.chatbot, safe='')}", body)
        first: list[Event | None] = []
        async for each in stream:
            first.append(run.event_of(each))
            if each["type"] == "RUN_ERROR" and each.get("code") != "turn-failed":
                await stream.aclose()
                raise _refusal(each, [str(one["interruptId"]) for one in resume])
            if each["type"] not in _QUIET:
                break
        self._last = run

        async def events() -> AsyncGenerator[Event]:
            for event in filter(None, first):
                yield event
            async with aclosing(stream):
                async for told in stream:
                    if (event := run.event_of(told)) is not None:
                        yield event

        async def end() -> ReplyEnd:
            await stream.aclose()
            finished = bool(run.conversation.get("finished"))
            return ReplyEnd(run.sent, run.questions, run.failure, finished=finished)

        return Reply(events(), end, lambda: _LEFT)


def _refusal(error: Mapping[str, Any], answered: Sequence[str]) -> GoalportError:
    """The error for a run that was refused; `answered` are the questions that it had answers to."""
    code, message = str(error.get("code", "")), str(error["message"])
    if answered and code in {"already-answered", "declined", "expired", "withdrawn"}:
        return AlreadyAnswered(answered[-1], code.removeprefix("already-"))
    if answered and code == "invalid-answer":
        return BadInput(message, [line.removeprefix("- ") for line in message.splitlines() if line.startswith("- ")])
    return BadInput(message)
