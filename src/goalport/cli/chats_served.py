"""The chatbots of a running server, over its AG-UI door: a thread of it is a conversation.

A message or an answer is a run, which streams its events; what is open at its end are its interrupts. What AG-UI has no
request for, such as lists of conversations, is for the commands that read the store.
"""

from collections import defaultdict
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from typing import Any, Final, NoReturn, cast
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
from goalport.cli.conversations import Question, Reply, ReplyEnd, Said, questions_alone
from goalport.cli.served import ServerClient
from goalport.cli.terminal import Record
from goalport.runtime.process import new_id

Message = Mapping[str, Any]
_AGENTS: Final = "/agui"
_QUIET: Final = frozenset({"RUN_STARTED", "STATE_SNAPSHOT", "STATE_DELTA"})
"""The events that come before it is known whether a run was refused."""
_LEFT: Final = "You follow the reply no longer; the server finishes it, unless its chatbot says otherwise."
_STORE_ONLY: Final = (
    "A server does not tell that here. Use `goalport conversations` and `goalport chat` in its workspace."
)


class _Run:
    """What a run tells.

    Parameters: `messages` are those of the conversation before it. `state` is what the server told in earlier runs.
    """

    def __init__(self, messages: Sequence[Message] = (), state: Mapping[str, Any] | None = None) -> None:
        self.messages: list[Message] = [*messages]
        self.state: dict[str, Any] = {**(state or {})}
        self.questions: Sequence[Question] = ()
        self._sent: list[str] = []
        self._failure = ""
        self._steps = 0
        self._texts: defaultdict[str, str] = defaultdict(str)

    @property
    def conversation(self) -> Mapping[str, Any]:
        """What the server has told of the conversation."""
        return self.state.get("goalport", {}).get("conversation", {})

    def end(self) -> ReplyEnd:
        """How the run has ended."""
        finished = bool(self.conversation.get("finished"))
        return ReplyEnd(texts=self._sent, questions=self.questions, failure=self._failure, finished=finished)

    def event_of(self, told: Mapping[str, Any]) -> Event | None:  # noqa: C901 - a line or two for each kind
        """The event of goalport that an event of the run tells; what else it tells is kept."""
        match told["type"]:
            case "TEXT_MESSAGE_CONTENT":
                self._texts[told["messageId"]] += told["delta"]
                return MessageDelta(told["messageId"], told["delta"])
            case "TEXT_MESSAGE_END":
                text = self._texts.pop(told["messageId"], "")
                self._sent.append(text)
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
                return _custom_event(told["name"], told["value"])
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
                self.questions = [_question(each) for each in outcome.get("interrupts", ())]
            case "RUN_ERROR":
                self._failure = told["message"]
            case _:
                pass
        return None


def _question(interrupt: Mapping[str, Any]) -> Question:
    return {**(interrupt.get("metadata") or {}), **interrupt, "schema": interrupt.get("responseSchema") or {}}


def _custom_event(name: str, value: Mapping[str, Any]) -> Event | None:
    match name:
        case "goalport.progress":
            return ProgressUpdated(value["message"])
        case "goalport.sources":
            return SourcesShown(value["reference"], "", value["query"], tuple(value["sources"]))
        case "goalport.compacted":
            sizes = value["messages"], value["tokensBefore"], value["tokensAfter"]
            return ConversationCompacted("", value["what"], *sizes)
        case _:
            return None


class ChatsServed:
    """The chatbots at a server, and the caller's conversations with them. `ChatsHere` tells what the methods do."""

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

    async def latest(self, chatbot: str) -> NoReturn:
        raise BadInput("A server does not tell which conversation was the last. Name it: --conversation ID")

    async def page(self, search: str, limit: int) -> Sequence[Record]:
        raise BadInput(_STORE_ONLY)

    async def rename(self, conversation_id: str, title: str) -> None:
        raise BadInput(_STORE_ONLY)

    async def export(self, conversation_id: str) -> Mapping[str, Any]:
        raise BadInput(_STORE_ONLY)


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
        before = ["", *(each["id"] for each in self._last.messages)]
        return [
            Said(each["id"], each["role"], _text(each), after)
            for each, after in zip(self._last.messages, before, strict=False)
        ]

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
            return questions_alone(self.questions)
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
            return run.end()

        return Reply(events(), end, lambda: _LEFT)


def _refusal(error: Mapping[str, Any], answered: Sequence[str]) -> GoalportError:
    """The error for a run that was refused; `answered` are the questions that it had answers to."""
    code, message = str(error.get("code", "")), str(error["message"])
    if answered and code in {"already-answered", "declined", "expired", "withdrawn"}:
        return AlreadyAnswered(answered[-1], code.removeprefix("already-"))
    if answered and code == "invalid-answer":
        return BadInput(message, [line.removeprefix("- ") for line in message.splitlines() if line.startswith("- ")])
    return BadInput(message)


def _text(message: Message) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    parts = cast("Sequence[Mapping[str, Any]]", content)
    return "\n".join(str(each["text"]) for each in parts if each["type"] == "text")
