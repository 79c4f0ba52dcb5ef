"""The reader of documents: bytes of any kind, or a file, become a document with sections. User guide, section 3.12.7.

The bytes of a file decide what it is; its name and its sender's media type only tell kinds of text apart. Markdown, web
pages and text are read here, in a thread. PDF, office and e-book files are first converted to Markdown by a child
process with limits. They come from anywhere, and the library that reads them is large: if it crashes, hangs or takes
all memory, only that file fails. Its asynchronous functions can abort the interpreter, so they are not used.
"""

import json
import os
import re
import stat
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, suppress
from dataclasses import dataclass, field
from email.message import EmailMessage
from importlib.util import find_spec
from math import ceil
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Final
from urllib.parse import unquote, urlsplit

import anyio
from anyio import to_thread
from pydantic import JsonValue, TypeAdapter

from goalport.base.errors import UnreadableDocument
from goalport.base.words import counted, one_line, with_article
from goalport.knowledge.documents.content import NavigableDocument, ReadingLimits, decoded, read_plain_text, read_values
from goalport.knowledge.documents.html_text import html_charset, read_html
from goalport.knowledge.documents.markdown import read_markdown

_PROGRAM: Final = (sys.executable, "-P", str(Path(__file__).with_name("conversion_child.py")))
_PASSED_ON: Final = ("PATH", "PYTHONPATH", "PYTHONHOME", "LD_LIBRARY_PATH", "SYSTEMROOT", "LANG", "LC_ALL")
"""The environment variables of the child process. None has a key or an address, so none can leak."""
_LONGEST_REASON: Final = 200
_LONGEST_METADATA: Final = 100_000
_BYTES_PER_CHARACTER: Final = 6
"""The most bytes of a character in JSON."""
_MISSING: Final = "reading such files needs a library that is not installed: pip install 'goalport[ingest]'"


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion: Markdown, and metadata of the file, such as its title and author."""

    text: str = ""
    metadata: Mapping[str, str] = field(default_factory=dict[str, str])
    error: str = ""
    """Why there is no text; empty: there is."""


_ANSWER: Final = TypeAdapter(Converted)


class Conversion:
    """Converts one file at a time, because each may take as much memory as the limits allow."""

    def __init__(self, limits: ReadingLimits | None = None, program: Sequence[str] = ()) -> None:
        self._limits = limits or ReadingLimits()
        self._program = tuple(program)
        self._turn = anyio.Lock()

    async def convert(self, data: bytes, media_type: str, uri: str) -> Converted:
        """Convert a file to Markdown. Raises UnreadableDocument for any failure of the child process."""
        if not self._program and find_spec("kreuzberg") is None:
            raise UnreadableDocument(uri, _MISSING)
        async with self._turn:
            folder = TemporaryDirectory(prefix="goalport-conversion-", ignore_cleanup_errors=True)
            # Temporary files of the library are deleted with the folder.
            try:
                await to_thread.run_sync(Path(folder.name, "document").write_bytes, data)
                answer = await self._answer(Path(folder.name), media_type, uri)
            finally:
                with anyio.CancelScope(shield=True):
                    await to_thread.run_sync(folder.cleanup)
        if not answer.error:
            return Converted(answer.text, {name: one_line(each) for name, each in answer.metadata.items()})
        if "password" in answer.error.lower() or "encrypted" in answer.error.lower():
            raise UnreadableDocument(uri, "it is protected by a password")
        # Errors of the library contain their message twice.
        error = one_line(answer.error, _LONGEST_REASON).removeprefix("ParsingError: ")
        reason = ": ".join(dict.fromkeys(error.split(": ")))
        is_said = reason.startswith("its ")
        raise UnreadableDocument(uri, reason if is_said else f"it is damaged, or in no known format ({reason})")

    async def _answer(self, folder: Path, media_type: str, uri: str) -> Converted:
        limits, status = self._limits, None
        seconds, longest = limits.conversion_seconds, limits.max_characters
        memory = limits.conversion_memory
        given = {"seconds": ceil(seconds), "memory": memory, "text": longest, "media_type": media_type}
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}

        def read() -> Converted:
            with (folder / "answer.json").open("rb") as file:
                return _ANSWER.validate_json(file.read(_BYTES_PER_CHARACTER * longest + _LONGEST_METADATA))

        try:
            with anyio.fail_after(seconds):
                child = await anyio.run_process(
                    [*(self._program or _PROGRAM), json.dumps(given)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    check=False,
                    cwd=folder,
                    start_new_session=True,
                    env={**environment, **dict.fromkeys(("TMPDIR", "TEMP", "TMP", "HOME"), str(folder))},
                )
            status = child.returncode
            return await to_thread.run_sync(read)
        except TimeoutError:
            reason = f"its conversion took longer than {counted(round(seconds), 'second')}"
        except OSError:
            reason = f"the program that converts it ended (status {status}), as it does when it takes too much memory"
        except ValueError:
            reason = "the program that converts it answered what makes no sense"
        raise UnreadableDocument(uri, reason)


PLAIN_TEXT: Final = "text/plain"
MARKDOWN: Final = "text/markdown"
HTML: Final = "text/html"
CSV: Final = "text/csv"
_PDF: Final = "application/pdf"
_OFFICE: Final = "application/vnd.openxmlformats-officedocument."
_OPEN: Final = "application/vnd.oasis.opendocument."
_BINARY: Final = {
    "pdf": _PDF,
    "docx": f"{_OFFICE}wordprocessingml.document",
    "pptx": f"{_OFFICE}presentationml.presentation",
    "xlsx": f"{_OFFICE}spreadsheetml.sheet",
    "doc": "application/msword",
    "ppt": "application/vnd.ms-powerpoint",
    "xls": "application/vnd.ms-excel",
    "msg": "application/vnd.ms-outlook",
    "odt": f"{_OPEN}text",
    "odp": f"{_OPEN}presentation",
    "ods": f"{_OPEN}spreadsheet",
    "epub": "application/epub+zip",
    "rtf": "application/rtf",
}
_MARKED_UP: Final = {
    "eml": "message/rfc822",
    "ipynb": "application/x-ipynb+json",
    "rst": "text/x-rst",
    "org": "text/x-org",
    "tex": "application/x-latex",
    "typ": "application/x-typst",
    "fb2": "application/x-fictionbook+xml",
}
"""Formats that are text, but which the library of the child process reads better."""
CONVERTED: Final = frozenset({*_BINARY.values(), *_MARKED_UP.values()})
"""The media types of files that a child process converts to Markdown."""
_TEXTS: Final = {
    **dict.fromkeys(("md", "markdown", "mdown", "mkd", "mdx", "qmd", "rmd"), MARKDOWN),
    **dict.fromkeys(("html", "htm", "xhtml"), HTML),
    **dict.fromkeys(("csv", "tsv"), CSV),
    **_MARKED_UP,
}
_SAME: Final = {
    "text/x-markdown": MARKDOWN,
    "application/xhtml+xml": HTML,
    "text/tab-separated-values": CSV,
    "text/rtf": "application/rtf",
}
_VAGUE: Final = frozenset({"", PLAIN_TEXT, "application/octet-stream", "binary/octet-stream"})
"""The media types that servers send for files of unknown type."""
_SNIFFED_BYTES: Final = 4096
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_STREAMS: Final = {"WordDocument": "doc", "PowerPoint Document": "ppt", "Workbook": "xls", "__properties": "msg"}
_IN_ARCHIVE: Final = re.compile(rb"PK\x03\x04.{26}(?:(word|ppt|xl)/|mimetype(application/[\w.+-]+?)PK)", re.DOTALL)
"""The entry of a ZIP archive that tells its format: a file in a folder of Office, or the file `mimetype`."""
_FOLDERS: Final = {b"word": "docx", b"ppt": "pptx", b"xl": "xlsx"}


def media_type_of(data: bytes, uri: str, declared: str | None = None) -> str:
    """The media type of these bytes. `declared` is the type that their sender says, without parameters.

    Raises UnreadableDocument if they cannot be a document.
    """
    if not data.strip():
        raise UnreadableDocument(uri, "it is empty" if not data else "it holds nothing but white space")
    suffix = PurePosixPath(unquote(urlsplit(uri).path)).suffix.lower().lstrip(".")
    said = (declared or "").lower().strip()
    said = _SAME.get(said, said)
    if (known := _by_content(data, uri, suffix, said)) is not None:
        return known
    called = said if said not in _VAGUE else _BINARY.get(suffix, "")
    if called in _BINARY.values():
        kind = next(name for name, each in _BINARY.items() if each == called)
        raise UnreadableDocument(uri, f"it is called {with_article(kind.upper())} file, and is none")
    beginning = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if said in {MARKDOWN, HTML, CSV, *_MARKED_UP.values()}:
        return said
    if suffix in _TEXTS:
        return _TEXTS[suffix]
    return HTML if beginning.startswith((b"<!doctype html", b"<html")) else PLAIN_TEXT


def _by_content(data: bytes, uri: str, suffix: str, said: str) -> str | None:
    beginning = data[:_SNIFFED_BYTES]
    called = said if said in CONVERTED else _BINARY.get(suffix)
    if beginning.lstrip().startswith(b"%PDF-") or (b"%PDF-" in beginning and _PDF in {said, called}):
        return _PDF
    if data.startswith(b"{\\rtf"):
        return _BINARY["rtf"]
    if data.startswith(b"PK\x03\x04"):
        found = _IN_ARCHIVE.search(data)
        known = _BINARY[_FOLDERS[found[1]]] if found and found[1] else found[2].decode() if found else called
        if known not in CONVERTED:
            raise UnreadableDocument(uri, "it is a ZIP archive and no document; unpack it first")
        return known
    if data.startswith(_OLD_OFFICE):
        if "EncryptedPackage".encode("utf-16-le") in data:
            raise UnreadableDocument(uri, "it is protected by a password")
        kinds = (_BINARY[kind] for stream, kind in _STREAMS.items() if stream.encode("utf-16-le") in data)
        if (known := next(kinds, called)) is None:
            raise UnreadableDocument(uri, "it is an office file of a kind that is not known")
        return known
    return None


_READERS: Final[Mapping[str, Callable[..., NavigableDocument]]] = {
    MARKDOWN: read_markdown,
    HTML: read_html,
    CSV: read_values,
    PLAIN_TEXT: read_plain_text,
}
_LINE_ENDS: Final = "\n\r\v\f\x85\u2028\u2029"


class DocumentReader(AbstractAsyncContextManager["DocumentReader", None]):
    """Reads documents. If one cannot be read, it raises UnreadableDocument, which says why."""

    def __init__(self, limits: ReadingLimits | None = None) -> None:
        self._limits = limits or ReadingLimits()
        self._conversion = Conversion(self._limits)

    async def __aexit__(self, *_: object) -> None:
        """Nothing is left open between two documents."""

    async def read(self, data: bytes, uri: str, media_type: str | None = None) -> NavigableDocument:
        """The document in these bytes. Its format is found from the content, else `media_type`, else the URI.

        `media_type` is a `Content-Type` as in HTTP; its parameter `charset` says the encoding.
        """
        said = EmailMessage()
        with suppress(ValueError):
            said["Content-Type"] = " ".join((media_type or "").split())
        kind = (media_type or "").partition(";")[0].strip().lower() if said.keys() else ""
        self._check(uri, len(data), self._limits.max_bytes, "bytes")
        document = await to_thread.run_sync(self._read, data, uri, kind, said.get_content_charset())
        if isinstance(document, NavigableDocument):
            return document
        converted = await self._conversion.convert(data, document, uri)
        known: dict[str, JsonValue] = {**converted.metadata, "media_type": document}
        return await to_thread.run_sync(self._document, read_markdown, converted.text, uri, known)

    async def read_file(self, path: Path, uri: str | None = None) -> NavigableDocument:
        """The document in a file. Its URI is `uri`, else that of the file."""
        data, own_uri = await to_thread.run_sync(lambda: (self.content(path), path.absolute().as_uri()))
        return await self.read(data, uri or own_uri)

    def content(self, path: Path) -> bytes:
        """The bytes of a file. Raises UnreadableDocument if it is too large, or no file. This blocks."""
        try:
            status = path.stat()
            if not stat.S_ISREG(status.st_mode):
                raise UnreadableDocument(str(path), "it is a folder" if path.is_dir() else "it is no file")
            self._check(str(path), status.st_size, self._limits.max_bytes, "bytes")
            with path.open("rb") as file:
                return file.read(self._limits.max_bytes + 1)
        except (OSError, ValueError) as error:
            raise UnreadableDocument.after(path, error) from None

    def _read(self, data: bytes, uri: str, kind: str, charset: str | None) -> NavigableDocument | str:
        """The document, or its media type if it has to be converted first."""
        known = media_type_of(data, uri, kind)
        if known in CONVERTED:
            return known
        try:
            text = decoded(data, charset or (html_charset(data) if known == HTML else None))
        except ValueError as problem:
            raise UnreadableDocument(uri, str(problem)) from None
        self._check(uri, len(text), self._limits.max_characters, "characters")
        return self._document(_READERS[known], text, uri, {"media_type": known})

    def _document(
        self, reader: Callable[..., NavigableDocument], text: str, uri: str, metadata: dict[str, JsonValue]
    ) -> NavigableDocument:
        """The document that a reader makes of a text. Raises UnreadableDocument if it is empty or too large."""
        most, what = self._limits.max_lines, "lines or elements"
        self._check(uri, text.count("<") if reader is read_html else _lines(text), most, what)
        title = metadata.pop("title", None)
        document = reader(text, uri, title=title, metadata=metadata)
        self._check(uri, _lines(document.text), most, what)
        if not document.text.strip():
            raise UnreadableDocument(document.uri, "it has no text (what is in pictures is not read)")
        return document

    def _check(self, uri: str, size: int, most: int, what: str) -> None:
        """Raises UnreadableDocument if `size` is more than `most`."""
        if size > most:
            raise UnreadableDocument(uri, f"it has {size:,} {what}, and at most {most:,} are read")


def _lines(text: str) -> int:
    """The number of line ends; a carriage return with a line feed is one."""
    return sum(map(text.count, _LINE_ENDS)) - text.count("\r\n")
