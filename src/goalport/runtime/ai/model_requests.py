"""The requests to a model that one `Request` takes: each with its budget check, events, span, cost and journal record.

When a model fails, the next fallback is asked. Above: `tool_loop` says what is asked; below: the `LanguageModel`.
"""

import logging
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, aclosing, contextmanager
from dataclasses import dataclass, field, replace
from time import monotonic

from opentelemetry.trace import Span

from goalport.base.errors import ModelError, ModelNotReady, ModelRefused, ModelUnavailable
from goalport.base.events import ModelCalled, ModelReplied, ModelRetried, ProgressUpdated
from goalport.base.observe.spans import model_span, note_contents, note_reply
from goalport.base.secrecy import hide
from goalport.models.llm import (
    AssistantMessage,
    LanguageModel,
    LlmOptions,
    Message,
    ModelCall,
    ModelCard,
    ModelReply,
    OutputSpec,
    Retry,
    SystemMessage,
    TextDelta,
    ThinkingDelta,
    TokenUsage,
    ToolReply,
    ToolSpec,
    UserMessage,
    has_images,
)
from goalport.runtime.ai.engine import Operation, ReplyRecord, SentPrompts
from goalport.runtime.ai.interaction import Request

_log = logging.getLogger(__name__)
_FALLS_BACK = (ModelNotReady, ModelRefused, ModelUnavailable)
"""The failures after which another model may answer."""


