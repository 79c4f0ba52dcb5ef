"""Markdown and YAML: headings become sections, and front matter (between `---` lines) becomes metadata.

markdown-it-py finds the blocks of a text. Its parsing of paragraphs is off, since a malicious text can make it take
minutes. So is that of block quotes, since it parses nested ones once for each level. YAML is read as plain data, with
the line of each value. Aliases are refused: a few lines of them can expand to gigabytes. ruamel.yaml is imported at
first use.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, time
from enum import Enum, auto
from functools import cache
from itertools import accumulate, islice
from typing import Any, Final, cast

from markdown_it import MarkdownIt
from markdown_it.token import Token
from pydantic import JsonValue

from goalport.base.errors import DocumentError
from goalport.base.words import cleaned, one_line
from goalport.knowledge.documents.content import (
    MOST_HEADINGS,
    Heading,
    NavigableDocument,
    document_of,
    normalized,
    title_from,
)

_DEEPEST_BLOCK: Final = 60
"""Levels of nesting; a list counts as two. A deeper block, and all that follows, is prose."""
_PARSER: Final = (
    MarkdownIt("commonmark", {"maxNesting": _DEEPEST_BLOCK})
    .enable("table")
    .disable(["blockquote", "inline", "text_join"])
)


class BlockKind(Enum):
    """The kinds of blocks that readers and the chunker distinguish."""

    HEADING = auto()
    FENCE = auto()
    TABLE = auto()
    PROSE = auto()


_KINDS: Final = {
    "heading_open": BlockKind.HEADING,
    "fence": BlockKind.FENCE,
    "table_open": BlockKind.TABLE,
    **dict.fromkeys(("paragraph_open", "code_block", "html_block", "hr"), BlockKind.PROSE),
}


@dataclass(frozen=True, slots=True)
class Block:
    """Whole lines of a text that belong together, without the empty lines after them."""

    kind: BlockKind
    start: int
    end: int
    level: int = 0
    """The level of a heading, from 1 to 6; 0: it is none."""


class _Blocks(list[Token]):
    """Keeps only tokens that begin a block, to save memory: a table has several tokens for each cell."""

    def append(self, token: Token) -> None:
        if token.type in _KINDS:
            super().append(token)


def blocks(text: str) -> Iterator[Block]:
    """The blocks of a text. Between two of them there is nothing but white space."""
    tokens = _Blocks()
    # The parser takes a carriage return for a line end, and says only the numbers of lines, not positions.
    _PARSER.block.parse(text.replace("\r", " "), _PARSER, {}, tokens)
    lines = [*accumulate((len(line) + 1 for line in text.split("\n")), initial=0)]
    done = 0
    for token in tokens:
        start, end = (lines[number] for number in token.map or (0, 0))
        yield from _block(text, done, start)
        yield from _block(text, start, end, token)
        done = end
    yield from _block(text, done, len(text))


def _block(text: str, start: int, end: int, token: Token | None = None) -> Iterator[Block]:
    """The block in these lines, unless they are blank. Without a token it is prose."""
    words = text[start:end].strip()
    if not words:
        return
    kind = _KINDS[token.type] if token is not None else BlockKind.PROSE
    level = 0
    if token is not None and kind is BlockKind.HEADING:
        is_section = not token.level and not words.startswith(">")
        kind, level = (kind, int(token.tag[1:])) if is_section else (BlockKind.PROSE, 0)
    yield Block(kind, start, start + len(text[start:end].rstrip()), level)


LONGEST_YAML: Final = 1_000_000
"""Characters of the longest text that is read."""
_DEEPEST: Final = 50
Path = tuple[int | str, ...]


@dataclass(frozen=True, slots=True)
class YamlText:
    """A parsed YAML text, with the lines of its values."""

    value: object
    lines: Mapping[Path, int] = field(repr=False)
    """The line of each value, by the keys and indexes that lead to it. In a mapping it is the line of the key."""

    def line(self, *path: int | str) -> int:
        """The line of a value; if there is no such value, the line of the nearest mapping or list around it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read_yaml(text: str, where: str, first_line: int = 1) -> YamlText:
    """Parse a text. `where` names it in errors; `first_line` is the number of its first line in the file.

    Raises `DocumentError` with file, line and mistake.
    """
    from ruamel.yaml import YAML, YAMLError

    if len(text) > LONGEST_YAML:
        raise DocumentError(f"{where} is longer than {LONGEST_YAML:,} characters. Keep it below that.")
    lines: dict[Path, int] = {}
    seen: set[int] = set()

    def note(path: Path, node: Any) -> None:
        """Note the lines of a node and of those in it."""
        line = lines.setdefault(path, first_line + node.start_mark.line)
        if id(node) in seen or len(path) > _DEEPEST:
            fix = "Write the value out where it is wanted" if id(node) in seen else "Nest the values less deeply"
            raise DocumentError(f"{where}:{line}: expected plain values without aliases. {fix}.")
        seen.add(id(node))
        if node.id == "mapping":
            for key, value in node.value:
                inner = (*path, str(key.value))
                lines.setdefault(inner, first_line + key.start_mark.line)
                note(inner, value)
        elif node.id == "sequence":
            for number, value in enumerate(node.value):
                note((*path, number), value)

    try:
        loader: Any = YAML(typ="safe", pure=True)
        loader.Scanner = _flat_scanner()
        value: object = None
        if (root := loader.compose(text)) is not None:
            note((), root)
            value = loader.constructor.construct_document(root)
    except YAMLError as error:
        mark: Any = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
        line = first_line + (mark.line if mark is not None else 0)
        problem = getattr(error, "problem", None) or str(error)
        raise DocumentError(f"{where}:{line}: this is no YAML: {one_line(str(problem), 200)}.") from error
    except (ValueError, RecursionError, OverflowError) as error:  # such as a date with a month 13
        raise DocumentError(f"{where}: this is no YAML: {one_line(str(error), 200)}.") from error
    return YamlText(value, lines)


