"""The conversation of one request with a model: it is asked and its tool calls are made, in turns, until one answers.

Each request to the model has its budget check, events, span, cost and journal record; when a model fails, the next
fallback is asked. The calls of one reply are made in order or at the same time, each within its time-out. The failure
of a tool is a result for the model; a `Signal`, which steers the process, ends the loop. The loop knows no provider:
the conversation is a list of messages. Above: `structured_output` and `LlmEngine`; below: the `LanguageModel`.
"""

import logging
import sys
from collections.abc import AsyncGenerator, Callable, Generator, Iterator, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final

import anyio
from opentelemetry.trace import Span

from goalport.base.errors import (
    GoalportError,
    InvalidModelOutput,
    ModelError,
    ModelNotReady,
    ModelRefused,
    ModelUnavailable,
    TerminateAgent,
    ToolNotFound,
    TooManyTurns,
)
from goalport.base.events import ModelCalled, ModelReplied, ModelRetried, ProgressUpdated, ToolCalled, ToolReturned
from goalport.base.observe.spans import model_span, note_contents, note_reply, note_tool, tool_span
from goalport.base.secrecy import hide
from goalport.models.llm import (
    AssistantMessage,
    LanguageModel,
    LlmOperations,
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
    ToolCall,
    ToolReply,
    ToolSpec,
    UserMessage,
    has_images,
)
from goalport.runtime.ai.engine import (
    TOOL_CONTEXT,
    Engine,
    Operation,
    ReplyRecord,
    Request,
    SentPrompts,
)
from goalport.runtime.ai.toolbox import CompletedCall, LongResults, Toolbox, ToolOffers, arguments_of
from goalport.tools import ContextValue, Interruption, Tool, ToolResult, current_call_site

_log = logging.getLogger(__name__)
_FALLS_BACK = (ModelNotReady, ModelRefused, ModelUnavailable)
"""The failures after which another model may answer."""
_ROLES = {SystemMessage: "system", UserMessage: "user", AssistantMessage: "assistant", ToolReply: "tool"}
_SHOWN: Final = 2_000
"""Characters of a result that its event shows."""
CUT_OFF: Final = "it was cut off before its end; allow more with `with_llm(max_tokens=…)`, or ask for less"
_NUDGE: Final = "You answered nothing. Answer now, with what you have."
_NUDGE_AFTER_TOOLS: Final = "You answered nothing. Answer now, with what the tools gave, or call another one."
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
                call = self._call(messages)
                await self._prepare(messages)
                with self._asking(call, streamed=True) as asked:
                    async with aclosing(self.model.stream(replace(call, on_partial_usage=asked.take))) as pieces:
                        async for each in pieces:
                            piece, begun = asked.receive(each) if isinstance(each, ModelReply) else each, True
                            if record and isinstance(piece, ModelReply):
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
        note_reply(
            self.span, usage.spent, model=reply.model, finish=reply.finish, cached_tokens=usage.cache_read_tokens
        )
        said = ((_ROLES[type(each)], each.content) for each in self.call.messages)
        note_contents(self.span, said, reply_text(reply))
        return reply


def reply_text(reply: ModelReply) -> str:
    """The JSON text of the object if the reply has one, else its text."""
    return reply.message.content if reply.output is None else reply.output


@dataclass(frozen=True, slots=True)
class ToolCalls:
    """Makes the tool calls of one request as part of an operation."""

    tools: Toolbox
    operation: Operation
    settings: LlmOperations
    engine: Engine
    """The engine for tools that ask models themselves."""

    async def run(self, calls: Sequence[ToolCall]) -> list[CompletedCall]:
        """The result of each call, in the order of the calls.

        A `Signal` from one call cancels the others and is raised; among several, one that ends the process. An
        `Interruption` is raised after all calls have ended.
        """
        if len(calls) == 1 or not self.settings.parallel_tools:
            return [await self._call(call) for call in calls]
        found: dict[int, CompletedCall] = {}
        ends: dict[int, GoalportError] = {}
        interruptions: list[Interruption] = []

        async def run_one(number: int, call: ToolCall) -> None:
            try:
                found[number] = await self._call(call)
            except GoalportError as error:
                ends[number] = error
                group.cancel_scope.cancel()
            except Interruption as interruption:
                interruptions.append(interruption)

        async with anyio.create_task_group() as group:
            for number, call in enumerate(calls):
                group.start_soon(run_one, number, call)
        if ends:
            raise next((each for each in ends.values() if isinstance(each, TerminateAgent)), ends[min(ends)])
        if interruptions:
            raise interruptions[0]
        return [found[number] for number in range(len(calls))]

    async def _call(self, call: ToolCall) -> CompletedCall:
        tool, arguments = self.tools.tools.get(call.name), arguments_of(call)
        if tool is not None:
            site = current_call_site()
            if site is not None and not isinstance(arguments, str) and site.remembers(tool, arguments):
                # From the journal of an action that runs again: no event is sent, and the tool does no work.
                return CompletedCall(call, tool, await tool.call(arguments))
            await self.operation.before_turn(call.name)
        process_id, action = self.operation.place
        about: dict[str, Any] = {"process_id": process_id, "tool": call.name, "action": action, "call_id": call.id}
        self.operation.emit(ToolCalled(**about, arguments=call.arguments))
        started = monotonic()
        if tool is None:
            result = ToolResult.of_error(self.tools.correction(call.name))
        else:
            with tool_span(call.name, call_id=call.id, description=tool.description) as span:
                result = await self._result(tool, arguments)
                note_tool(span, arguments=call.arguments, result=result.text, is_error=result.is_error)
        seconds, shown = monotonic() - started, result.text[:_SHOWN]
        self.operation.emit(ToolReturned(**about, seconds=seconds, is_error=result.is_error, result=shown))
        return CompletedCall(call, tool, result)

    async def _result(self, tool: Tool, arguments: dict[str, object] | str) -> ToolResult:
        if isinstance(arguments, str):
            return ToolResult.of_error(arguments)
        seconds = self.settings.tool_timeout
        here = TOOL_CONTEXT.get()._replace(engine=lambda: self.engine)
        with ContextValue(TOOL_CONTEXT, here), anyio.move_on_after(seconds if tool.timed else None):
            return await tool.call(arguments)
        return ToolResult.of_error(
            f"The tool {tool.name!r} gave nothing within {seconds:g} seconds. Ask it for less, or do without it."
        )


