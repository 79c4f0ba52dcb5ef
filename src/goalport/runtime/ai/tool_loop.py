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
from operator import attrgetter
from time import monotonic
from typing import Any, Final

import anyio

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
from goalport.runtime.ai.engine import TOOL_CONTEXT, Engine, Operation, Request, SentPrompts
from goalport.runtime.ai.toolbox import CompletedCall, Toolbox, ToolOffers, arguments_of
from goalport.tools import CALL_SITE, ContextValues, Interruption, ToolResult

_log = logging.getLogger(__name__)
_FALLS_BACK = (ModelNotReady, ModelRefused, ModelUnavailable)
"""The failures after which another model may answer."""
_ROLES = {SystemMessage: "system", UserMessage: "user", AssistantMessage: "assistant", ToolReply: "tool"}
_SHOWN: Final = 2_000
"""Characters of a result that its event shows."""
CUT_OFF: Final = "it was cut off before its end; allow more with `with_llm(max_tokens=…)`, or ask for less"
_NUDGE: Final = "You answered nothing. Answer now, with what you have."
_NUDGE_AFTER_TOOLS: Final = "You answered nothing. Answer now, with what the tools gave, or call another one."


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
class _Received:
    """The result of one request to a model."""

    reply: ModelReply | None = None
    partial: list[TokenUsage] = field(default_factory=list[TokenUsage])
    """The usage of a stream that was closed, or broke off, before its end."""


