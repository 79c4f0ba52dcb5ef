"""Text and objects of a model as it writes them: each object is given as soon as it is whole, valid and unobjected to.

A model is asked for JSON Lines, which every provider passes on as they are written. What was given cannot be taken
back: an object that breaks the rules of its type is asked for once more, by itself, while the stream stands still; and
guards see what is to be given before it is. Tools are called between the turns of a stream as anywhere else.
Above: `LlmEngine`; below: the tool loop. User guide, section 3.22.
"""

import json
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Final, cast

import anyio
from pydantic_core import to_json

from goalport.ai.binding import described_unreadable
from goalport.ai.engine import StreamedObject
from goalport.ai.guarding import Guarding
from goalport.ai.json_values import JsonValues
from goalport.ai.loop import Ended, ToolLoop
from goalport.ai.operations import LlmOperations
from goalport.ai.shapes import Bound, Outcome, OutputShape, Violating
from goalport.errors import InvalidModelOutput
from goalport.llm import AssistantMessage, TextDelta, ThinkingDelta, UserMessage

__all__ = ["form_of", "stream_objects", "stream_text"]

_FORM: Final = (
    "Answer with JSON Lines: one JSON value per line, each complete on its own line, one line for each object, and "
    "nothing else: no list around them, no words between them. Each line is valid against this JSON Schema:\n{}"
)
_REPAIR: Final = "This one does not keep to the rules:\n{}\nGive this one again, corrected, and nothing else."
_NOTHING: Final = frozenset({"", "[]"})
"""What a model may write that has no object to give."""

Given = tuple[str, object]
"""An object and its JSON text."""


def form_of(shape: OutputShape) -> str:
    """What a model is told that is to write one object after another."""
    return _FORM.format(json.dumps(shape.spec.schema))


async def stream_text(loop: ToolLoop, guarding: Guarding) -> AsyncGenerator[TextDelta | ThinkingDelta]:
    """A model's text piece by piece; where there are guards, in one piece, when they have seen it."""
    if guarding.guards:
        ended = await loop.run()
        await guarding.check_output(ended.text)
        yield TextDelta(ended.text)
        return
    async with aclosing(loop.stream()) as pieces:
        async for piece in pieces:
            if not isinstance(piece, Ended):
                yield piece
            elif piece.direct is not None:
                yield TextDelta(piece.text)


async def stream_objects(
    loop: ToolLoop, shape: OutputShape, settings: LlmOperations, guarding: Guarding
) -> AsyncGenerator[ThinkingDelta | StreamedObject[object]]:
    """The objects that a loop's model writes; guards see each one's JSON before it is given, and each piece of thought.

    A reply without any object is asked for again, as often as `create_object` would. Raises `InvalidModelOutput` when
    there still is none, for an object that is none of the type after all, and for one that was cut off; those before it
    have been given by then.
    """
    reading = _Reading(loop, shape)
    for attempt in range(settings.data_binding_max_attempts):
        if attempt:
            loop.messages += described_unreadable(reading.text, "it holds no whole object")
            await anyio.sleep(settings.data_binding_fixed_backoff_millis / 1000)
        async with aclosing(reading.pieces()) as pieces:
            async for piece in pieces:
                if isinstance(piece, ThinkingDelta):
                    await guarding.check_output(piece.text)
                    yield piece
                else:
                    text, value = piece
                    await guarding.check_output(text)
                    yield StreamedObject(value)
        if reading.given or reading.text.strip() in _NOTHING:
            return
    raise InvalidModelOutput(shape.name, ["it holds no whole object"], reading.text)


@dataclass(slots=True)
class _Reading:
    """A reply as objects."""

    loop: ToolLoop
    shape: OutputShape
    given: int = field(default=0, init=False)
    text: str = field(default="", init=False)
    """All of the reply, once it is whole."""

    async def pieces(self) -> AsyncGenerator[ThinkingDelta | Given]:
        values, said = self._values(), 0
        held = self.shape.wrapped and bool(self.loop.asking.tools)  # words before a tool call would pass for values
        async with aclosing(self.loop.stream()) as pieces:
            async for piece in pieces:
                match piece:
                    case ThinkingDelta():
                        yield piece
                    case TextDelta(text):
                        if said != len(self.loop.messages):
                            values, said = self._values(), len(self.loop.messages)
                        for value in () if held else values.feed(text):
                            yield await self._whole(value)
                    case Ended(direct=None):
                        for value in (*(values.feed(piece.text) if held else ()), *values.end()):
                            yield await self._whole(value)
                        self._check_end(piece, values.left)
                    case Ended():
                        for given in self._returned(piece):
                            yield given

    def _values(self) -> JsonValues:
        return JsonValues(lines=self.shape.wrapped)

    def _check_end(self, ended: Ended, left: str) -> None:
        self.text = ended.text
        if left and (self.given or ended.reply.finish == "length"):
            raise InvalidModelOutput(self.shape.name, ["it was cut off before its end"], left)

    async def _whole(self, text: str) -> Given:
        self.given += 1
        match self.shape.read(text):
            case Bound(value):
                return text, value
            case outcome:
                return await self._repaired(text, _violations(outcome))

    async def _repaired(self, text: str, violations: Sequence[str]) -> Given:
        asking = self.loop.asking
        tools, asking.tools, asking.output = asking.tools, (), self.shape.spec
        lines = "\n".join(f"- {each}" for each in violations)
        said = [*self.loop.messages, AssistantMessage(text), UserMessage(_REPAIR.format(lines))]
        try:
            ended = await ToolLoop(asking, self.loop.calls, said).run()
        finally:
            asking.tools, asking.output = tools, None
        match self.shape.read(ended.text):
            case Bound(value):
                return ended.text, value
            case outcome:
                raise InvalidModelOutput(self.shape.name, _violations(outcome), ended.text)

    def _returned(self, ended: Ended) -> Iterator[Given]:
        """The objects that a tool gave in the model's place, one or a list of them, or the JSON of its text."""
        self.text = ended.text
        made: object = ended.direct.artifact if ended.direct else None
        several = cast("list[object]", made) if isinstance(made, list) else [] if made is None else [made]
        values = self._values()
        read = [(to_json(each, fallback=str).decode(), self.shape.take(each)) for each in several]
        if not several:
            read = [(each, self.shape.read(each)) for each in (*values.feed(ended.text), *values.end())]
        for text, outcome in read:
            if not isinstance(outcome, Bound):
                raise InvalidModelOutput(self.shape.name, _violations(outcome), text)
            self.given += 1
            yield text, outcome.value


def _violations(outcome: Outcome) -> Sequence[str]:
    return outcome.violations if isinstance(outcome, Violating) else ("it is no JSON",)
