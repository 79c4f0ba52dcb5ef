"""Whether the passages that a model cites are among those that it was shown."""

from collections.abc import Iterator, Sequence

from goalport.knowledge import Passage, ShownPassages

from .answers import Draft, DraftStatement

__all__ = ["Checked", "checked"]

Checked = tuple[DraftStatement, Sequence[Passage]]
"""A statement, and the passages that it was right to cite."""


def checked(draft: Draft, shown: ShownPassages) -> tuple[list[Checked], list[str]]:
    """The statements that cite a passage that was shown, and in sentences what of the draft was dropped."""
    kept: list[Checked] = []
    dropped: list[str] = []
    for statement in draft.statements:
        ids = list(dict.fromkeys(each.strip() for each in statement.passages))
        passages = [shown.passages[each] for each in ids if each in shown.passages]
        if passages:
            kept.append((statement, passages))
        dropped.extend(_dropped(statement, [each for each in ids if each not in shown.passages], kept=bool(passages)))
    return kept, dropped


def _dropped(statement: DraftStatement, invented: Sequence[str], *, kept: bool) -> Iterator[str]:
    for each in invented:
        yield f"A citation of {each!r}: no such passage was shown."
    if not kept:
        yield f"A statement without a source: {statement.text}"
