"""What a run sends to a front end: messages, the shared state and the events of AG-UI.

A front end sends all its messages with each run, also those for tool calls and reasoning; only the messages of the user
and the chatbot count for the conversation. AG-UI wants a start and an end for each step, message and tool call, which
the events of a process have only in part. Nothing here reads, writes or waits. Above: the runs.
"""

import base64
import binascii
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, cast

from ag_ui import core as ag

from goalport.base.errors import BadInput
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
from goalport.models.llm import AssistantMessage, Image, Message, UserMessage
from goalport.runtime.chat import ConversationMessage, compare

STATE: Final = "goalport"
"""The member of the shared state that the server sets. All other members belong to the front end."""
_NO_IMAGE: Final = "only images that come with the message are taken: a part of type image, with a source of type data"


@dataclass(frozen=True, slots=True)
class NewMessage:
    """A new message of the user, with its place in the conversation."""

    message: UserMessage
    """The new message."""
    earlier: tuple[Message, ...] = ()
    """The messages before it that the conversation does not have yet."""
    after: str | None = None
    """The id of the message before it; empty: it is the first message; None: it follows the last message."""


@dataclass(frozen=True, slots=True)
class Regenerate:
    """A request for another reply to a message of the user."""

    message_id: str
    """The id of that message in the conversation."""


def find_request(
    entries: Sequence[ConversationMessage], given: Sequence[ag.Message], state: object
) -> NewMessage | Regenerate | None:
    """What is new in the messages of a front end (`given`); None if nothing needs an answer.

    `entries` is the branch of the conversation that is shown. `state` says which message was the last one when the
    front end last saw the conversation. If its messages match up to that one, or it has seen none, new messages go to
    the end, after those from elsewhere. Otherwise messages were edited, and the conversation is forked. Raises
    `BadInput` for unsupported content.
    """
    replies = {each.id: each.message for each in entries if each.role == "assistant"}
    spoken = ((each, _llm_message(each, f"messages[{number}]")) for number, each in enumerate(given))
    # If the stream of a reply was cut, the stored reply counts.
    messages = [replies.get(each.id, message) for each, message in spoken if message is not None]
    match, seen = compare(entries, messages), None
    if isinstance(state, Mapping) and isinstance(own := cast("Mapping[str, Any]", state).get(STATE), Mapping):
        conversation: object = cast("Mapping[str, object]", own).get("conversation")
        seen = cast("Mapping[str, object]", conversation).get("head") if isinstance(conversation, Mapping) else None
    if not match.tail:
        asks = bool(messages) and isinstance(messages[-1], UserMessage)
        return Regenerate(match.after) if asks and (match.after != seen or not match.forks) else None
    *earlier, last = match.tail
    if not isinstance(last, UserMessage):
        return None
    if last.is_empty:
        place = max(number for number, each in enumerate(given) if isinstance(each, ag.UserMessage))
        problem = f"messages[{place}].content: should have a text or an image, but is empty"
        raise BadInput(problem, [problem])
    is_edited = match.forks and match.after != (seen or "")
    return NewMessage(last, tuple(earlier), match.after if is_edited else None)


def _llm_message(message: ag.Message, place: str = "messages") -> Message | None:
    """A message of the user or the chatbot for models; None for tool calls, tool results, reasoning and others."""
    match message:
        case ag.UserMessage(content=str(text)):
            return UserMessage(text)
        case ag.UserMessage(content=parts):
            texts = [each.text for each in parts if isinstance(each, ag.TextPart)]
            shown = [(number, each) for number, each in enumerate(parts) if not isinstance(each, ag.TextPart | str)]
            images = (_image(each, f"{place}.content[{number}]") for number, each in shown)
            return UserMessage("\n".join(texts), tuple(images))
        case ag.AssistantMessage(content=content) if content:
            return AssistantMessage(content)
        case _:
            return None


def _image(part: ag.ContentPart, place: str) -> Image:
    if not isinstance(part, ag.ImagePart) or not isinstance(part.source, ag.DataSource):
        kind = part.type if not isinstance(part, ag.ImagePart) else f"image by {part.source.type}"
        problem = f"{place}: {_NO_IMAGE}; came {kind}"
        raise BadInput(problem, [problem])
    try:
        return Image(part.source.mime_type, base64.b64decode(part.source.value, validate=True))
    except binascii.Error as error:
        problem = f"{place}.source.value: should be base64: {error}"
    except BadInput as error:
        problem = f"{place}.source: {error}"
    raise BadInput(problem, [problem])


def last_text(given: Sequence[ag.Message]) -> str:
    """The text of the user's last message. Raises `BadInput` if there is none, or it has no text."""
    message = next((each for each in reversed(given) if isinstance(each, ag.UserMessage)), None)
    read = None if message is None else _llm_message(message)
    if read is None or not read.content.strip():
        raise BadInput("Expected a message of the user with a text, but there is none.")
    return read.content


