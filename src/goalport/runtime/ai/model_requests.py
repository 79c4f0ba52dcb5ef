"""The requests to a model that one `Request` takes: each with its budget check, events, span, cost and journal record.

When a model fails, the next fallback is asked. Above: `tool_loop` says what is asked; below: the `LanguageModel`.
"""

import logging
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any

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
from goalport.runtime.ai.engine import Operation, ReplyRecord, Request, SentPrompts

_log = logging.getLogger(__name__)
_FALLS_BACK = (ModelNotReady, ModelRefused, ModelUnavailable)
"""The failures after which another model may answer."""
_ROLES = {SystemMessage: "system", UserMessage: "user", AssistantMessage: "assistant", ToolReply: "tool"}
Choices = Iterator[tuple[LanguageModel, LlmOptions]]
"""The models that may be asked, one after another, each with its options."""


@dataclass(slots=True)
class ModelRequests:
    """Asks a model for one reply after another, for one request of an `Ai`."""

    model: LanguageModel
    options: LlmOptions
    operation: Operation
    interaction: str
    """The name of the prompt, for events and spans."""
    request: Request
    """The request of the `Ai`."""
    timeout: float
    """Seconds that one attempt may take when neither the options nor the provider's settings say."""
    fallbacks: Choices
    """The models that are asked when one fails; the one that answers is asked from then on."""
    ended: Callable[[str, float, bool], None]
    """Called after each request with the model, the seconds, and whether the model failed."""
    tools: tuple[ToolSpec, ...] = ()
    output: OutputSpec | None = None
    turn: int = field(default=0, init=False)
    """The number of replies that were asked for."""
    _first: str = field(init=False)
    """The name of the first model; a fallback may answer in its place."""
    _prompts: SentPrompts = field(init=False)

    def __post_init__(self) -> None:
        self._first = self.model.card.name
        self._prompts = self.operation.prompts or SentPrompts()

    async def reply(self, messages: Sequence[Message]) -> ModelReply:
        """Ask, and wait for the whole reply. Raises `ModelError`, and a `Signal` when the budget is spent."""
        record = self._record(messages)
        reply = record.reply if record else None
        while reply is None:
            try:
                call = self._call(messages)
                await self._prepare(messages)
                with self._asking(call, streamed=False) as state:
                    reply = state.receive(await self.model.reply(call))
            except _FALLS_BACK as failure:
                self._fall_back(failure)
            else:
                if record:
                    await record.keep(reply)
        return reply

    async def stream(self, messages: Sequence[Message]) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The same piece by piece; the last item is the whole reply. Once pieces were given, no fallback is asked."""
        record, begun = self._record(messages), False
        if record and (recorded := record.reply):
            if recorded.message.thinking:
                yield ThinkingDelta(recorded.message.thinking)
            if text := reply_text(recorded):
                yield TextDelta(text)
            yield recorded
            return
        while True:
            try:
                async with aclosing(self._stream(messages)) as pieces:
                    async for piece in pieces:
                        begun = True
                        if record and isinstance(piece, ModelReply):
                            await record.keep(piece)
                        yield piece
                return
            except _FALLS_BACK as failure:
                if begun:
                    raise
                self._fall_back(failure)

    async def _stream(self, messages: Sequence[Message]) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        call = self._call(messages)
        await self._prepare(messages)
        with self._asking(call, streamed=True) as state:
            async with aclosing(self.model.stream(replace(call, on_partial_usage=state.take))) as pieces:
                async for piece in pieces:
                    yield state.receive(piece) if isinstance(piece, ModelReply) else piece

    def _fall_back(self, failure: ModelError) -> None:
        """Ask the next model from now on. Raises the failure when there is no other."""
        other = next(self.fallbacks, None)
        if other is None:
            raise failure
        self.model, self.options = other
        message = f"{failure} The model {self.model.card.name} is asked instead."
        _log.warning("%s", message)
        self.operation.emit(ProgressUpdated(message, process_id=self.operation.place[0]))

    def _record(self, messages: Sequence[Message]) -> ReplyRecord | None:
        """The place for the reply, whichever model gives it: an action that runs again asks no model that failed."""
        self.turn += 1
        return self.operation.record(self._first, self._call(messages))

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
            options=self.options,
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

    @contextmanager
    def _asking(self, call: ModelCall, *, streamed: bool) -> Generator["_Asked"]:
        """A block in which a model is asked: with a span, with events before and after it, and its cost counted."""
        process_id, action = self.operation.place
        about: dict[str, Any] = {"process_id": process_id, "interaction": self.interaction, "action": action}
        card, prompt = self.model.card, self._prompts.text(self.interaction, call)
        self.operation.emit(ModelCalled(**about, model=card.name, prompt=prompt, turn=self.turn))
        span = model_span(
            card.name,
            provider=card.provider,
            interaction=self.interaction,
            output="json" if self.output else "text",
            streamed=streamed,
            settings=dict(self.options),
        )
        asked = _Asked(self, self.model, call)
        try:
            with span as asked.span:
                yield asked
        finally:
            reply, error, seconds = asked.reply, sys.exception(), monotonic() - asked.started
            if (failed := isinstance(error, ModelError)) or reply:
                self.ended(card.name, seconds, failed)
            usage = reply.usage if reply else asked.partial
            if reply is None and usage.tokens:
                self.operation.spend(card.name, usage, seconds)
            # Anything but an `Exception` means that the caller cancelled the request.
            told = hide(str(error)) or type(error).__name__ if isinstance(error, Exception) else "cancelled"
            self.operation.emit(
                ModelReplied(
                    **about,
                    model=card.name,
                    reply=reply_text(reply) if reply else "",
                    tool_calls=tuple(each.name for each in reply.message.calls) if reply else (),
                    input_tokens=usage.input_tokens,
                    output_tokens=usage.output_tokens,
                    cost=usage.cost,
                    finish=reply.finish if reply else "",
                    seconds=seconds,
                    error=None if reply else told,
                )
            )


@dataclass(slots=True)
class _Asked:
    """What is known of a request while it runs. The next one may go to a fallback while this one is still read."""

    requests: ModelRequests
    model: LanguageModel
    call: ModelCall
    span: Span = field(init=False)
    reply: ModelReply | None = None
    partial: TokenUsage = field(default_factory=TokenUsage)
    """What it used when no whole reply came."""
    started: float = field(default_factory=monotonic)

    def take(self, usage: TokenUsage) -> None:
        """Note what a stream used that was closed, or broke off, before its end."""
        self.partial += usage

    def receive(self, reply: ModelReply) -> ModelReply:
        """Note the whole reply and count its cost: a model of somebody's own need not say it if its card has prices."""
        card, interaction = self.model.card, self.requests.interaction
        if not reply.usage.cost and card.prices is not None:
            reply = replace(reply, usage=replace(reply.usage, cost=card.prices.of(reply.usage)))
        self.reply, usage = reply, reply.usage
        if reply.finish == "length":
            _log.warning("The answer of %s for %s was cut off by max_tokens", card.name, interaction)
        self.requests.operation.spend(card.name, usage, monotonic() - self.started)
        spent = usage.input_tokens, usage.output_tokens, usage.cost
        note_reply(self.span, spent, model=reply.model, finish=reply.finish, cached_tokens=usage.cache_read_tokens)
        said = ((_ROLES[type(each)], each.content) for each in self.call.messages)
        note_contents(self.span, said, reply_text(reply))
        return reply


def reply_text(reply: ModelReply) -> str:
    """The JSON text of the object if the reply has one, else its text."""
    return reply.message.content if reply.output is None else reply.output