@dataclass(frozen=True, slots=True)
class FinalAnswer:
    """What ended a loop: the model's answer, or the result of a tool that is returned directly."""

    reply: ModelReply
    """The last reply of the model."""
    direct: ToolResult | None = None
    """The result of a tool that takes the place of the model's answer; None: the model answered."""

    @property
    def text(self) -> str:
        """The answer as text."""
        return reply_text(self.reply) if self.direct is None else self.direct.text


@dataclass(slots=True)
class ToolLoop:
    """The conversation of one request with a model. Run again, it continues where it was."""

    requests: ModelRequests
    calls: ToolCalls
    messages: list[Message]
    """The conversation so far, without the final answer."""
    offers: "ToolOffers" = field(init=False)
    """Which tools the model is offered in the next turn."""
    _tool_turns: int = field(default=0, init=False)
    _unknown: int = field(default=0, init=False)
    """Replies in a row that called only tools that do not exist."""
    _nudged: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        long = LongResults(self.calls.settings.tool_result_characters)
        self.offers = ToolOffers(self.calls.tools, self.requests.request.interaction, long)
        if self.requests.tools:  # a request that is to be answered without tools has none
            self._offer()

    def _offer(self) -> None:
        self.calls = replace(self.calls, tools=self.offers.offered())
        self.requests.tools = self.calls.tools.specs

    async def run(self) -> FinalAnswer:
        """Ask until there is an answer.

        Raises `TooManyTurns`, `ToolNotFound`, `ModelRefused`, the errors of the model, and the `Signal` of a tool or
        of the operation.
        """
        while (answer := await self._after(await self.requests.reply(self.messages))) is None:
            pass
        return answer

    async def stream(self) -> AsyncGenerator[TextDelta | ThinkingDelta | FinalAnswer]:
        """The same, with the pieces that the model writes; the last item is the final answer."""
        answer: FinalAnswer | None = None
        while answer is None:
            replies: list[ModelReply] = []
            async with aclosing(self.requests.stream(self.messages)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelReply):
                        replies.append(piece)
                    else:
                        yield piece
            answer = await self._after(replies[-1])  # the stream has ended: calling tools is no part of the request
        yield answer

    async def _after(self, reply: ModelReply) -> FinalAnswer | None:
        """The final answer, or None when another turn follows."""
        if reply.finish == "refusal":
            reason = reply_text(reply) or "it gave no reason"
            raise ModelRefused(f"The model {self.requests.model.card.name!r} will not answer this: {reason}")
        direct = None
        if reply.message.calls:
            self._nudged = False
            direct = await self._call_tools(reply)
            if direct is None:
                return None
        elif not (self._nudged or self.calls.settings.empty_reply == "accept" or reply_text(reply).strip()):
            self._nudged = True
            after_tools = isinstance(self.messages[-1], ToolReply)
            self.messages.append(UserMessage(_NUDGE_AFTER_TOOLS if after_tools else _NUDGE))
            return None
        if self.requests.request.on_reply is not None:
            self.requests.request.on_reply(reply)
        return FinalAnswer(reply, direct)

    async def _call_tools(self, reply: ModelReply) -> ToolResult | None:
        """Make the calls of a reply; the result of a tool that is returned directly, or None: the model goes on."""
        calls, last = reply.message.calls, reply.message.calls[-1]
        # No tool is called with half of its arguments, and a model that is asked again would be cut off again.
        if reply.finish == "length" and (isinstance(arguments_of(last), str) or not arguments_of(last)):
            raise InvalidModelOutput(f"call of {last.name}", [CUT_OFF], last.arguments)
        self._tool_turns += 1
        if self._tool_turns >= self.calls.settings.max_turns:
            raise TooManyTurns(self._tool_turns)
        called: list[CompletedCall] = []
        if not self.offers.depend(calls):
            called = await self.calls.run(calls)
        for each in calls[len(called) :]:  # calls that depend on each other are made one after another
            tools = self.calls.tools.only(self.offers.offered(called).tools)
            called += await replace(self.calls, tools=tools).run([each])
        called = self.offers.after(called)
        for each in called:
            if self.requests.request.on_artifact and each.result.artifact is not None and not each.result.is_error:
                self.requests.request.on_artifact(each.result.artifact)
        replies = self.offers.replies(called, sees=self.requests.model.card.vision is not False)
        self._offer()
        self._unknown = 0 if any(each.tool for each in called) else self._unknown + 1
        if self._unknown > self.calls.settings.unknown_tool_attempts:
            raise ToolNotFound(calls[0].name, self.calls.tools.tools)
        direct = next((each.result for each in called if each.is_direct), None)
        if direct is None:
            self.messages += [reply.message, *replies]
        return direct