@cache
def _flat_scanner() -> Any:
    from ruamel.yaml import scanner

    library: Any = scanner  # its types are not known

    class FlatScanner(library.Scanner):
        """Refuses deep nesting such as `[[[[…`, for which the scanner takes quadratic time."""

        def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803 - its name there
            if len(self.flow_context) >= _DEEPEST:
                raise library.ScannerError(None, None, "its values are nested too deeply", self.reader.get_mark())
            library.Scanner.fetch_flow_collection_start(self, TokenClass, to_push)

    return FlatScanner


FRONT_MATTER: Final = re.compile(r"---[ \t]*\n(.*?)(?:\n)?^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
"""The front matter at the beginning of a text, with the `---` lines around it."""
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
    """The document of a Markdown text.

    Its title is `title`, else that of its front matter, else its first heading if all others are deeper, else the
    name in the URI.
    """
    text = normalized(text)
    known, start = _front_matter(text)
    found = (each for each in blocks(text[start:]) if each.kind is BlockKind.HEADING)
    headings = [
        Heading(each.level, _title(text[start + each.start : start + each.end]), start + each.start, start + each.end)
        for each in islice(found, MOST_HEADINGS)
    ]
    is_titled = headings and all(each.level > headings[0].level for each in headings[1:])
    named = title or known.get("title")
    return document_of(
        uri,
        (one_line(named) if isinstance(named, str) else "")
        or (headings[0].title if is_titled else "")
        or title_from(uri),
        text,
        headings,
        start=start,
        metadata={**known, **(metadata or {})},
    )


def _title(markup: str) -> str:
    """The words of a heading without markup. A long heading is cut before it is parsed."""
    tokens = _TITLES.parse(markup[: 4 * _LONGEST_TITLE])
    parts = [part for token in tokens for part in token.children or ()]
    words = "".join(
        " " if part.type.endswith("break") else part.content for part in parts if part.type != "html_inline"
    )
    return one_line(_ATTRIBUTES.sub("", words), _LONGEST_TITLE)


def _front_matter(text: str) -> tuple[dict[str, JsonValue], int]:
    """The metadata in the front matter of a text, and the position after it; 0: there is none."""
    found = FRONT_MATTER.match(text[:_LONGEST_FRONT_MATTER]) if text.startswith("---") else None
    if found is None:
        return {}, 0
    try:
        values = read_yaml(found[1], "front matter").value
    except DocumentError:
        # Invalid YAML, such as a title with a colon and no quotes, is read line by line.
        values = dict(_PAIR.findall(found[1])) or found[1]
    if values is not None and not isinstance(values, Mapping):
        return {}, 0
    budget = iter(range(_MOST_VALUES))
    pairs = cast("Mapping[Any, Any]", values or {}).items()
    return {one_line(str(key)): _json(each, budget) for key, each in pairs}, found.end()


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
