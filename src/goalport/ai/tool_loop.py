"""The tool loop: the model is asked and its tool calls are made, in turns, until the model or a tool answers.

It knows no provider: the conversation is a list of messages. Above: `structured_output` and `LlmEngine`; below:
`model_requests` asks the model, `tool_calls` calls the tools.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from goalport.ai.model_requests import ModelRequests, reply_text
from goalport.ai.tool_calls import CompletedCall, ToolCalls, arguments_of
from goalport.ai.toolbox import Toolbox, UnfoldingTool
from goalport.errors import InvalidModelOutput, ModelRefused, ToolNotFound, TooManyTurns
from goalport.llm import AssistantMessage, Message, ModelReply, TextDelta, ThinkingDelta, ToolReply, UserMessage
from goalport.tools import ToolResult

__all__ = ["CUT_OFF", "FinalAnswer", "ToolLoop"]

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
class ToolLoop:
    """The conversation of one request with a model. Run again, it continues where it was."""

    requests: ModelRequests
    calls: ToolCalls
    messages: list[Message]
    """The conversation so far, without the final answer."""
    _tool_turns: int = field(default=0, init=False)
    _unknown: int = field(default=0, init=False)
    """Replies in a row that called only tools that do not exist."""
    _nudged: bool = field(default=False, init=False)

    async def run(self) -> FinalAnswer:
        """Ask until there is an answer.

        Raises `TooManyTurns`, `ToolNotFound`, `ModelRefused`, the errors of the model, and the `Signal` of a tool or
        of the operation.
        """
        while True:
            reply = await self.requests.reply(self.messages)
            answer = await self._after(reply)
            if answer is not None:
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
        if reply.message.calls:
            self._check_whole(reply)
            self._nudged = False
            return await self._call_tools(reply)
        if self._is_nudged(reply):
            after_tools = isinstance(self.messages[-1], ToolReply)
            self.messages.append(UserMessage(_NUDGE_AFTER_TOOLS if after_tools else _NUDGE))
            return None
        return self._end(FinalAnswer(reply))

    def _end(self, answer: FinalAnswer) -> FinalAnswer:
        if self.requests.request.on_reply is not None:
            self.requests.request.on_reply(answer.reply)
        return answer

    def _check_whole(self, reply: ModelReply) -> None:
        """Refuse to call a tool with half of its arguments: a model that is asked again would be cut off again."""
        last = reply.message.calls[-1]
        if reply.finish == "length" and (isinstance(arguments_of(last), str) or not arguments_of(last)):
            raise InvalidModelOutput(f"call of {last.name}", [CUT_OFF], last.arguments)

    async def _call_tools(self, reply: ModelReply) -> FinalAnswer | None:
        self._tool_turns += 1
        if self._tool_turns >= self.calls.settings.max_turns:
            raise TooManyTurns(self._tool_turns)
        called = self._unfold(await self.calls.run(reply.message.calls))
        self._count_unknown(reply.message, known=any(each.tool for each in called))
        direct = next((each.result for each in called if each.is_direct), None)
        if direct is not None:
            return self._end(FinalAnswer(reply, direct))
        sees = self.requests.model.card.vision is not False
        self.messages += [reply.message, *(each.reply(sees=sees) for each in called)]
        return None

    def _unfold(self, called: Sequence[CompletedCall]) -> list[CompletedCall]:
        """Pass on the artifacts of tools, and offer the tools behind unfolding tools from now on."""
        on_artifact = self.requests.request.on_artifact
        for each in called:
            if on_artifact is not None and each.result.artifact is not None and not each.result.is_error:
                on_artifact(each.result.artifact)
        results, tools = _offered_after(called, self.calls.tools)
        self.calls = replace(self.calls, tools=tools)
        self.requests.tools = tools.specs
        return results

    def _count_unknown(self, message: AssistantMessage, *, known: bool) -> None:
        self._unknown = 0 if known else self._unknown + 1
        if self._unknown > self.calls.settings.unknown_tool_attempts:
            raise ToolNotFound(message.calls[0].name, self.calls.tools.tools)

    def _is_nudged(self, reply: ModelReply) -> bool:
        if self.calls.settings.empty_reply == "accept" or self._nudged or reply_text(reply).strip():
            return False
        self._nudged = True
        return True


def _offered_after(called: Sequence[CompletedCall], box: Toolbox) -> tuple[list[CompletedCall], Toolbox]:
    """The completed calls, and the tools that are offered from now on, those behind unfolding tools among them.

    Where a tool gets another name because its own is taken, the result says so. When one of the unfolding tools is
    exclusive, only the tools that were unfolded in this turn remain.
    """
    results: list[CompletedCall] = []
    unfolded = {each.call.name: each.tool for each in called if _unfolds(each)}
    if any(each.fold.exclusive for each in unfolded.values() if isinstance(each, UnfoldingTool)):
        box = Toolbox({name: tool for name, tool in box.tools.items() if name in unfolded})
    for each in called:
        tool = each.tool
        if isinstance(tool, UnfoldingTool) and _unfolds(each):
            arguments = arguments_of(each.call)
            chosen = tool.fold.chosen({} if isinstance(arguments, str) else arguments)
            box, renamed = box.plus(each.call.name, chosen)
            notes = "".join(f"\nHere {own!r} is called {name!r}." for own, name in renamed)
            results.append(replace(each, result=replace(each.result, text=each.result.text + notes)))
        else:
            results.append(each)
    return results, box


def _unfolds(called: CompletedCall) -> bool:
    return isinstance(called.tool, UnfoldingTool) and not called.result.is_error
