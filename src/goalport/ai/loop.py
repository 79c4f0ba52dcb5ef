"""The tool loop: a model and tools, back and forth, until the model answers or a tool does.

Provider-neutral: what goes between is a list of messages. Above: `binding` and `LlmEngine`; below: `asking` asks the
model, `calling` calls the tools.
"""

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from typing import Final

from goalport.ai.asking import Asking, reply_text
from goalport.ai.calling import Called, ToolCalls, arguments_of
from goalport.ai.unfolding import unfold
from goalport.errors import InvalidModelOutput, ModelRefused, ToolNotFound, TooManyTurns
from goalport.llm import AssistantMessage, Message, ModelReply, TextDelta, ThinkingDelta, ToolReply, UserMessage
from goalport.tools import ToolResult

__all__ = ["CUT_OFF", "Ended", "ToolLoop"]

CUT_OFF: Final = "it was cut off before its end; allow more with `with_llm(max_tokens=…)`, or ask for less"
_NUDGE: Final = "You answered nothing. Answer now, with what you have."
_NUDGE_AFTER_TOOLS: Final = "You answered nothing. Answer now, with what the tools gave, or call another one."


@dataclass(frozen=True, slots=True)
class Ended:
    """How a loop ended: by the model's answer, or by the result of a tool that is returned as it is."""

    reply: ModelReply
    direct: ToolResult | None = None

    @property
    def text(self) -> str:
        """What was answered, as text."""
        return reply_text(self.reply) if self.direct is None else self.direct.text


@dataclass(slots=True)
class ToolLoop:
    """One request's conversation with a model; run again, it goes on where it was."""

    asking: Asking
    calls: ToolCalls
    messages: list[Message]
    """All that was said; the answer itself is not added."""
    _rounds: int = field(default=0, init=False)
    _unknown: int = field(default=0, init=False)
    """Replies in a row that called nothing but tools which are not there."""
    _nudged: bool = field(default=False, init=False)

    async def run(self) -> Ended:
        """Ask until there is an answer.

        Raises `TooManyTurns`, `ToolNotFound`, `ModelRefused`, what a model raises, and a `Signal` of a tool or of the
        operation as it is.
        """
        while True:
            reply = await self.asking.reply(self.messages)
            ended = await self._after(reply)
            if ended is not None:
                return ended

    async def stream(self) -> AsyncGenerator[TextDelta | ThinkingDelta | Ended]:
        """The same with what the model writes as it writes it; the last item is the end."""
        ended: Ended | None = None
        while ended is None:
            replies: list[ModelReply] = []
            async with aclosing(self.asking.stream(self.messages)) as pieces:
                async for piece in pieces:
                    if isinstance(piece, ModelReply):
                        replies.append(piece)
                    else:
                        yield piece
            ended = await self._after(replies[-1])  # the stream has ended: calling tools is no part of the request
        yield ended

    async def _after(self, reply: ModelReply) -> Ended | None:
        """What a reply leads to: the end, or another turn (None)."""
        if reply.finish == "refusal":
            said = reply_text(reply) or "it gave no reason"
            raise ModelRefused(f"The model {self.asking.model.card.name!r} will not answer this: {said}")
        if reply.message.calls:
            self._check_whole(reply)
            self._nudged = False
            return await self._call_tools(reply)
        if self._is_nudged(reply):
            after_tools = isinstance(self.messages[-1], ToolReply)
            self.messages.append(UserMessage(_NUDGE_AFTER_TOOLS if after_tools else _NUDGE))
            return None
        return self._end(Ended(reply))

    def _end(self, ended: Ended) -> Ended:
        if self.asking.request.on_reply is not None:
            self.asking.request.on_reply(ended.reply)
        return ended

    def _check_whole(self, reply: ModelReply) -> None:
        """Refuse to call a tool with half of its arguments; a model that is asked again is cut off again."""
        last = reply.message.calls[-1]
        if reply.finish == "length" and (isinstance(arguments_of(last), str) or not arguments_of(last)):
            raise InvalidModelOutput(f"call of {last.name}", [CUT_OFF], last.arguments)

    async def _call_tools(self, reply: ModelReply) -> Ended | None:
        self._rounds += 1
        if self._rounds >= self.calls.settings.max_turns:
            raise TooManyTurns(self._rounds)
        called = self._unfold(await self.calls.run(reply.message.calls))
        self._count_unknown(reply.message, known=any(each.tool for each in called))
        direct = next((each.result for each in called if each.is_direct), None)
        if direct is not None:
            return self._end(Ended(reply, direct))
        sees = self.asking.model.card.vision is not False
        self.messages += [reply.message, *(each.reply(sees=sees) for each in called)]
        return None

    def _unfold(self, called: Sequence[Called]) -> list[Called]:
        """Take what tools gave, and offer the tools that they stand for."""
        on_artifact = self.asking.request.on_artifact
        for each in called:
            if on_artifact is not None and each.result.artifact is not None and not each.result.is_error:
                on_artifact(each.result.artifact)
        results, tools = unfold(called, self.calls.tools)
        self.calls = replace(self.calls, tools=tools)
        self.asking.tools = tools.specs
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
