"""The tool loop: the model is asked and its tool calls are made, in turns, until the model or a tool answers.

The calls of one reply are made in order or at the same time, each within its time-out. The failure of a tool is a
result for the model; a `Signal`, which steers the process, ends the loop. The loop knows no provider: the conversation
is a list of messages. Above: `structured_output` and `LlmEngine`; below: `model_requests` asks the model.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import Any, Final

import anyio

from goalport.base.errors import (
    GoalportError,
    InvalidModelOutput,
    ModelRefused,
    TerminateAgent,
    ToolNotFound,
    TooManyTurns,
)
from goalport.base.events import ToolCalled, ToolReturned
from goalport.base.observe.spans import note_tool, tool_span
from goalport.models.llm import (
    LlmOperations,
    Message,
    ModelReply,
    TextDelta,
    ThinkingDelta,
    ToolCall,
    ToolReply,
    UserMessage,
)
from goalport.runtime.ai.engine import Engine, Operation, tool_context, use_tool_context
from goalport.runtime.ai.model_requests import ModelRequests, reply_text
from goalport.runtime.ai.toolbox import CompletedCall, LongResults, Toolbox, ToolOffers, arguments_of
from goalport.tools import Interruption, Tool, ToolResult, current_call_site

_SHOWN: Final = 2_000
"""Characters of a result that its event shows."""
CUT_OFF: Final = "it was cut off before its end; allow more with `with_llm(max_tokens=…)`, or ask for less"
_NUDGE: Final = "You answered nothing. Answer now, with what you have."
_NUDGE_AFTER_TOOLS: Final = "You answered nothing. Answer now, with what the tools gave, or call another one."


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
        seconds = monotonic() - started
        shown = result.text[:_SHOWN]
        self.operation.emit(ToolReturned(**about, seconds=seconds, is_error=result.is_error, result=shown))
        return CompletedCall(call, tool, result)

    async def _result(self, tool: Tool, arguments: dict[str, object] | str) -> ToolResult:
        if isinstance(arguments, str):
            return ToolResult.of_error(arguments)
        seconds = self.settings.tool_timeout
        here = tool_context()._replace(engine=lambda: self.engine)
        with use_tool_context(here), anyio.move_on_after(seconds if tool.timed else None):
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
