"""The reader of documents: bytes of any kind, or a file, become a document with sections. User guide, section 3.12.7.

Markdown, web pages and text are read here, in a thread; everything else is made Markdown by a child process first.
"""

import stat
from collections.abc import Callable, Mapping
from email.message import EmailMessage
from pathlib import Path
from typing import Final, Self

from anyio import to_thread
from pydantic import JsonValue

from goalport.base.errors import UnreadableDocument
from goalport.knowledge.documents import media_types
from goalport.knowledge.documents.charsets import decoded
from goalport.knowledge.documents.content import NavigableDocument
from goalport.knowledge.documents.conversion import Conversion
from goalport.knowledge.documents.html_text import html_charset, read_html
from goalport.knowledge.documents.limits import ReadingLimits
from goalport.knowledge.documents.markdown import read_markdown
from goalport.knowledge.documents.media_types import media_type_of
from goalport.knowledge.documents.plain_text import read_plain_text, read_values

_READERS: Final[Mapping[str, Callable[..., NavigableDocument]]] = {
    media_types.MARKDOWN: read_markdown,
    media_types.HTML: read_html,
    media_types.CSV: read_values,
    media_types.PLAIN_TEXT: read_plain_text,
}

_LINE_ENDS: Final = "\n\r\v\f\x85\u2028\u2029"


class DocumentReader:
    """Reads one document after the other. For what cannot be read it raises UnreadableDocument, which says why."""

    def __init__(self, limits: ReadingLimits | None = None, conversion: Conversion | None = None) -> None:
        self._limits = limits or ReadingLimits()
        self._conversion = conversion or Conversion(self._limits)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Nothing is left open between two documents."""

    async def read(self, data: bytes, uri: str, media_type: str | None = None) -> NavigableDocument:
        """The document in these bytes. What it is, its content says first, then its sender and the name in the URI.

        `media_type` is as in the header of a response; its parameter `charset` says the encoding.
        """
        kind, charset = _parts(media_type)
        if len(data) > self._limits.max_bytes:
            raise UnreadableDocument(uri, _too_large(len(data), self._limits.max_bytes))
        document = await to_thread.run_sync(self._read, data, uri, kind, charset)
        if isinstance(document, NavigableDocument):
            return document
        converted = await self._conversion.convert(data, document, uri)
        metadata = {**converted.metadata, "media_type": document}
        return await to_thread.run_sync(self._read_markdown, converted.markdown, uri, metadata)

    async def read_file(self, path: Path, uri: str | None = None) -> NavigableDocument:
        """The document in a file. Its URI is that of the file, if no other is given."""
        data, own_uri = await to_thread.run_sync(lambda: (self.content(path), path.absolute().as_uri()))
        return await self.read(data, uri or own_uri)

    def content(self, path: Path) -> bytes:
        """All of a file. Nothing of one that is too large, or of what is no file, is read. This blocks."""
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableDocument(str(path), "it is a folder" if path.is_dir() else "it is no file")
            if status.st_size > self._limits.max_bytes:
                raise UnreadableDocument(str(path), _too_large(status.st_size, self._limits.max_bytes))
            with path.open("rb") as file:
                return file.read(self._limits.max_bytes + 1)
        except (OSError, ValueError) as error:
            raise UnreadableDocument.after(path, error) from None

    def _read(self, data: bytes, uri: str, kind: str | None, charset: str | None) -> NavigableDocument | str:
        """The document, or the media type of what has to be converted first."""
        known = media_type_of(data, uri, kind)
        if known in media_types.CONVERTED:
            return known
        try:
            text = decoded(data, charset or (html_charset(data) if known == media_types.HTML else None))
        except ValueError as problem:
            raise UnreadableDocument(uri, str(problem)) from None
        if len(text) > (most := self._limits.max_characters):
            raise UnreadableDocument(uri, f"it has {len(text):,} characters, and at most {most:,} are read")
        self._check_lines(text.count("<") if known == media_types.HTML else _lines(text), uri)
        document = _READERS[known](text, uri, metadata={"media_type": known})
        self._check_lines(_lines(document.text), uri)
        return _with_text(document)

    def _check_lines(self, lines: int, uri: str) -> None:
        """Raises UnreadableDocument for more lines, or elements of a web page, than are read."""
        if lines > (most := self._limits.max_lines):
            raise UnreadableDocument(uri, f"it has {lines:,} lines or elements, and at most {most:,} are read")

    def _read_markdown(self, text: str, uri: str, metadata: Mapping[str, JsonValue]) -> NavigableDocument:
        self._check_lines(_lines(text), uri)
        title = metadata.get("title")
        known = {name: value for name, value in metadata.items() if name != "title"}
        return _with_text(read_markdown(text, uri, title=title if isinstance(title, str) else None, metadata=known))


def _lines(text: str) -> int:
    """The number of line ends, of which two characters may be one."""
    return sum(map(text.count, _LINE_ENDS)) - text.count("\r\n")


def _with_text(document: NavigableDocument) -> NavigableDocument:
    if not document.text.strip():
        raise UnreadableDocument(document.uri, "it has no text (what is in pictures is not read)")
    return document


def _parts(media_type: str | None) -> tuple[str | None, str | None]:
    """The media type without its parameters, and its charset."""
    if not media_type:
        return None, None
    message = EmailMessage()
    try:
        message["Content-Type"] = " ".join(media_type.split())
    except ValueError:
        return None, None
    declared = media_type.partition(";")[0].strip().lower()
    return declared or None, message.get_content_charset()


def _too_large(size: int, most: int) -> str:
    return f"it has {size:,} bytes, and at most {most:,} are read"