def merged(given: Sequence[ag.Message], entries: Sequence[ConversationMessage]) -> list[ag.Message]:
    """All messages that the front end has to show: those of the conversation, with its own tool calls and reasoning.

    Equal messages stay as the front end has them; those that the conversation does not have (any more) are left out.
    """
    whole: list[ag.Message] = []
    spoken, place = [_llm_message(each) for each in given], 0
    for entry in entries:
        if entry.role == "system":
            continue
        for at in range(place, len(given)):
            message = spoken[at]
            is_same = message is not None and bool(compare([entry], [message]).after)
            if message is not None and (given[at].id == entry.id or is_same):
                whole += [given[each] for each in range(place, at) if spoken[each] is None]
                # If the stream of a reply was cut, the front end has only a part.
                whole.append(given[at] if is_same else _shown(entry))
                place = at + 1
                break
        else:
            whole.append(_shown(entry))
    return whole + [given[each] for each in range(place, len(given)) if spoken[each] is None]


def _shown(entry: ConversationMessage) -> ag.Message:
    message = entry.message
    if not isinstance(message, UserMessage):
        return ag.AssistantMessage(id=entry.id, content=message.content)
    images = ((base64.b64encode(each.data).decode(), each.media_type) for each in message.images)
    parts: list[ag.ContentPart] = [
        ag.ImagePart(source=ag.DataSource(value=data, mime_type=kind)) for data, kind in images
    ]
    content = [ag.TextPart(text=message.content), *parts] if parts else message.content
    return ag.UserMessage(id=entry.id, name=entry.name or None, content=content)


class SharedState:
    """The state that a front end and the server share in one run. If it is no JSON object, no events are made."""

    def __init__(self, given: object) -> None:
        self._kept: Mapping[str, Any] | None = {} if given is None else None
        if isinstance(given, Mapping):
            self._kept = cast("Mapping[str, Any]", given)
        self._members: dict[str, object] = {}

    def snapshot(self, **members: object) -> Iterator[ag.BaseEvent]:
        """The event with the whole state, after these members of the server's part are set."""
        self._members.update(members)
        if self._kept is not None:
            yield ag.StateSnapshotEvent(snapshot={**self._kept, STATE: {**self._members}})

    def change(self, **members: object) -> Iterator[ag.BaseEvent]:
        """The events that set members of the server's part of the state; none for unchanged members."""
        for name, value in members.items():
            if name not in self._members or self._members[name] != value:
                self._members[name] = value
                if self._kept is not None:
                    patch = {"op": "add", "path": f"/{STATE}/{name}", "value": value}
                    yield ag.StateDeltaEvent.model_validate({"delta": [patch]})


@dataclass(slots=True)
class _Streamed:
    """A message that is being streamed."""

    text: str = ""
    reasoning: list[ag.ReasoningMessage] = field(default_factory=list[ag.ReasoningMessage])
    reasons: bool = False
    """Whether a message of reasoning is open."""

    def end_reasoning(self) -> Iterator[ag.BaseEvent]:
        if self.reasons:
            self.reasons = False
            yield ag.ReasoningMessageEndEvent(message_id=self.reasoning[-1].id)
            yield ag.ReasoningEndEvent(message_id=self.reasoning[-1].id)


