"""What a file is: its bytes say it, whatever it is called; its name and its sender tell kinds of text apart.

Archives are not opened here, because one may be made to do harm: that is done in a child process with limits.
"""

import re
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from goalport.base.errors import UnreadableDocument
from goalport.base.words import with_article

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
"""Formats that are text, and that a library knows better than we do."""
CONVERTED: Final = frozenset({*_BINARY.values(), *_MARKED_UP.values()})
"""The types of files that a child process makes Markdown of."""
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
"""What servers say of files that they do not know."""
_LOOKED_AT: Final = 4096
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_STREAMS: Final = {"WordDocument": "doc", "PowerPoint Document": "ppt", "Workbook": "xls", "__properties": "msg"}
_IN_ARCHIVE: Final = re.compile(rb"PK\x03\x04.{26}(?:(word|ppt|xl)/|mimetype(application/[\w.+-]+?)PK)", re.DOTALL)
"""A file in an archive that says what the archive is: one in a folder of Office, or the first one of others."""
_FOLDERS: Final = {b"word": "docx", b"ppt": "pptx", b"xl": "xlsx"}


def media_type_of(data: bytes, uri: str, declared: str | None = None) -> str:
    """What these bytes are. `declared` is what their sender says, without parameters.

    Raises UnreadableDocument where they cannot be a document.
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
    return _kind_of_text(data, suffix, said)


def _by_content(data: bytes, uri: str, suffix: str, said: str) -> str | None:
    beginning = data[:_LOOKED_AT]
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
        if _in_utf_16("EncryptedPackage") in data:
            raise UnreadableDocument(uri, "it is protected by a password")
        kinds = (_BINARY[kind] for stream, kind in _STREAMS.items() if _in_utf_16(stream) in data)
        if (known := next(kinds, called)) is None:
            raise UnreadableDocument(uri, "it is an office file of a kind that is not known")
        return known
    return None


def _in_utf_16(name: str) -> bytes:
    return name.encode("utf-16-le")


def _kind_of_text(data: bytes, suffix: str, said: str) -> str:
    beginning = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if said in {MARKDOWN, HTML, CSV, *_MARKED_UP.values()}:
        return said
    if suffix in _TEXTS:
        return _TEXTS[suffix]
    return HTML if beginning.startswith((b"<!doctype html", b"<html")) else PLAIN_TEXT
