"""The chatbots of a running server, over its AG-UI door: a thread of it is a conversation.

A message or an answer is a run, which streams its events; what is open at its end are its interrupts. What AG-UI has no
request for, such as lists of conversations, is for the commands that read the store. Above: `chat`; below:
`server_client`.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, cast
from urllib.parse import quote

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
from goalport.cli.dialogues import EndedReply, Question, Reply, ReplyEnd, Said
from goalport.cli.server_client import ServerClient
from goalport.cli.terminal import Record
from goalport.runtime.process import new_id

Message = Mapping[str, Any]
_SPOKEN: Final = frozenset({"user", "assistant"})


class ReplyEvents:
    """What a run tells.

    Parameters: `messages` are those of the conversation before it. `state` is what the server told in earlier runs.
    """

    def __init__(self, messages: Iterable[Message] = (), state: Mapping[str, Any] | None = None) -> None:
        self.messages: list[Message] = [*messages]
        self.state: dict[str, Any] = {**(state or {})}
        self.questions: Sequence[Question] = ()
        self._sent: list[str] = []
        self._failure = ""
        self._steps = 0
        self._texts: defaultdict[str, str] = defaultdict(str)

    def after(self, messages: Iterable[Message], sent: Iterable[Message]) -> "ReplyEvents":
        """What the next run tells, which begins with these messages and what is sent with it."""
        return ReplyEvents([*messages, *sent], self.state)

    @property
    def conversation(self) -> Mapping[str, Any]:
        """What the server has told of the conversation."""
        return self.state.get("goalport", {}).get("conversation", {})

    @property
    def end(self) -> ReplyEnd:
        """How the run has ended."""
        finished = bool(self.conversation.get("finished"))
        return ReplyEnd(texts=self._sent, questions=self.questions, failure=self._failure, finished=finished)

    def of(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """The events of goalport that an event of the run tells."""
        handle = _HANDLERS.get(told["type"])
        return iter(()) if handle is None else handle(self, told)

    def piece(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """A piece of a text."""
        self._texts[told["messageId"]] += told["delta"]
        yield MessageDelta(told["messageId"], told["delta"])

    def thought(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """A piece of a thought."""
        yield MessageDelta(told["messageId"], told["delta"], thinking=True)

    def whole(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """The end of a text."""
        text = self._texts.pop(told["messageId"], "")
        self._sent.append(text)
        self.messages.append({"id": told["messageId"], "role": "assistant", "content": text})
        yield MessageSent(told["messageId"], text)

    def step(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """A step that begins."""
        self._steps += 1
        yield ActionStarted(told["stepName"], self._steps, self._steps)

    def tool(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """A call of a tool."""
        yield ToolCalled(told["toolCallName"], "")

    def custom(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """What AG-UI has no event for."""
        value = told["value"]
        match told["name"]:
            case "goalport.progress":
                yield ProgressUpdated(value["message"])
            case "goalport.sources":
                yield SourcesShown(value["reference"], "", value["query"], tuple(value["sources"]))
            case "goalport.compacted":
                sizes = value["messages"], value["tokensBefore"], value["tokensAfter"]
                yield ConversationCompacted("", value["what"], *sizes)
            case _:
                pass

    def snapshot(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """The whole state."""
        self.state = {**told["snapshot"]}
        return iter(())

    def change(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """A member of the state; a goalport sets members of its own, and changes nothing else."""
        for each in told["delta"]:
            *_, owner, name = each["path"].split("/")
            if owner == "goalport":
                self.state = {**self.state, owner: {**self.state.get(owner, {}), name: each["value"]}}
        return iter(())

    def history(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """All messages of the conversation."""
        self.messages = [each for each in told["messages"] if each["role"] in _SPOKEN and each.get("content")]
        return iter(())

    def finish(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """The end of a run that was not refused."""
        outcome: Mapping[str, Any] = told.get("outcome") or {}
        self.questions = [_question(each) for each in outcome.get("interrupts", ())]
        return iter(())

    def fail(self, told: Mapping[str, Any]) -> Iterator[Event]:
        """The end of a run that failed."""
        self._failure = told["message"]
        return iter(())


_HANDLERS: Final[Mapping[str, Callable[[ReplyEvents, Mapping[str, Any]], Iterator[Event]]]] = {
    "TEXT_MESSAGE_CONTENT": ReplyEvents.piece,
    "TEXT_MESSAGE_END": ReplyEvents.whole,
    "REASONING_MESSAGE_CONTENT": ReplyEvents.thought,
    "STEP_STARTED": ReplyEvents.step,
    "TOOL_CALL_START": ReplyEvents.tool,
    "CUSTOM": ReplyEvents.custom,
    "STATE_SNAPSHOT": ReplyEvents.snapshot,
    "STATE_DELTA": ReplyEvents.change,
    "MESSAGES_SNAPSHOT": ReplyEvents.history,
    "RUN_FINISHED": ReplyEvents.finish,
    "RUN_ERROR": ReplyEvents.fail,
}


def _question(interrupt: Mapping[str, Any]) -> Question:
    """An interrupt as the question that it is."""
    return {**(interrupt.get("metadata") or {}), **interrupt, "schema": interrupt.get("responseSchema") or {}}


_AGENTS: Final = "/agui"
_QUIET: Final = frozenset({"RUN_STARTED", "STATE_SNAPSHOT", "STATE_DELTA"})
"""The events that come before it is known whether a run was refused."""
_LEFT: Final = "You follow the reply no longer; the server finishes it, unless its chatbot says otherwise."
_STORE_ONLY: Final = (
    "A server does not tell that here. Use `goalport conversations` and `goalport chat` in its workspace."
)
_SETTLED: Final = frozenset({"already-answered", "declined", "expired", "withdrawn"})


class ChatsServed:
    """The chatbots at a server, and the caller's conversations with them."""

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

    async def latest(self, chatbot: str) -> str:
        raise BadInput("A server does not tell which conversation was the last. Name it: --conversation ID")

    async def page(self, search: str, limit: int) -> Sequence[Record]:
        raise BadInput(_STORE_ONLY)

    async def rename(self, conversation_id: str, title: str) -> None:
        raise BadInput(_STORE_ONLY)

    async def export(self, conversation_id: str) -> Mapping[str, Any]:
        raise BadInput(_STORE_ONLY)


