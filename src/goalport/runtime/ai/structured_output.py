"""Structured output: from the replies of a model to values of a type, one for a request or many in a stream.

A reply that cannot be read is asked for again; an object that breaks the rules of its type is sent back once, with what
is wrong. In a stream, JSON Lines are asked for, because every provider passes them on as they are written. An object
that was yielded cannot be taken back: an invalid object is asked for once more by itself while the stream waits, and
guards check each object first. Above: `LlmEngine`; below: `tool_loop` gives replies, `output_type` reads them.
User guide, sections 3.8.2 ("Validation") and 3.22.
"""

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, cast

import anyio
from pydantic_core import to_json

from goalport.base.errors import InvalidModelOutput
from goalport.models.llm import AssistantMessage, Message, TextDelta, ThinkingDelta, UserMessage
from goalport.runtime.ai.engine import StreamedObject
from goalport.runtime.ai.guards import GuardChain
from goalport.runtime.ai.output_type import DeclinedOutput, InvalidOutput, JsonValues, Output, OutputType, ValidOutput
from goalport.runtime.ai.tool_loop import CUT_OFF, FinalAnswer, ToolLoop

JSON_LINES: Final = (
    "Answer with JSON Lines: one JSON value per line, each complete on its own line, one line for each object, and "
    "nothing else: no list around them, no words between them. Each line is valid against this JSON Schema:\n{}"
)
"""The instruction to a model that is to write one object after another; the JSON Schema is filled in."""
_REPAIR: Final = "That does not keep to the rules:\n{}\nGive all of it again, corrected, in the same form."
_REPAIR_ONE: Final = "This one does not keep to the rules:\n{}\nGive this one again, corrected, and nothing else."
_UNREADABLE: Final = "That cannot be read: {}. Give the answer again, all of it, in the form that was asked for."
_NO_OBJECT: Final = "it holds no whole object"

ReadObject = tuple[str, object]
"""An object and its JSON text."""


async def create_value(loop: ToolLoop, output: OutputType) -> tuple[object, str]:
    """A value of the type, or None when the model declined, and the text that it was read from.

    Raises `InvalidModelOutput` when no reply could be read, or when the corrected one still breaks the rules, and what
    the loop raises.
    """
    attempts, repaired = 1, False
    while True:
        answer = await loop.run()
        # Where a tool's result takes the place of the model's answer, its object counts, else its text.
        outcome = output.take(answer.direct.artifact) if answer.direct is not None else None
        if not isinstance(outcome, ValidOutput):
            outcome = output.read(answer.text)
        if isinstance(outcome, ValidOutput):
            return outcome.value, answer.text
        if isinstance(outcome, DeclinedOutput):
            if outcome.reason:
                loop.operation.decline(outcome.reason)
            return None, answer.text
        last = attempts == loop.settings.data_binding_max_attempts or answer.direct is not None
        if last or (repaired and outcome.readable):
            raise InvalidModelOutput(output.name, outcome.violations, answer.text)
        attempts += 1
        if outcome.readable:
            repaired = True
            loop.messages += _correction(_REPAIR, answer.text, outcome)
        elif answer.reply.finish == "length":
            raise InvalidModelOutput(output.name, [CUT_OFF], answer.text)
        else:
            await _ask_again(loop, answer.text, outcome.violations[0])


def _correction(wanted: str, text: str, outcome: InvalidOutput) -> list[Message]:
    """The reply, and the request to correct it, in messages that every provider accepts."""
    lines = "\n".join(f"- {each}" for each in outcome.violations)
    return [AssistantMessage(text), UserMessage(wanted.format(lines))]


async def _ask_again(loop: ToolLoop, text: str, reason: str) -> None:
    """Add the reply, if there is any text, and why it could not be read; then wait."""
    loop.messages += [*([AssistantMessage(text)] if text.strip() else []), UserMessage(_UNREADABLE.format(reason))]
    await anyio.sleep(loop.settings.data_binding_fixed_backoff_millis / 1000)


