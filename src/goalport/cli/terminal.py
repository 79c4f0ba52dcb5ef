"""The output of commands: tables, JSON, Markdown and diffs.

On a terminal, rich draws it; in a pipe it is plain text, one record per line.
"""

import json
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from textwrap import wrap
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from goalport.base.colours import coloured, takes_colours
from goalport.base.errors import BadInput
from goalport.base.words import visible

_WIDEST = 10_000
Record = Mapping[str, object]
"""One line of a list: a value for each column; all records have the same columns."""

Format = Annotated[Literal["text", "json"], Parameter(help="text for people, json for programs. Default: text.")]


def local_time(moment: datetime) -> str:
    """A time in the zone of this machine, to the second."""
    return moment.astimezone().isoformat(" ", "seconds")


def show(records: Sequence[Record], chosen: Format, *, none: str) -> None:
    """Print records as a table or as JSON; `none` is printed in place of an empty table."""
    if chosen == "json":
        show_json(records)
    elif not records:
        say(none)
    elif sys.stdout.isatty():
        _show_table(records)
    else:
        print("\t".join(records[0]))
        for record in records:
            print("\t".join(" ".join(_cell(value).split()) for value in record.values()))


def show_json(value: object, indent: int | None = 2) -> None:
    """Print JSON. On a terminal, control characters are written as escapes, so that they do not control it."""
    text = json.dumps(value, indent=indent, ensure_ascii=False)
    if sys.stdout.isatty():
        text = "".join(each if visible(each) else json.dumps(each)[1:-1] for each in text)
    print(text, flush=True)


def show_markdown(text: str) -> None:
    """Print Markdown: drawn on a terminal, with control sequences removed; unchanged in a pipe."""
    if sys.stdout.isatty():
        # Imported here, because its parser takes 0.1 s to load, and few commands print Markdown.
        from rich.console import Console
        from rich.markdown import Markdown

        Console().print(Markdown(visible(text)))
    else:
        print(text)


def show_lines(lines: Iterable[str]) -> None:
    """Print text line by line, with control sequences removed: parts of it were written by models and strangers."""
    for line in lines:
        print(visible(line) if sys.stdout.isatty() else line, flush=True)


def show_difference(lines: Iterable[str]) -> None:
    """Print a unified diff on standard error, in its usual colours."""
    from rich.console import Console
    from rich.text import Text

    console = Console(stderr=True)
    for line in lines:
        colour = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        console.print(Text(line.rstrip("\n"), colour), soft_wrap=True)


def say(text: str) -> None:
    """Print a remark to standard error, so that it does not mix with piped output; without control sequences."""
    print(coloured(visible(text), sys.stderr), file=sys.stderr, flush=True)


def confirmed(question: str, unattended: str) -> bool:
    """Ask a yes-or-no question. Raises `BadInput` with the text `unattended` if standard input is no terminal."""
    if not sys.stdin.isatty():
        raise BadInput(unattended)
    say(f"{question} [y/N] ")
    return sys.stdin.readline().strip().lower() in {"y", "yes"}


def _show_table(records: Sequence[Record]) -> None:
    """Print a table if it fits, else a paragraph for each record, so that no name is broken."""
    # Imported here, so that a server, and a command in a pipe, start without rich.
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(no_color=not takes_colours(sys.stdout))
    table = Table(box=None, pad_edge=False, header_style="bold")
    columns = [column for column in records[0] if any(_cell(record[column]) for record in records)]
    for column in columns:
        table.add_column(column.replace("_", " "), no_wrap=True)
    for record in records:
        table.add_row(*(Text(_cell(record[column])) for column in columns))
    if console.measure(table, options=console.options.update(width=_WIDEST)).maximum <= console.width:
        console.print(table)
        return
    for record in records:
        # The first value is the heading, and below it is each other value that is not empty.
        (_, heading), *others = ((name.replace("_", " "), _cell(value)) for name, value in record.items())
        console.print(Text(heading, "bold"), soft_wrap=True)
        margin = max(len(name) for name, _ in others) + 4
        for name, value in others:
            width = max(console.width - margin, margin)
            lines = wrap(value, width, break_long_words=False, break_on_hyphens=False)
            for number, line in enumerate(lines):
                title = f"  {'' if number else name}".ljust(margin)
                console.print(Text.assemble((title, "dim"), line), soft_wrap=True)
        console.print()


def _cell(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "yes" if value else "no"
        case list() | tuple():
            return ", ".join(str(each) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return visible(str(value))


def show_result(result: Mapping[str, Any], *, structured: bool) -> None:
    """Print an MCP result: its texts, with JSON indented, or its structured data as JSON."""
    if structured:
        show_json(result.get("structuredContent", {"content": result["content"]}))
        return
    for each in result["content"]:
        block: Mapping[str, Any] = each.get("resource", each)
        if "text" not in block:
            show_markdown(f"({block.get('type', 'resource')} {block.get('mimeType', '')}; --json prints it whole)")
            continue
        text: str = block["text"]
        with suppress(ValueError):
            text = json.dumps(json.loads(text), indent=2, ensure_ascii=False)
            text = f"```json\n{text}\n```" if sys.stdout.isatty() else text
        show_markdown(text)
