"""What the guide says of itself and of what it has found, in Markdown. Pure."""

from collections.abc import Callable, Sequence
from typing import Final

from goalport.base.words import excerpt
from goalport.knowledge import Chunk, Passage

__all__ = ["GREETING", "found_in_docs", "place_of"]

_SHOWN: Final = 500
"""Characters of a passage that is shown."""

GREETING: Final = """\
I know the docs of goalport. You can

- ask a question, such as *How do I let a person approve a step?*
- read with me: *walk me through waiting for people*, then *next*, *back* or *stop*
- propose a change: *note: docs/cli.md does not say where history is kept*. I ask before I write it down."""


WITHOUT_MODEL: Final = (
    "With a model I would answer in words of my own, and know what we spoke of before: set the key of a provider, such"
    " as OPENAI_API_KEY (docs/models.md)."
)
MODEL_FAILED: Final = "The model gave no answer this time, so these are the passages themselves."


def found_in_docs(passages: Sequence[Chunk], name_of: Callable[[str], str]) -> str:
    """The passages with their places."""
    if not passages:
        return "I have found nothing about that in the docs. Try other words."
    shown = [f"{place_of(each, name_of)}\n\n{_quoted(each.urtext)}" for each in passages]
    return "\n\n".join(["This is what I have found in the docs.", *shown])


def place_of(found: Chunk | Passage, name_of: Callable[[str], str]) -> str:
    """Where a passage stands: its document, its section and its range of characters."""
    return f"**{name_of(found.uri)}**: {' > '.join(found.path)} (characters {found.start} to {found.end})"


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in excerpt(text, _SHOWN).split("\n"))
