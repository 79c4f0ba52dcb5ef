"""Markdown: its headings become sections, and what stands before it between `---` lines becomes metadata."""

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, time
from itertools import islice
from typing import Any, Final, cast

from markdown_it import MarkdownIt
from pydantic import JsonValue

from goalport.base.errors import DocumentError
from goalport.base.words import cleaned, one_line
from goalport.knowledge.documents.blocks import BlockKind, blocks
from goalport.knowledge.documents.charsets import normalized
from goalport.knowledge.documents.content import NavigableDocument
from goalport.knowledge.documents.sections import MOST_HEADINGS, Heading, document_of, title_from
from goalport.knowledge.documents.yaml_text import read_yaml

_FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?)(?:\n)?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_LONGEST_FRONT_MATTER: Final = 20_000
_PAIR: Final = re.compile(r"^([\w-]+):[ \t]+(.+)$", re.MULTILINE)
_TITLES: Final = MarkdownIt("commonmark").enable("strikethrough")
_ATTRIBUTES: Final = re.compile(r"\s*\{[#.:][^{}]*\}$")
_LONGEST_TITLE: Final = 200
_LONGEST_VALUE: Final = 1_000
_LARGEST: Final = 2**63
_MOST_VALUES: Final = 200
"""Values of front matter that are kept."""


def read_markdown(
    text: str, uri: str, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
) -> NavigableDocument:
    """The document that a Markdown text is.

    Its title is `title`, else that of its front matter, else its first heading if that stands above all others, else
    the name in the URI.
    """
    text = normalized(text)
    known, start = _front_matter(text)
    headings = list(islice(_headings(text, start), MOST_HEADINGS))
    named = title or known.get("title")
    return document_of(
        uri,
        (one_line(named) if isinstance(named, str) else "") or _title_of(headings) or title_from(uri),
        text,
        headings,
        start=start,
        metadata={**known, **(metadata or {})},
    )


def _headings(text: str, start: int) -> Iterator[Heading]:
    for block in blocks(text[start:]):
        if block.kind is BlockKind.HEADING:
            begin, end = start + block.start, start + block.end
            yield Heading(block.level, _title(text[begin:end]), begin, end)


def _title(written: str) -> str:
    """The words of a heading without markup. Of a long one no more is read than may be shown."""
    tokens = _TITLES.parse(written[: 4 * _LONGEST_TITLE])
    parts = [part for token in tokens for part in token.children or ()]
    words = "".join(
        " " if part.type.endswith("break") else part.content for part in parts if part.type != "html_inline"
    )
    return one_line(_ATTRIBUTES.sub("", words), _LONGEST_TITLE)


def _title_of(headings: Sequence[Heading]) -> str:
    if not headings or any(each.level <= headings[0].level for each in headings[1:]):
        return ""
    return headings[0].title


def _front_matter(text: str) -> tuple[dict[str, JsonValue], int]:
    """What a text says of itself in YAML before its beginning, and where it begins."""
    found = _FRONT_MATTER.match(text[:_LONGEST_FRONT_MATTER]) if text.startswith("---") else None
    if found is None:
        return {}, 0
    values = _yaml(found[1])
    if values is not None and not isinstance(values, Mapping):
        return {}, 0
    budget = iter(range(_MOST_VALUES))
    pairs = cast("Mapping[Any, Any]", values or {}).items()
    return {one_line(str(key)): _json(each, budget) for key, each in pairs}, found.end()


def _yaml(written: str) -> object:
    """What YAML means. What is no YAML, as a colon in a title that is not quoted, is read line by line."""
    try:
        return read_yaml(written, "front matter").value
    except DocumentError:
        return dict(_PAIR.findall(written)) or written


def _json(value: object, budget: Iterator[int]) -> JsonValue:
    if next(budget, None) is None:
        return None
    match value:
        case None | bool():
            return value
        case int() | float() if abs(value) < _LARGEST:
            return value
        case str():
            return cleaned(value, _LONGEST_VALUE)
        case datetime() | date() | time():
            return value.isoformat()
        case Mapping():
            pairs = cast("Mapping[Any, Any]", value).items()
            return {one_line(str(key)): _json(each, budget) for key, each in pairs}
        case list() | tuple() | set():
            return [_json(each, budget) for each in cast("Sequence[Any]", value)]
        case _:
            return one_line(f"{value:x}" if isinstance(value, int) else str(value))