class RunEvents:
    """Makes the events of one run.

    `state` is what the front end and the server share. `elsewhere` are the names of the tools that the front end calls
    itself; `of` makes no events for their calls.
    """

    def __init__(self, state: SharedState, elsewhere: Collection[str] = ()) -> None:
        self.messages: list[ag.Message] = []
        """The messages that the front end has built from the events: text, reasoning, tool calls and their results."""
        self.withdrawn = False
        """Whether the front end was shown text that is in no message, such as the text of an action that failed."""
        self._state, self._elsewhere = state, elsewhere
        self._streamed: dict[str, _Streamed] = {}
        self._steps: dict[tuple[str, int], str] = {}
        self._calls: dict[tuple[str, str], str] = {}
        """The front end's ids of the tool calls that have no result yet, by the ids of process and call."""
        self._tokens: Counter[tuple[str, str]] = Counter()

    @property
    def usage(self) -> list[ag.TokenUsage] | None:
        """The tokens that models have read and written, by model; None: no model was asked."""
        used: list[ag.TokenUsage] = []
        for model in dict.fromkeys(model for model, _ in self._tokens):
            read, written = self._tokens[model, "in"], self._tokens[model, "out"]
            usage = ag.TokenUsage(model=model, input_tokens=read, output_tokens=written, total_tokens=read + written)
            used.append(usage)
        return used or None

    def of(self, event: Event) -> Iterator[ag.BaseEvent]:
        """The AG-UI events for an event of a process; none if front ends do not need it."""
        match event:
            case MessageDelta() if event.text:
                yield from self._piece(event, self._streamed.setdefault(event.message_id, _Streamed()))
            case MessageSent():
                yield from self._sent(event, self._streamed.pop(event.message_id, _Streamed()))
            case ActionStarted() | ActionFinished() | ToolCalled() | ToolReturned():
                yield from self._work(event)
            case PlanFormulated(goal=goal, steps=steps):
                yield from self._state.change(plan={"goal": goal, "steps": [*steps]})
            case ProgressUpdated(message=message):
                yield _custom("progress", message=message)
            case SourcesShown():
                sources = [*map(dict, event.sources)]
                yield _custom("sources", reference=event.reference, query=event.query, sources=sources)
            case ConversationCompacted():
                tokens = {"tokensBefore": event.tokens_before, "tokensAfter": event.tokens_after}
                yield _custom("compacted", what=event.what, messages=event.messages, **tokens)
            case ModelReplied(model=model):
                self._tokens[model, "in"] += event.input_tokens
                self._tokens[model, "out"] += event.output_tokens
            case _:
                pass

    def _work(self, event: ActionStarted | ActionFinished | ToolCalled | ToolReturned) -> Iterator[ag.BaseEvent]:
        match event:
            case ActionStarted(action=name):
                # If an action runs twice at once, or in a child process too, its step gets another name.
                if name in self._steps.values():
                    name = f"{name} ({event.process_id} {event.number})"
                if name not in self._steps.values():
                    self._steps[event.process_id, event.number] = name
                    yield ag.StepStartedEvent(step_name=name)
            case ActionFinished():
                if (name := self._steps.pop((event.process_id, event.number), None)) is not None:
                    yield ag.StepFinishedEvent(step_name=name)
            case ToolCalled() if event.tool not in self._elsewhere:
                # Some providers repeat call ids in each reply; front ends need unique ones in a conversation.
                call_id = f"{event.call_id or event.tool}-{round(event.at.timestamp() * 1_000_000):x}"
                self._calls[event.process_id, event.call_id] = call_id
                yield from self.call(call_id, event.tool, event.arguments)
            case ToolReturned():
                if (call_id := self._calls.pop((event.process_id, event.call_id), None)) is not None:
                    yield self._result(call_id, event.result, is_error=event.is_error)
            case _:  # a call that the front end makes
                pass

    def call(self, call_id: str, tool: str, arguments: str) -> Iterator[ag.BaseEvent]:
        """The events of a call of a tool."""
        function = ag.FunctionCall(name=tool, arguments=arguments)
        self.messages.append(ag.AssistantMessage(id=call_id, tool_calls=[ag.ToolCall(id=call_id, function=function)]))
        yield ag.ToolCallStartEvent(tool_call_id=call_id, tool_call_name=tool)
        yield ag.ToolCallArgsEvent(tool_call_id=call_id, delta=arguments)
        yield ag.ToolCallEndEvent(tool_call_id=call_id)

    def close(self) -> Iterator[ag.BaseEvent]:
        """End all open messages, tool calls and steps, since the run ends."""
        for message_id, streamed in self._streamed.items():
            yield from streamed.end_reasoning()
            if streamed.text:
                self.withdrawn = True
                yield ag.TextMessageEndEvent(message_id=message_id)
        for call_id in self._calls.values():
            yield self._result(call_id, "The call gave no result: the run has ended.", is_error=True)
        yield from (ag.StepFinishedEvent(step_name=name) for name in self._steps.values())
        for each in (self._streamed, self._calls, self._steps):
            each.clear()

    def _piece(self, piece: MessageDelta, streamed: _Streamed) -> Iterator[ag.BaseEvent]:
        if piece.thinking:
            if not streamed.reasons:
                streamed.reasons = True
                span = f"{piece.message_id}-reasoning-{len(streamed.reasoning) + 1}"
                streamed.reasoning.append(ag.ReasoningMessage(id=span, content=""))
                yield ag.ReasoningStartEvent(message_id=span)
                yield ag.ReasoningMessageStartEvent(message_id=span, role="reasoning")
            message = streamed.reasoning[-1]
            message.content += piece.text
            yield ag.ReasoningMessageContentEvent(message_id=message.id, delta=piece.text)
            return
        yield from streamed.end_reasoning()
        if not streamed.text:
            yield ag.TextMessageStartEvent(message_id=piece.message_id, role="assistant")
        streamed.text += piece.text
        yield ag.TextMessageContentEvent(message_id=piece.message_id, delta=piece.text)

    def _sent(self, sent: MessageSent, streamed: _Streamed) -> Iterator[ag.BaseEvent]:
        yield from streamed.end_reasoning()
        if streamed.text:
            self.withdrawn = self.withdrawn or streamed.text != sent.text
        else:
            yield ag.TextMessageStartEvent(message_id=sent.message_id, role="assistant")
            if sent.text:
                yield ag.TextMessageContentEvent(message_id=sent.message_id, delta=sent.text)
        yield ag.TextMessageEndEvent(message_id=sent.message_id)
        self.messages += [*streamed.reasoning, ag.AssistantMessage(id=sent.message_id, content=sent.text)]

    def _result(self, call_id: str, text: str, *, is_error: bool) -> ag.BaseEvent:
        message_id, error = f"{call_id}-result", text if is_error else None
        self.messages.append(ag.ToolMessage(id=message_id, tool_call_id=call_id, content=text, error=error))
        return ag.ToolCallResultEvent(message_id=message_id, tool_call_id=call_id, content=text)


def _custom(name: str, **value: Any) -> ag.CustomEvent:
    return ag.CustomEvent(name=f"{STATE}.{name}", value=value)
