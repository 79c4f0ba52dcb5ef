"""References are made ready for a request: brought up to date, and fitted to the question.

It happens once for each request, before the system prompt is made, and never fails the request: a reference works with
what it has. Above: `llm_engine`.
"""

import logging
from collections.abc import Sequence
from typing import Final

import anyio

from goalport.base.errors import Signal
from goalport.knowledge.references import LlmReference, QuestionAware, Refreshing
from goalport.models.llm import Message, UserMessage

_log = logging.getLogger(__name__)
_SECONDS: Final = 5.0
"""For how long a request waits for its references; what takes longer is read by their tools."""


async def ready_references(
    references: Sequence[LlmReference], messages: Sequence[Message], seconds: float = _SECONDS
) -> tuple[LlmReference, ...]:
    """The references for one request, all made ready at the same time, within some seconds.

    One that fails or takes longer is used as it was, with a warning. Raises a `Signal` of theirs.
    """
    ready, waited_for, signals = list(references), set[str](), list[Signal]()
    question = next((each.content for each in reversed(messages) if isinstance(each, UserMessage)), "")

    async def prepare(place: int, reference: LlmReference) -> None:
        waited_for.add(reference.name)
        try:
            if isinstance(reference, Refreshing):
                await reference.refresh()
            if isinstance(reference, QuestionAware) and question.strip():
                ready[place] = await reference.for_question(question)
        except Signal as signal:
            signals.append(signal)
        except Exception as error:
            _log.warning("The reference %r is used as it was: %r", reference.name, error)
        waited_for.discard(reference.name)

    with anyio.move_on_after(seconds):
        async with anyio.create_task_group() as group:
            for place, reference in enumerate(references):
                if isinstance(reference, Refreshing | QuestionAware):
                    group.start_soon(prepare, place, reference)
    if signals:
        raise signals[0]
    for name in sorted(waited_for):
        _log.warning("The reference %r was not ready within %g seconds and is used as it was.", name, seconds)
    return tuple(ready)
