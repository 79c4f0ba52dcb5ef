"""The events of a run: what happens in a process, said in the events of AG-UI.

It is a state machine without input or output: AG-UI wants each step, message and tool call opened and closed, and the
events of a process tell of them only in part. `runs` is above.
"""

from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from ag_ui.core import (
    AssistantMessage,
    BaseEvent,
    CustomEvent,
    FunctionCall,
    Message,
    ReasoningEndEvent,
    ReasoningMessageContentEvent,
    ReasoningMessageEndEvent,
    ReasoningMessageStartEvent,
    ReasoningStartEvent,
    StepFinishedEvent,
    StepStartedEvent,
    TextMessageContentEvent,
    TextMessageEndEvent,
    TextMessageStartEvent,
    TokenUsage,
    ToolCall,
    ToolCallArgsEvent,
    ToolCallEndEvent,
    ToolCallResultEvent,
    ToolCallStartEvent,
    ToolMessage,
)
from ag_ui.core.types import ReasoningMessage

from goalport.base.events import (
    ActionFinished,
    ActionStarted,
    ConversationCompacted,
    Event,
    MessageDelta,
    MessageSent,
    ModelReplied,
    PlanFormulated,
    ProgressUpdated,
    SourcesShown,
    ToolCalled,
    ToolReturned,
)
from goalport.server.doors.agui.transcript import STATE, SharedState

_NO_RESULT: Final = "The call gave no result: the run has ended."


@dataclass(slots=True)
class _Streamed:
    """A message whose pieces come one after another."""

    text: str = ""
    is_open: bool = False
    reasoning: list[ReasoningMessage] = field(default_factory=list[ReasoningMessage])
    reasons: bool = False
    """Whether a message of reasoning is open."""


