"""The report in Markdown, with what its readers have to know of it. Pure."""

import re
from collections.abc import Iterator
from typing import Final

from goalport.workflow import Attempt

from .report import Draft

__all__ = ["in_markdown"]

_MARKUP: Final = re.compile(r"([\\`*_\[\]<>])")
_NO_WEB: Final = (
    "The writer could not search the web (the tool group `web` has no tools here): the report is what a model"
    " knows, and has no sources."
)


def in_markdown(best: Attempt[Draft], *, accepted: bool, rounds: int, searched: bool, failure: str) -> str:
    """The draft with its sources, and notes when nobody accepted it, a model failed or could not look things up."""
    draft = best.result
    parts = [f"# {_plain(draft.title)}", draft.text.strip()]
    if draft.sources:
        parts += ["## Sources", "\n".join(f"- [{_plain(each.title)}](<{each.url}>)" for each in draft.sources)]
    notes = list(_notes(best, accepted=accepted, rounds=rounds, searched=searched))
    notes += [f"There are no more drafts, because a model failed: {_plain(failure)}"] if failure else []
    return "\n\n".join([*parts, *(f"*Note:* {each}" for each in notes)])


def _notes(best: Attempt[Draft], *, accepted: bool, rounds: int, searched: bool) -> Iterator[str]:
    if not accepted:
        said = _plain(best.feedback.text) if best.feedback else ""
        drafts = "the only draft" if rounds == 1 else f"any of {rounds} drafts"
        yield f"The critic did not accept {drafts}. This is the best, with a score of {best.score:g}. {said}".strip()
    if not searched:
        yield _NO_WEB


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