async def stream_text(loop: ToolLoop, guards: GuardChain) -> AsyncGenerator[TextDelta | ThinkingDelta]:
    """A model's text piece by piece; where there are guards, in one piece, after they have seen it.

    The texts before and after calls of tools are separate paragraphs.
    """
    if guards.guards:
        answer = await loop.run()
        await guards.check_output(answer.text)
        yield TextDelta(answer.text)
        return
    spoken_at = None
    async with aclosing(loop.stream()) as pieces:
        async for piece in pieces:
            if isinstance(piece, ThinkingDelta):
                yield piece
            elif isinstance(piece, TextDelta) or piece.direct is not None:
                turn = None if isinstance(piece, FinalAnswer) else len(loop.messages)
                if spoken_at not in (None, turn):
                    yield TextDelta("\n\n")
                spoken_at = turn
                yield piece if isinstance(piece, TextDelta) else TextDelta(piece.text)


async def stream_objects(
    loop: ToolLoop, output: OutputType, guards: GuardChain
) -> AsyncGenerator[ThinkingDelta | StreamedObject[object]]:
    """The objects that a model writes. Guards check the JSON of each one, and each piece of thought, first.

    A reply without any object is asked for again, as often as `create_object` would. Raises `InvalidModelOutput` when
    there is still none, for an object that is still invalid, and for one that was cut off, after the objects before it
    were yielded.
    """
    reader = _ObjectReader(loop, output)
    for attempt in range(loop.settings.data_binding_max_attempts):
        if attempt:
            await _ask_again(loop, reader.text, _NO_OBJECT)
        async with aclosing(reader.pieces()) as pieces:
            async for piece in pieces:
                if isinstance(piece, ThinkingDelta):
                    await guards.check_output(piece.text)
                    yield piece
                else:
                    text, value = piece
                    await guards.check_output(text)
                    yield StreamedObject(value)
        if reader.given or reader.text.strip() in {"", "[]"}:
            return
    raise InvalidModelOutput(output.name, [_NO_OBJECT], reader.text)


@dataclass(slots=True)
class _ObjectReader:
    """Reads the objects out of the replies of a loop."""

    loop: ToolLoop
    output: OutputType
    given: int = field(default=0, init=False)
    """The number of objects that were given."""
    text: str = field(default="", init=False)
    """The whole reply, once it has ended."""

    async def pieces(self) -> AsyncGenerator[ThinkingDelta | ReadObject]:
        by_line = self.output.wrapped
        values, seen = JsonValues(lines=by_line), 0
        # Words before a tool call would pass for values, so they are kept back until the answer is whole.
        kept_back = by_line and bool(self.loop.offered.tools)
        async with aclosing(self.loop.stream()) as pieces:
            async for piece in pieces:
                match piece:
                    case ThinkingDelta():
                        yield piece
                    case TextDelta(text):
                        if seen != len(self.loop.messages):
                            values, seen = JsonValues(lines=by_line), len(self.loop.messages)
                        for value in () if kept_back else values.feed(text):
                            yield await self._read(value)
                    case FinalAnswer(direct=None):
                        for value in (*(values.feed(piece.text) if kept_back else ()), *values.end()):
                            yield await self._read(value)
                        self.text = piece.text
                        if values.unfinished and (self.given or piece.reply.finish == "length"):
                            reason = ["it was cut off before its end"]
                            raise InvalidModelOutput(self.output.name, reason, values.unfinished)
                    case FinalAnswer():  # a tool returned one object, a list of them, or their JSON as its text
                        self.text, made = piece.text, piece.direct and piece.direct.artifact
                        if made is None:
                            values = JsonValues(lines=by_line)
                            texts = (*values.feed(piece.text), *values.end())
                            read = [(each, self.output.read(each)) for each in texts]
                        else:
                            several = cast("list[object]", made) if isinstance(made, list) else [made]
                            read = [(to_json(each, fallback=str).decode(), self.output.take(each)) for each in several]
                        for each, outcome in read:
                            value = self._valid(outcome, each)
                            self.given += 1
                            yield each, value

    async def _read(self, text: str) -> ReadObject:
        """The object of a text; one that breaks the rules of its type is asked for once more, without tools."""
        self.given += 1
        outcome = self.output.read(text)
        if isinstance(outcome, InvalidOutput):
            messages = [*self.loop.messages, *_correction(_REPAIR_ONE, text, outcome)]
            text = await self.loop.ask_without_tools(messages, self.output.spec)
            outcome = self.output.read(text)
        return text, self._valid(outcome, text)

    def _valid(self, outcome: Output, text: str) -> object:
        if isinstance(outcome, ValidOutput):
            return outcome.value
        violations = outcome.violations if isinstance(outcome, InvalidOutput) else ()
        raise InvalidModelOutput(self.output.name, violations, text)
