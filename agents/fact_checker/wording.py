"""The verdicts in Markdown, for people. Pure; what comes from models or callers cannot be taken for markup."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final, get_args

from .facts import FactCheck, Verdict

__all__ = ["in_markdown"]

_MARKUP: Final = re.compile(r"([\\`*_\[\]<>])")
_NO_WEB: Final = (
    "The models could not search the web (the tool group `web` has no tools here): they went by what they know."
)


def in_markdown(checks: Sequence[FactCheck], checkers: Sequence[str], *, searched: bool) -> str:
    """All verdicts, the links to the pages that support them, and what was missing."""
    if not checks:
        return "The text makes no factual assertion that can be checked."
    verdicts = Counter(each.verdict for each in checks)
    counts = ", ".join(f"{verdicts[each]} {each}" for each in get_args(Verdict) if verdicts[each])
    parts = [f"**{counts}.** Checked by {_plain(' and '.join(checkers))}."]
    parts += [_worded(number, each) for number, each in enumerate(checks, start=1)]
    notes = ([] if searched else [_NO_WEB]) + list(_silent(checks, checkers))
    return "\n\n".join([*parts, *(f"*Note:* {each}" for each in notes)])


def _worded(number: int, check: FactCheck) -> str:
    lines = [f"{number}. **{check.verdict.capitalize()}** ({check.confidence:.0%}): {_plain(check.claim)}"]
    lines += ["", f"   {_plain(check.explanation)}"]
    lines += ["", *(f"   - [{_plain(each.title)}](<{each.url}>)" for each in check.links)] if check.links else []
    return "\n".join(lines)


def _silent(checks: Sequence[FactCheck], checkers: Sequence[str]) -> Iterator[str]:
    """The models that did not answer each time."""
    answered = Counter(finding.checker for check in checks for finding in check.findings)
    for name in checkers:
        if (number := answered[name]) < len(checks):
            yield f"{_plain(name)} gave an answer for {number} of {len(checks)}."


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
