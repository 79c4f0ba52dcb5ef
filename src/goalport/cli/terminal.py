"""What a person or a program reads from a command: tables, JSON, Markdown and diffs.

On a terminal it is drawn with rich; in a pipe it is plain text, one record a line. It knows no agent and no goal. Below
the commands of this room, above the signs.
"""

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import Annotated, Any, Literal

from cyclopts import Parameter
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table
from rich.text import Text

from goalport.colours import coloured, takes_colours
from goalport.words import cleaned

_WIDEST = 10_000
Record = Mapping[str, object]
"""One line of a list: a value per column, the same columns in each record."""

Format = Annotated[Literal["text", "json"], Parameter(help="text for people, json for programs.")]


def show(records: Sequence[Record], chosen: Format, *, none: str) -> None:
    """Print records as a table or as JSON; `none` says what an empty table means."""
    if chosen == "json":
        print(json.dumps(records, indent=2, ensure_ascii=False))
    elif not records:
        say(none)
    elif sys.stdout.isatty():
        _draw(records)
    else:
        _print_plain(records)


def show_markdown(text: str) -> None:
    """Print Markdown: drawn on a terminal, and without what would steer that; as it is in a pipe."""
    if sys.stdout.isatty():
        Console().print(Markdown(cleaned(text, len(text))))
    else:
        print(text)


def show_difference(lines: Iterable[str]) -> None:
    """Print a unified diff on standard error, in its usual colours."""
    console = Console(stderr=True)
    for line in lines:
        console.print(Text(line.rstrip("\n"), _colour(line)), soft_wrap=True)


def say(text: str) -> None:
    """A remark for the person at the terminal: on standard error, out of the way of what is piped."""
    print(coloured(text, sys.stderr), file=sys.stderr, flush=True)


def _draw(records: Sequence[Record]) -> None:
    """A table, if it fits; else a paragraph for each record, so that no name is broken in two."""
    console, table = Console(no_color=not takes_colours(sys.stdout)), _table(records)
    if console.measure(table, options=console.options.update(width=_WIDEST)).maximum <= console.width:
        console.print(table)
        return
    for record in records:
        for line in _paragraph(record, console.width):
            console.print(line, soft_wrap=True)


def _columns(records: Sequence[Record]) -> list[str]:
    return [column for column in records[0] if any(_cell(record[column]) for record in records)]


def _table(records: Sequence[Record]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = _columns(records)
    for column in columns:
        table.add_column(column.replace("_", " "), no_wrap=True)
    for record in records:
        table.add_row(*(Text(_cell(record[column])) for column in columns))
    return table


def _paragraph(record: Record, width: int) -> Iterator[Text]:
    """The first value as a heading, below it each other that says something; lines break between words alone."""
    (_, heading), *others = ((name.replace("_", " "), _cell(value)) for name, value in record.items())
    margin = max(len(name) for name, _ in others) + 4
    yield Text(heading, "bold")
    for name, value in others:
        lines = wrap(value, max(width - margin, margin), break_long_words=False, break_on_hyphens=False)
        for number, line in enumerate(lines):
            yield Text.assemble((f"  {'' if number else name}".ljust(margin), "dim"), line)
    yield Text()


def _print_plain(records: Sequence[Record]) -> None:
    print("\t".join(records[0]))
    for record in records:
        print("\t".join(" ".join(_cell(value).split()) for value in record.values()))


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return str(value)


def _colour(line: str) -> str:
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


def show_result(result: Mapping[str, Any], *, structured: bool) -> None:
    """Print a result of MCP: its texts, or its data as JSON."""
    if structured:
        data = result.get("structuredContent", {"content": result["content"]})
        print(json.dumps(data, indent=2, ensure_ascii=False))
        return
    for block in result["content"]:
        show_markdown(_told(block))


def _told(block: Mapping[str, Any]) -> str:
    if block["type"] != "text":
        return f"({block['type']} {block.get('mimeType', '')}; --json prints it whole)"
    text: str = block["text"]
    try:
        value: object = json.loads(text)
    except ValueError:
        return text
    written = json.dumps(value, indent=2, ensure_ascii=False)
    return f"```json\n{written}\n```" if sys.stdout.isatty() else written