@dataclass(slots=True)
class ModelRequests:
    """Asks a model for one reply after another, for one request of an `Ai`."""

    model: LanguageModel
    operation: Operation
    interaction: str
    """The name of the prompt, for events and spans."""
    request: Request
    """The request of the `Ai`."""
    timeout: float
    """Seconds that one attempt may take when neither the options nor the provider's settings say."""
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    fallbacks: Iterator[tuple[LanguageModel, LlmOptions]] = field(default_factory=lambda: iter(()))
    """The models that are asked when one fails; the one that answers is asked from then on."""
    options: LlmOptions | None = None
    """The options of the model that is asked now; None: those of the request."""
    ended: Callable[[str, float, bool], None] = lambda _model, _seconds, _failed: None
    """Called after each request with the model, the seconds, and whether the model failed."""
    turn: int = field(default=0, init=False)
    """The number of replies that were asked for."""
    _first: str = field(init=False)
    """The name of the first model; a fallback may answer in its place."""
    _prompts: SentPrompts = field(init=False)

    def __post_init__(self) -> None:
        self._first = self.model.card.name
        self._prompts = self.operation.prompts

    async def reply(self, messages: Sequence[Message]) -> ModelReply:
        """Ask, and wait for the whole reply. Raises `ModelError`, and a `Signal` when the budget is spent."""
        record = self._record(messages)
        while (reply := record.reply) is None:
            try:
                call, state = self._call(messages), _RequestState(self.model.card.name)
                await self._prepare(messages)
                with self._reporting(call, state), self._span(streamed=False) as span:
                    reply = _priced(await self.model.reply(call), self.model.card)
                    self._received(reply, state, call, span)
            except _FALLS_BACK as failure:
                self._fall_back(failure)
            else:
                await record.keep(reply)
                break
        return reply

    async def stream(self, messages: Sequence[Message]) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The same piece by piece; the last item is the whole reply. Once pieces were given, no fallback is asked."""
        record, begun = self._record(messages), False
        if record.reply is not None:
            for piece in _recorded_pieces(record.reply):
                yield piece
            return
        while True:
            try:
                async with aclosing(self._stream(messages)) as pieces:
                    async for piece in pieces:
                        begun = True
                        if isinstance(piece, ModelReply):
                            await record.keep(piece)
                        yield piece
                return
            except _FALLS_BACK as failure:
                if begun:
                    raise
                self._fall_back(failure)

    def _fall_back(self, failure: ModelError) -> None:
        """Ask the next model from now on. Raises the failure when there is no other."""
        other = next(self.fallbacks, None)
        if other is None:
            raise failure
        self.model, self.options = other
        message = f"{failure} The model {self.model.card.name} is asked instead."
        _log.warning("%s", message)
        self.operation.emit(ProgressUpdated(message, process_id=self.operation.place[0]))

    def _record(self, messages: Sequence[Message]) -> ReplyRecord:
        """The place for the reply, whichever model gives it: an action that runs again asks no model that failed."""
        self.turn += 1
        return self.operation.record(self._first, self._call(messages))

    async def _stream(self, messages: Sequence[Message]) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        state = _RequestState(self.model.card.name)
        call = replace(self._call(messages), on_partial_usage=state.take)
        await self._prepare(messages)
        with self._reporting(call, state), self._span(streamed=True) as span:
            async with aclosing(self.model.stream(call)) as pieces:
                async for each in pieces:
                    piece = _priced(each, self.model.card) if isinstance(each, ModelReply) else each
                    if isinstance(piece, ModelReply):
                        self._received(piece, state, call, span)
                    yield piece

    async def _prepare(self, messages: Sequence[Message]) -> None:
        """Wait for the operation. Raises `ModelRefused` when a user shows an image and the model takes none."""
        if self.model.card.vision is False and has_images(messages):
            raise ModelRefused(
                f"The model {self.model.card.name!r} takes no images. Choose one that does, with `with_llm`."
            )
        await self.operation.before_turn("")

    def _call(self, messages: Sequence[Message]) -> ModelCall:
        return ModelCall(
            messages=tuple(messages),
            options=self.options or self.request.interaction.llm,
            timeout=self.timeout,
            tools=self.tools,
            output=self.output,
            on_retry=self._report_retry,
            origin=self.request,
        )

    def _report_retry(self, retry: Retry) -> None:
        """Send the wait for a provider as an event, so that observers see that the process is alive."""
        process_id, action = self.operation.place
        which = f"attempt {retry.attempt + 1} of {retry.attempts} in {retry.delay_seconds:.1f} s"
        message = f"The model {self.model.card.name} did not answer, {which}: {retry.error}"
        self.operation.emit(ModelRetried(message, action, process_id=process_id))

    def _span(self, *, streamed: bool) -> AbstractContextManager[Span]:
        card = self.model.card
        return model_span(
            card.name,
            provider=card.provider,
            interaction=self.interaction,
            output="json" if self.output else "text",
            streamed=streamed,
            settings=dict(self.options or self.request.interaction.llm),
        )

    @contextmanager
    def _reporting(self, call: ModelCall, state: "_RequestState") -> Generator[None]:
        process_id, action = self.operation.place
        self.operation.emit(
            ModelCalled(
                process_id=process_id,
                interaction=self.interaction,
                model=state.model,
                prompt=self._prompts.text(self.interaction, call),
                turn=self.turn,
                action=action,
            )
        )
        state.started = monotonic()
        try:
            yield
        finally:
            if (failed := isinstance(sys.exception(), ModelError)) or state.reply:
                self.ended(state.model, monotonic() - state.started, failed)
            usage = state.reply.usage if state.reply else state.partial
            if state.reply is None and state.partial.tokens:
                self.operation.spend(state.model, state.partial, monotonic() - state.started)
            self.operation.emit(
                ModelReplied(
                    process_id=process_id,
                    interaction=self.interaction,
                    model=state.model,
                    reply=reply_text(state.reply) if state.reply else "",
                    tool_calls=tuple(each.name for each in state.reply.message.calls) if state.reply else (),
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost=usage.cost,
                    finish=state.reply.finish if state.reply else "",
                    seconds=monotonic() - state.started,
                    action=action,
                    error=None if state.reply else _failure_text(sys.exception()),
                )
            )

    def _received(self, reply: ModelReply, state: "_RequestState", call: ModelCall, span: Span) -> None:
        state.reply = reply
        if reply.finish == "length":
            _log.warning("The answer of %s for %s was cut off by max_tokens", state.model, self.interaction)
        usage = reply.usage
        self.operation.spend(state.model, usage, monotonic() - state.started)
        note_reply(
            span,
            (usage.input_tokens, usage.output_tokens, usage.cost),
            model=reply.model,
            finish=reply.finish,
            cached_tokens=usage.cache_read_tokens,
        )
        note_contents(span, map(_role_and_text, call.messages), reply_text(reply))


@dataclass(slots=True)
class _RequestState:
    """What is known of a request while it runs."""

    model: str
    """The model that is asked. The next request may go to a fallback while this one is still read."""
    reply: ModelReply | None = None
    partial: TokenUsage = field(default_factory=TokenUsage)
    """What it used when no whole reply came."""
    started: float = field(default_factory=monotonic)

    def take(self, usage: TokenUsage) -> None:
        """Note what a stream used that was closed, or broke off, before its end."""
        self.partial += usage


def _priced(reply: ModelReply, card: ModelCard) -> ModelReply:
    """A reply with what it cost: a model of somebody's own need not say so if its card has prices."""
    if reply.usage.cost or card.prices is None:
        return reply
    return replace(reply, usage=replace(reply.usage, cost=card.prices.of(reply.usage)))


def _recorded_pieces(reply: ModelReply) -> Generator[TextDelta | ThinkingDelta | ModelReply]:
    """A recorded reply as a stream."""
    if reply.message.thinking:
        yield ThinkingDelta(reply.message.thinking)
    if text := reply_text(reply):
        yield TextDelta(text)
    yield reply


def reply_text(reply: ModelReply) -> str:
    """The JSON text of the object if the reply has one, else its text."""
    return reply.message.content if reply.output is None else reply.output


def _failure_text(error: BaseException | None) -> str:
    """Why a request ended without a reply; anything but an `Exception` means that its caller cancelled it."""
    return hide(str(error)) or type(error).__name__ if isinstance(error, Exception) else "cancelled"


def _role_and_text(message: Message) -> tuple[str, str]:
    match message:
        case SystemMessage(content):
            return "system", content
        case UserMessage(content):
            return "user", content
        case AssistantMessage(content):
            return "assistant", content
        case ToolReply():
            return "tool", message.content