class DialogueServed:
    """A conversation with a chatbot of a server."""

    def __init__(self, server: ServerClient, chatbot: str, conversation_id: str) -> None:
        self.chatbot = chatbot
        self._server, self._thread = server, conversation_id
        self._told = ReplyEvents()
        self._resume: dict[str, Mapping[str, Any]] = {}
        """The answers that are sent once each open question has one."""
        self._looked: _ReplyServed | None = None

    @property
    def id(self) -> str:
        return self._told.conversation.get("id", self._thread)

    @property
    def said(self) -> Sequence[Said]:
        before = ["", *(each["id"] for each in self._told.messages)]
        return [
            Said(each["id"], each["role"], _text(each), after)
            for each, after in zip(self._told.messages, before, strict=False)
        ]

    @property
    def questions(self) -> Sequence[Question]:
        return [each for each in self._told.questions if each["id"] not in self._resume]

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
        asked = next((each["id"] for each in reversed(self._told.messages) if each["role"] == "user"), None)
        if asked is None:
            raise BadInput("Nobody has said anything yet, so there is nothing to answer again.")
        earlier = self._up_to(asked)
        return await self._run(earlier, earlier=earlier)

    async def answer(self, question_id: str, response: object, declined: str = "") -> Reply:
        entry = {"status": "cancelled"} if declined else {"status": "resolved", "payload": response}
        self._resume[question_id] = {"interruptId": question_id, **entry}
        if self.questions:
            return EndedReply(ReplyEnd(questions=self.questions))
        resume, self._resume = [*self._resume.values()], {}
        return await self._run([], resume=resume)

    async def status(self, question_id: str) -> str:
        return "open"  # whether it is, is known when it is answered

    def _up_to(self, message_id: str) -> list[Mapping[str, Any]]:
        if not message_id:
            return []
        messages = self._told.messages
        place = next(number for number, each in enumerate(messages) if each["id"] == message_id)
        return [*messages[: place + 1]]

    async def _run(
        self,
        messages: Sequence[Mapping[str, Any]],
        *,
        sent: Sequence[Mapping[str, Any]] = (),
        earlier: Sequence[Mapping[str, Any]] | None = None,
        resume: Sequence[Mapping[str, Any]] = (),
    ) -> "_ReplyServed":
        """Begin a run. `sent`: what the conversation gets besides; `earlier`: it is forked after these messages."""
        body = {
            "threadId": self._thread,
            "runId": new_id(),
            "messages": [*messages],
            "state": {} if earlier is None else self._told.state,
            "tools": [],
            "context": [],
            "forwardedProps": {},
            **({"resume": [*resume]} if resume else {}),
        }
        told = self._told.after(self._told.messages if earlier is None else earlier, sent)
        events = self._server.stream(f"{_AGENTS}/{quote(self.chatbot, safe='')}", body)
        reply = _ReplyServed(told, events)
        await reply.begin([str(each["interruptId"]) for each in resume])
        self._told = told
        return reply


class _ReplyServed:
    """A run that goes on."""

    def __init__(self, told: ReplyEvents, events: AsyncGenerator[Mapping[str, Any]]) -> None:
        self._told, self._events = told, events
        self._first: list[Event] = []

    async def begin(self, answered: Sequence[str]) -> None:
        """Read until something is told. Raises what the run was refused for."""
        async for each in self._events:
            self._first += self._told.of(each)
            if each["type"] == "RUN_ERROR" and each.get("code") != "turn-failed":
                await self._events.aclose()
                raise _refusal(each, answered)
            if each["type"] not in _QUIET:
                return

    async def events(self) -> AsyncGenerator[Event]:
        for each in self._first:
            yield each
        async with aclosing(self._events) as events:
            async for told in events:
                for each in self._told.of(told):
                    yield each

    async def end(self) -> ReplyEnd:
        await self._events.aclose()
        return self._told.end

    def cancel(self) -> str:
        return _LEFT


def _refusal(error: Mapping[str, Any], answered: Sequence[str]) -> GoalportError:
    """The error for a run that was refused."""
    code, message = str(error.get("code", "")), str(error["message"])
    if answered and code in _SETTLED:
        return AlreadyAnswered(answered[-1], code.removeprefix("already-"))
    if answered and code == "invalid-answer":
        return BadInput(message, [line.removeprefix("- ") for line in message.splitlines() if line.startswith("- ")])
    return BadInput(message)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Mapping[str, Any]]", content)
    return "\n".join(str(each["text"]) for each in parts if each["type"] == "text")
