"""Which documents an answer names, and whether the model was shown passages of them. Pure but for the stream."""

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import Final

from goalport.knowledge import Passage, ShownPassages
from goalport.models import TextDelta, ThinkingDelta

from .wording import place_of

__all__ = ["with_sources"]

_DOCUMENT: Final = re.compile(r"[\w./-]+\.md\b")


async def with_sources(
    pieces: AsyncGenerator[TextDelta | ThinkingDelta], shown: ShownPassages, name_of: Callable[[str], str]
) -> AsyncIterator[TextDelta | ThinkingDelta]:
    """The pieces of an answer as they come, and then where the passages stand that it cites."""
    text = ""
    async with aclosing(pieces):
        async for each in pieces:
            text += each.text if isinstance(each, TextDelta) else ""
            yield each
    if listed := "\n".join(_sources(text, shown, name_of)):
        yield TextDelta(f"\n\nSources:\n\n{listed}")


def _sources(text: str, shown: ShownPassages, name_of: Callable[[str], str]) -> Iterator[str]:
    known = {name: [*_passages_of(name, shown)] for name in dict.fromkeys(_DOCUMENT.findall(text))}
    cited = {each.id: each for passages in known.values() for each in passages}
    yield from (f"- {place_of(each, name_of)}" for each in cited.values())
    if unseen := [name for name, passages in known.items() if not passages]:
        yield f"- Not checked, because no passage of it was read: {', '.join(unseen)}"


def _passages_of(name: str, shown: ShownPassages) -> Iterator[Passage]:
    """The passages of a document that a model names by its path, the end of it, or its whole address."""
    ending = f"/{name.strip('/')}"
    return (each for each in shown.passages.values() if each.uri.endswith(ending))
