"""Texts without sections: plain text and source code as they stand, and tables of values as a table."""

import csv
from collections.abc import Mapping
from typing import Final

from pydantic import JsonValue

from goalport.knowledge.documents.charsets import normalized
from goalport.knowledge.documents.content import NavigableDocument
from goalport.knowledge.documents.outline import Outline
from goalport.knowledge.documents.sections import document_of, title_from

_SEPARATORS: Final = ",;\t|"


def read_plain_text(
    text: str, uri: str, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
) -> NavigableDocument:
    """The document that a text without headings is: one leaf. Its title is `title`, else the name in the URI."""
    return document_of(uri, title or title_from(uri), normalized(text), metadata=metadata)


def read_values(
    text: str, uri: str, *, title: str | None = None, metadata: Mapping[str, JsonValue] | None = None
) -> NavigableDocument:
    """The document that rows of separated values are (CSV, TSV): a table whose header is the first row.

    What cannot be read as rows is plain text.
    """
    shown = normalized(text)
    first = shown.lstrip().partition("\n")[0]
    separator = max(_SEPARATORS, key=first.count)
    try:
        rows = [row for row in csv.reader(shown.splitlines(keepends=True), delimiter=separator) if any(row)]
    except csv.Error:
        rows = []
    if max(map(len, rows), default=0) <= 1:
        return read_plain_text(text, uri, title=title, metadata=metadata)
    outline = Outline()
    outline.table(rows)
    return document_of(uri, title or title_from(uri), outline.text, metadata=metadata)
