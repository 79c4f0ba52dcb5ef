"""Passages and answers in Markdown, for people. Pure."""

import re
from collections.abc import Sequence
from typing import Final

from goalport.base.words import excerpt

from .answers import Hit, Source, Statement

__all__ = ["answer_in_markdown", "hits_in_markdown"]

_MARKUP: Final = re.compile(r"([\\`*_\[\]<>])")
_SHOWN: Final = 400
"""Characters of a passage; the data have all of them."""


def hits_in_markdown(hits: Sequence[Hit]) -> str:
    """Where each passage stands, and how it begins."""
    if not hits:
        return "Nothing was found in the docs. Try other words."
    return "\n\n".join(f"{number}. {_place(each)}\n\n{_quoted(each)}" for number, each in enumerate(hits, start=1))


def answer_in_markdown(statements: Sequence[Statement], missing: str, dropped: Sequence[str]) -> str:
    """The statements with the numbers of their sources, the sources, and what is missing."""
    sources = list({_place(source): source for statement in statements for source in statement.citations})
    parts = [
        f"{statement.text.strip()} {''.join(f'[{sources.index(_place(each)) + 1}]' for each in statement.citations)}"
        for statement in statements
    ]
    if sources:
        parts.append("Sources:\n\n" + "\n".join(f"{number}. {each}" for number, each in enumerate(sources, start=1)))
    if not statements:
        parts.append("The docs do not say it.")
    if missing:
        parts.append(f"*Not in the docs:* {_plain(missing)}")
    parts += [f"*Dropped:* {_plain(each)}" for each in dropped]
    return "\n\n".join(parts)


def _place(source: Source) -> str:
    section = " > ".join(_plain(each) for each in source.section)
    return f"{_plain(source.document)}: {section} (characters {source.start} to {source.end})"


def _quoted(hit: Hit) -> str:
    return "\n".join(f"   > {line}".rstrip() for line in excerpt(hit.excerpt, _SHOWN).split("\n"))


def _plain(text: str) -> str:
    return _MARKUP.sub(r"\\\1", " ".join(text.split()))