@dataclass(kw_only=True, slots=True)
class ToolLoop:
    """The conversation of one request with a model. Run again, it continues where it was."""

    request: Request
    name: str
    """The name of the prompt, for events and spans."""
    messages: list[Message]
    """The conversation so far, without the final answer."""
    offers: ToolOffers
    """Which tools the model is offered in the next turn."""
    model: LanguageModel
    options: LlmOptions
    fallbacks: Iterator[tuple[LanguageModel, LlmOptions]]
    """The models that are asked when one fails; the one that answers is asked from then on."""
    operation: Operation
    settings: LlmOperations
    engine: Engine
    """The engine for tools that ask models themselves."""
    ended: Callable[[str, float, bool], None]
    """Called after each request with the model, the seconds, and whether the model failed."""
    output: OutputSpec | None = None
    offered: Toolbox = field(init=False)
    """The tools of this turn."""
    _first: str = field(init=False)
    """The name of the first model; a fallback may answer in its place."""
    _prompts: SentPrompts = field(init=False)
    _turn: int = field(default=0, init=False)
    """The number of replies that were asked for."""
    _tool_turns: int = field(default=0, init=False)
    _unknown: int = field(default=0, init=False)
    """Replies in a row that called only tools that do not exist."""
    _nudged: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        self._first, self._prompts = self.model.card.name, self.operation.prompts or SentPrompts()
        self.offered = self.offers.offered()

    async def run(self) -> FinalAnswer:
        """Ask until there is an answer.

        Raises `TooManyTurns`, `ToolNotFound`, `ModelRefused`, the errors of the model, and the `Signal` of a tool or
        of the operation.
        """
        async with aclosing(self.stream(by_piece=False)) as answers:
            return [each async for each in answers if isinstance(each, FinalAnswer)][-1]

    async def stream(self, *, by_piece: bool = True) -> AsyncGenerator[TextDelta | ThinkingDelta | FinalAnswer]:
        """The same, with the pieces that the model writes; the last item is the final answer."""
        answer: FinalAnswer | None = None
        while answer is None:
            reply: ModelReply | None = None
            async with aclosing(self._ask(by_piece=by_piece)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelReply):
                        reply = piece
                    else:
                        yield piece
            assert reply is not None
            answer = await self._after(reply)  # the stream has ended: calling tools is no part of the request
        yield answer

    async def ask_without_tools(self, messages: Sequence[Message], output: OutputSpec) -> str:
        """Ask for one object with other messages, also while an answer is streamed; returns its JSON text."""
        before = self.messages, self.offered, self.output
        self.messages, self.offered, self.output = [*messages], Toolbox({}), output
        try:
            return (await self.run()).text
        finally:
            self.messages, self.offered, self.output = before

    async def _ask(self, *, by_piece: bool) -> AsyncGenerator[TextDelta | ThinkingDelta | ModelReply]:
        """The next reply of a model; with `by_piece`, its pieces come first. After a piece, no fallback is asked.

        Raises `ModelError`, and a `Signal` when the budget is spent.
        """
        self._turn += 1
        # The record holds the reply of any model: an action that runs again asks no model that failed.
        record, begun = self.operation.record(self._first, self._call()), False
        reply = record.reply if record else None
        if reply is not None and by_piece:
            recorded = ThinkingDelta(reply.message.thinking), TextDelta(reply_text(reply))
            for delta in filter(attrgetter("text"), recorded):
                yield delta
        while reply is None:
            try:
                call = self._call()
                if self.model.card.vision is False and has_images(call.messages):
                    raise ModelRefused(
                        f"The model {self.model.card.name!r} takes no images. Choose one that does, with `with_llm`."
                    )
                await self.operation.before_turn("")
                with self._observed(call, streamed=by_piece) as received:
                    if not by_piece:
                        received.reply = self._priced(await self.model.reply(call))
                    else:
                        call = replace(call, on_partial_usage=received.partial.append)
                        async with aclosing(self.model.stream(call)) as pieces:
                            async for each in pieces:
                                begun = True
                                if isinstance(each, ModelReply):
                                    received.reply = self._priced(each)
                                else:
                                    yield each
                reply = received.reply
            except _FALLS_BACK as failure:
                if begun:
                    raise
                self._fall_back(failure)
            else:
                assert reply is not None
                if record:
                    await record.keep(reply)
        yield reply

    def _priced(self, reply: ModelReply) -> ModelReply:
        """The reply with its cost, which is computed from the prices of the card if the model did not report it."""
        prices = self.model.card.prices
        if reply.usage.cost or prices is None:
            return reply
        return replace(reply, usage=replace(reply.usage, cost=prices.of(reply.usage)))

    def _fall_back(self, failure: ModelError) -> None:
        """Ask the next model from now on. Raises the failure when there is no other."""
        other = next(self.fallbacks, None)
        if other is None:
            raise failure
        self.model, self.options = other
        message = f"{failure} The model {self.model.card.name} is asked instead."
        _log.warning("%s", message)
        self.operation.emit(ProgressUpdated(message, process_id=self.operation.place[0]))

    def _call(self) -> ModelCall:
        tools = (ToolSpec(name, each.description, each.input_schema) for name, each in self.offered.tools.items())
        return ModelCall(
            messages=tuple(self.messages),
            options=self.options,
            timeout=self.settings.default_timeout,
            tools=tuple(tools),
            output=self.output,
            on_retry=self._report_retry,
            request=self.request,
        )

    def _report_retry(self, retry: Retry) -> None:
        """Send the wait for a provider as an event, so that observers see that the process is alive."""
        process_id, action = self.operation.place
        which = f"attempt {retry.attempt + 1} of {retry.attempts} in {retry.delay_seconds:.1f} s"
        message = f"The model {self.model.card.name} did not answer, {which}: {retry.error}"
        self.operation.emit(ModelRetried(message, action, process_id=process_id))

    @contextmanager
    def _observed(self, call: ModelCall, *, streamed: bool) -> Generator[_Received]:
        """A block in which a model is asked: with a span, with events before and after it, and its cost counted."""
        process_id, action = self.operation.place
        about: dict[str, Any] = {"process_id": process_id, "interaction": self.name, "action": action}
        card, prompt = self.model.card, self._prompts.text(self.name, call)
        self.operation.emit(ModelCalled(**about, model=card.name, prompt=prompt, turn=self._turn))
        output = "json" if call.output else "text"
        about_span: dict[str, Any] = {"provider": card.provider, "interaction": self.name, "output": output}
        received, started = _Received(), monotonic()
        try:
            with model_span(card.name, **about_span, streamed=streamed, settings=dict(call.options)) as span:
                yield received
                if reply := received.reply:
                    cached = reply.usage.cache_read_tokens
                    note_reply(span, reply.usage.spent, model=reply.model, finish=reply.finish, cached_tokens=cached)
                    note_contents(span, ((_ROLES[type(m)], m.content) for m in call.messages), reply_text(reply))
        finally:
            reply, error, seconds = received.reply, sys.exception(), monotonic() - started
            if (failed := isinstance(error, ModelError)) or reply:
                self.ended(card.name, seconds, failed)
            usage = reply.usage if reply else sum(received.partial, TokenUsage())
            if reply or usage.tokens:
                self.operation.spend(card.name, usage, seconds)
            if reply and reply.finish == "length":
                _log.warning("The answer of %s for %s was cut off by max_tokens", card.name, self.name)
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

    async def _after(self, reply: ModelReply) -> FinalAnswer | None:
        """The final answer, or None when another turn follows."""
        if reply.finish == "refusal":
            reason = reply_text(reply) or "it gave no reason"
            raise ModelRefused(f"The model {self.model.card.name!r} will not answer this: {reason}")
        direct = None
        if reply.message.calls:
            self._nudged = False
            direct = await self._call_tools(reply)
            if direct is None:
                return None
        elif not (self._nudged or self.settings.empty_reply == "accept" or reply_text(reply).strip()):
            self._nudged = True
            after_tools = isinstance(self.messages[-1], ToolReply)
            self.messages.append(UserMessage(_NUDGE_AFTER_TOOLS if after_tools else _NUDGE))
            return None
        if self.request.on_reply is not None:
            self.request.on_reply(reply)
        return FinalAnswer(reply, direct)

    async def _call_tools(self, reply: ModelReply) -> ToolResult | None:
        """Make the calls of a reply; the result of a tool that is returned directly, or None: the model goes on."""
        calls, last = reply.message.calls, reply.message.calls[-1]
        # No tool is called with half of its arguments, and a model that is asked again would be cut off again.
        if reply.finish == "length" and (isinstance(arguments_of(last), str) or not arguments_of(last)):
            raise InvalidModelOutput(f"call of {last.name}", [CUT_OFF], last.arguments)
        self._tool_turns += 1
        if self._tool_turns >= self.settings.max_turns:
            raise TooManyTurns(self._tool_turns)
        called: list[CompletedCall] = []
        if self.offers.depend(calls):  # calls that depend on each other are made one after another
            for each in calls:
                tools = self.offered.only(self.offers.offered(called).tools)
                called.append(await self._run_call(each, tools))
        elif len(calls) == 1 or not self.settings.parallel_tools:
            called = [await self._run_call(each, self.offered) for each in calls]
        else:
            called = await self._run_at_once(calls)
        called = self.offers.after(called)
        for each in called:
            if self.request.on_artifact and each.result.artifact is not None and not each.result.is_error:
                self.request.on_artifact(each.result.artifact)
        replies = self.offers.replies(called, sees=self.model.card.vision is not False)
        self.offered = self.offers.offered()
        self._unknown = 0 if any(each.tool for each in called) else self._unknown + 1
        if self._unknown > self.settings.unknown_tool_attempts:
            raise ToolNotFound(calls[0].name, self.offered.tools)
        ending = (each for each in called if each.tool is not None and each.tool.return_direct)
        direct = next((each.result for each in ending if not each.result.is_error), None)
        if direct is None:
            self.messages += [reply.message, *replies]
        return direct

    async def _run_at_once(self, calls: Sequence[ToolCall]) -> list[CompletedCall]:
        """The result of each call, in the order of the calls.

        A `Signal` from one call cancels the others and is raised; among several, one that ends the process. An
        `Interruption` is raised after all calls have ended.
        """
        found: dict[int, CompletedCall] = {}
        ends: dict[int, GoalportError] = {}
        interruptions: list[Interruption] = []

        async def run_one(number: int, call: ToolCall) -> None:
            try:
                found[number] = await self._run_call(call, self.offered)
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

    async def _run_call(self, call: ToolCall, tools: Toolbox) -> CompletedCall:
        tool, arguments = tools.tools.get(call.name), arguments_of(call)
        if tool is not None:
            site = CALL_SITE.get()
            if site is not None and not isinstance(arguments, str) and site.has_result(tool, arguments):
                # From the journal of an action that runs again: no event is sent, and the tool does no work.
                return CompletedCall(call, tool, await tool.call(arguments))
            await self.operation.before_turn(call.name)
        process_id, action = self.operation.place
        about: dict[str, Any] = {"process_id": process_id, "tool": call.name, "action": action, "call_id": call.id}
        self.operation.emit(ToolCalled(**about, arguments=call.arguments))
        started, limit = monotonic(), self.settings.tool_timeout
        if tool is None:
            result = ToolResult.of_error(tools.correction(call.name))
        else:
            with tool_span(call.name, call_id=call.id, description=tool.description) as span:
                result = ToolResult.of_error(
                    f"The tool {tool.name!r} gave nothing within {limit:g} seconds. Ask it for less, or do without it."
                )
                here = TOOL_CONTEXT.get()._replace(engine=lambda: self.engine)
                with ContextValues((TOOL_CONTEXT, here)), anyio.move_on_after(limit if tool.timed else None):
                    unreadable = isinstance(arguments, str)
                    result = ToolResult.of_error(arguments) if unreadable else await tool.call(arguments)
                note_tool(span, arguments=call.arguments, result=result.text, is_error=result.is_error)
        seconds, shown = monotonic() - started, result.text[:_SHOWN]
        self.operation.emit(ToolReturned(**about, seconds=seconds, is_error=result.is_error, result=shown))
        return CompletedCall(call, tool, result)


def reply_text(reply: ModelReply) -> str:
    """The JSON text of the object if the reply has one, else its text."""
    return reply.message.content if reply.output is None else reply.output
