"""The events of an AG-UI run as the events of goalport, and what they say of the conversation.

It is a state machine without input or output: it is told each event as JSON. Above: `chats_served`.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

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
from goalport.cli.dialogues import Question, ReplyEnd

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