class RunEvents:
    """Makes the events of one run.

    Parameters: `state` is what the front end and the server share. `elsewhere` are the names of the tools whose calls
    are not told here, since the front end makes them.
    """

    def __init__(self, state: SharedState, elsewhere: Collection[str] = ()) -> None:
        self.messages: list[Message] = []
        """The messages that the front end has made of the events: what was said, and the calls of tools."""
        self.withdrawn = False
        """Whether the front end was shown a text that is no message, because the action that wrote it failed."""
        self._state, self._elsewhere = state, elsewhere
        self._streamed: dict[str, _Streamed] = {}
        self._steps: dict[tuple[str, int], str] = {}
        self._calls: dict[tuple[str, str], str] = {}
        """The ids, for the front end, of the calls of tools whose results are still to come."""
        self._tokens: Counter[tuple[str, str]] = Counter()

    @property
    def usage(self) -> list[TokenUsage] | None:
        """The tokens that models have read and written, by model; None: no model was asked."""
        models = dict.fromkeys(model for model, _ in self._tokens)
        return [self._usage_of(each) for each in models] or None

    def of(self, event: Event) -> Iterator[BaseEvent]:
        """The events that tell of an event of a process; none for one that a front end does not need."""
        match event:
            case MessageDelta():
                yield from self._piece(event)
            case MessageSent():
                yield from self._sent(event)
            case ActionStarted():
                yield from self._started(event)
            case ActionFinished():
                yield from self._finished(event)
            case ToolCalled():
                yield from self._called(event)
            case ToolReturned():
                yield from self._returned(event)
            case PlanFormulated(goal=goal, steps=steps):
                yield from self._state.change("plan", {"goal": goal, "steps": [*steps]})
            case ProgressUpdated(message=message):
                yield _custom("progress", {"message": message})
            case SourcesShown():
                value = {"reference": event.reference, "query": event.query, "sources": [*map(dict, event.sources)]}
                yield _custom("sources", value)
            case ConversationCompacted():
                before, after = event.tokens_before, event.tokens_after
                value = {"what": event.what, "messages": event.messages, "tokensBefore": before, "tokensAfter": after}
                yield _custom("compacted", value)
            case ModelReplied(model=model):
                self._tokens[model, "in"] += event.input_tokens
                self._tokens[model, "out"] += event.output_tokens
            case _:
                pass

    def close(self) -> Iterator[BaseEvent]:
        """Close what is open, since the run ends."""
        for message_id, streamed in self._streamed.items():
            yield from self._end_reasoning(message_id, streamed)
            if streamed.is_open:
                self.withdrawn = True
                yield from self._end_text(message_id, streamed)
        for call_id in self._calls.values():
            yield self._result(call_id, _NO_RESULT, is_error=True)
        self._calls.clear()
        yield from (StepFinishedEvent(step_name=name) for name in self._steps.values())
        self._steps.clear()

    def _piece(self, piece: MessageDelta) -> Iterator[BaseEvent]:
        if not piece.text:
            return
        streamed = self._streamed.setdefault(piece.message_id, _Streamed())
        if piece.thinking:
            yield from self._reasoned(piece, streamed)
            return
        yield from self._end_reasoning(piece.message_id, streamed)
        if not streamed.is_open:
            streamed.is_open = True
            yield TextMessageStartEvent(message_id=piece.message_id, role="assistant")
        streamed.text += piece.text
        yield TextMessageContentEvent(message_id=piece.message_id, delta=piece.text)

    def _sent(self, sent: MessageSent) -> Iterator[BaseEvent]:
        streamed = self._streamed.pop(sent.message_id, _Streamed())
        yield from self._end_reasoning(sent.message_id, streamed)
        if not streamed.text:
            yield TextMessageStartEvent(message_id=sent.message_id, role="assistant")
            if sent.text:
                yield TextMessageContentEvent(message_id=sent.message_id, delta=sent.text)
            yield TextMessageEndEvent(message_id=sent.message_id)
        else:
            self.withdrawn = self.withdrawn or streamed.text != sent.text
            yield from self._end_text(sent.message_id, streamed)
        self.messages += [*streamed.reasoning, AssistantMessage(id=sent.message_id, content=sent.text)]

    def _end_text(self, message_id: str, streamed: _Streamed) -> Iterator[BaseEvent]:
        if streamed.is_open:
            streamed.is_open = False
            yield TextMessageEndEvent(message_id=message_id)

    def _reasoned(self, piece: MessageDelta, streamed: _Streamed) -> Iterator[BaseEvent]:
        if not streamed.reasons:
            streamed.reasons = True
            span = f"{piece.message_id}-reasoning-{len(streamed.reasoning) + 1}"
            streamed.reasoning.append(ReasoningMessage(id=span, content=""))
            yield ReasoningStartEvent(message_id=span)
            yield ReasoningMessageStartEvent(message_id=span, role="reasoning")
        message = streamed.reasoning[-1]
        message.content += piece.text
        yield ReasoningMessageContentEvent(message_id=message.id, delta=piece.text)

    def _end_reasoning(self, message_id: str, streamed: _Streamed) -> Iterator[BaseEvent]:
        if streamed.reasons:
            streamed.reasons = False
            yield ReasoningMessageEndEvent(message_id=streamed.reasoning[-1].id)
            yield ReasoningEndEvent(message_id=streamed.reasoning[-1].id)

    def _started(self, event: ActionStarted) -> Iterator[BaseEvent]:
        # An action that its process has twice at once, or a child process too, is another step with another name.
        running = [*self._steps.values()]
        name = event.action if event.action not in running else f"{event.action} ({event.process_id} {event.number})"
        if name not in running:
            self._steps[event.process_id, event.number] = name
            yield StepStartedEvent(step_name=name)

    def _finished(self, event: ActionFinished) -> Iterator[BaseEvent]:
        name = self._steps.pop((event.process_id, event.number), None)
        if name is not None:
            yield StepFinishedEvent(step_name=name)

    def _called(self, event: ToolCalled) -> Iterator[BaseEvent]:
        if event.tool in self._elsewhere:
            return
        # Some providers give the calls of each reply the same ids; a front end has those of a whole conversation.
        call_id = f"{event.call_id or event.tool}-{round(event.at.timestamp() * 1_000_000):x}"
        self._calls[event.process_id, event.call_id] = call_id
        function = FunctionCall(name=event.tool, arguments=event.arguments)
        self.messages.append(AssistantMessage(id=call_id, tool_calls=[ToolCall(id=call_id, function=function)]))
        yield ToolCallStartEvent(tool_call_id=call_id, tool_call_name=event.tool)
        yield ToolCallArgsEvent(tool_call_id=call_id, delta=event.arguments)
        yield ToolCallEndEvent(tool_call_id=call_id)

    def _returned(self, event: ToolReturned) -> Iterator[BaseEvent]:
        call_id = self._calls.pop((event.process_id, event.call_id), None)
        if call_id is not None:
            yield self._result(call_id, event.result, is_error=event.is_error)

    def _result(self, call_id: str, text: str, *, is_error: bool) -> BaseEvent:
        message_id, error = f"{call_id}-result", text if is_error else None
        self.messages.append(ToolMessage(id=message_id, tool_call_id=call_id, content=text, error=error))
        return ToolCallResultEvent(message_id=message_id, tool_call_id=call_id, content=text)

    def _usage_of(self, model: str) -> TokenUsage:
        read, written = self._tokens[model, "in"], self._tokens[model, "out"]
        return TokenUsage(model=model, input_tokens=read, output_tokens=written, total_tokens=read + written)


def _custom(name: str, value: Any) -> CustomEvent:
    return CustomEvent(name=f"{STATE}.{name}", value=value)
