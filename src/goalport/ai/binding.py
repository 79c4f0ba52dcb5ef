"""From a model's replies to a value of a type: attempts at a readable one, and one repair of one that breaks rules.

What is wrong with a reply is sent back with it: asked with the same words, a model says the same again.

User guide, section 3.8.2 ("Validation"). Above: `LlmEngine`; below: the tool loop gives replies, `shapes` reads them.
"""

from collections.abc import Iterable
from typing import Final

import anyio

from goalport.ai.loop import CUT_OFF, Ended, ToolLoop
from goalport.ai.operations import LlmOperations
from goalport.ai.shapes import Bound, Declined, Outcome, OutputShape, Unreadable, Violating
from goalport.errors import InvalidModelOutput
from goalport.llm import AssistantMessage, UserMessage
from goalport.tools import ToolResult

__all__ = ["bind", "bound_text", "described_unreadable"]

_REPAIR: Final = "That does not keep to the rules:\n{}\nGive all of it again, corrected, in the same form."
_UNREADABLE: Final = "That cannot be read: {}. Give the answer again, all of it, in the form that was asked for."


async def bind(loop: ToolLoop, shape: OutputShape, settings: LlmOperations) -> tuple[object, str]:
    """A value of the type, None when the model declined, and the text that it was made of.

    Raises `InvalidModelOutput` when no reply could be read, or the repaired one still breaks the rules, and what the
    loop raises.
    """
    ended = await loop.run()
    outcome = _outcome(ended, shape)
    repaired = False
    for _ in range(settings.data_binding_max_attempts - 1):
        if isinstance(outcome, Bound | Declined) or ended.direct is not None:
            break
        if isinstance(outcome, Violating):
            if repaired:
                break
            repaired = True
            loop.messages += _described(ended.text, outcome.violations)
        elif ended.reply.finish == "length":
            outcome = Unreadable(CUT_OFF)
            break
        else:
            loop.messages += described_unreadable(ended.text, outcome.reason)
            await anyio.sleep(settings.data_binding_fixed_backoff_millis / 1000)
        ended = await loop.run()
        outcome = _outcome(ended, shape)
    if isinstance(outcome, Declined) and outcome.reason:
        loop.asking.operation.decline(outcome.reason)
    return _value(outcome, shape, ended.text), ended.text


def bound_text(text: str, shape: OutputShape) -> object:
    """The value that a text is. Raises `InvalidModelOutput` when it is none."""
    return _value(shape.read(text), shape, text)


def _outcome(ended: Ended, shape: OutputShape) -> Outcome:
    return shape.read(ended.text) if ended.direct is None else _given(ended.direct, shape)


def _given(result: ToolResult, shape: OutputShape) -> Outcome:
    """What a tool returned in the model's place: the object itself, or its text."""
    made = shape.take(result.artifact)
    return made if isinstance(made, Bound) else shape.read(result.text)


def _described(text: str, violations: Iterable[str]) -> list[AssistantMessage | UserMessage]:
    """The reply and what is wrong with it, in a form that every provider takes, however it was asked for the object."""
    lines = "\n".join(f"- {violation}" for violation in violations)
    return [AssistantMessage(text), UserMessage(_REPAIR.format(lines))]


def described_unreadable(text: str, reason: str) -> list[AssistantMessage | UserMessage]:
    """The reply, where there is one, and why it could not be read."""
    said = [AssistantMessage(text)] if text.strip() else []
    return [*said, UserMessage(_UNREADABLE.format(reason))]


def _value(outcome: Outcome, shape: OutputShape, text: str) -> object:
    match outcome:
        case Bound(value):
            return value
        case Declined():
            return None
        case Unreadable(reason):
            raise InvalidModelOutput(shape.name, [reason], text)
        case Violating(violations):
            raise InvalidModelOutput(shape.name, violations, text)
