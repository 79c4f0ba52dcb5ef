"""What a file is: its first bytes say it, whatever it is called; its name and its sender tell kinds of text apart.

What cannot be a document, or could harm whoever opens it, is refused here, in a sentence.
"""

import zipfile
from io import BytesIO
from pathlib import PurePosixPath
from typing import Final
from urllib.parse import unquote, urlsplit

from goalport.errors import UnreadableDocument
from goalport.words import with_article

__all__ = ["CONVERTED", "CSV", "HTML", "MARKDOWN", "PLAIN_TEXT", "media_type_of"]

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
_REFUSED: Final = (
    (0, b"\x89PNG\r\n\x1a\n", "a PNG image"),
    (0, b"\xff\xd8\xff", "a JPEG image"),
    (0, b"GIF8", "a GIF image"),
    (8, b"WEBP", "a WebP image"),
    (0, b"II*\0", "a TIFF image"),
    (0, b"MM\0*", "a TIFF image"),
    (0, b"\x1f\x8b", "a gzip archive"),
    (0, b"BZh", "a bzip2 archive"),
    (0, b"\xfd7zXZ\0", "an xz archive"),
    (0, b"(\xb5/\xfd", "a Zstandard archive"),
    (0, b"7z\xbc\xaf'\x1c", "a 7z archive"),
    (0, b"Rar!\x1a\x07", "a RAR archive"),
    (257, b"ustar", "a tar archive"),
    (0, b"\x7fELF", "a program"),
    (0, b"MZ\x90", "a program"),
    (0, b"\xca\xfe\xba\xbe", "a program"),
    (0, b"\xcf\xfa\xed\xfe", "a program"),
    (0, b"\0asm", "a program"),
    (0, b"SQLite format 3\0", "a database"),
    (4, b"ftyp", "a video"),
    (0, b"\x1aE\xdf\xa3", "a video"),
    (0, b"ID3", "a sound"),
    (0, b"OggS", "a sound"),
    (0, b"fLaC", "a sound"),
    (8, b"WAVE", "a sound"),
    (0, b"wOFF", "a font"),
    (0, b"wOF2", "a font"),
)
_LOOKED_AT: Final = 4096
_OLD_OFFICE: Final = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_STREAMS: Final = {"WordDocument": "doc", "PowerPoint Document": "ppt", "Workbook": "xls", "__properties": "msg"}
_FOLDERS: Final = {"word/": "docx", "ppt/": "pptx", "xl/": "xlsx"}
_END_OF_ZIP: Final = b"PK\x05\x06"
_MOST_FILES: Final = 20_000
_LARGEST_DIRECTORY: Final = 4_000_000
_MOST_UNPACKED: Final = 500_000_000
_MOST_RATIO: Final = 100
_HARMLESS: Final = 50_000_000
_ENCRYPTED: Final = "it is protected by a password"
_DAMAGED: Final = "it is a damaged archive"


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
    # A text may well begin with the letters of such a mark.
    for place, mark, name in _REFUSED if b"\0" in beginning else ():
        if beginning.startswith(mark, place):
            raise UnreadableDocument(uri, f"it is {name} and no document")
    if beginning.lstrip().startswith(b"%PDF-") or (b"%PDF-" in beginning and _PDF in {said, _BINARY.get(suffix)}):
        return _PDF
    if data.startswith(b"{\\rtf"):
        return _BINARY["rtf"]
    if data.startswith((b"PK\x03\x04", _END_OF_ZIP)):
        return _in_archive(data, uri)
    if data.startswith(_OLD_OFFICE):
        return _in_old_office(data, uri, suffix, said)
    return None


def _in_archive(data: bytes, uri: str) -> str:
    """The type of a document that is a ZIP archive: office files, EPUB."""
    end = data.rfind(_END_OF_ZIP)
    count, size = (int.from_bytes(data[end + at : end + to], "little") for at, to in ((10, 12), (12, 16)))
    if end < 0 or count > _MOST_FILES or size > _LARGEST_DIRECTORY:
        raise UnreadableDocument(uri, _DAMAGED if end < 0 else "it is an archive of too many files")
    try:
        with zipfile.ZipFile(BytesIO(data)) as archive:
            files = archive.infolist()
            _check_unpacked(files, len(data), uri)
            name = next((each for each in files if each.filename == "mimetype"), None)
            declared = archive.open(name).read(100).decode("ascii", "replace").strip() if name is not None else ""
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, ValueError, EOFError, OSError):
        raise UnreadableDocument(uri, _DAMAGED) from None
    if declared in _BINARY.values():
        return declared
    for folder, suffix in _FOLDERS.items():
        if any(each.filename.startswith(folder) for each in files):
            return _BINARY[suffix]
    raise UnreadableDocument(uri, "it is a ZIP archive and no document; unpack it first")


def _check_unpacked(files: list[zipfile.ZipInfo], packed: int, uri: str) -> None:
    if any(each.flag_bits & 1 for each in files):
        raise UnreadableDocument(uri, _ENCRYPTED)
    unpacked = sum(each.file_size for each in files)
    if unpacked > _MOST_UNPACKED or unpacked > max(_HARMLESS, packed * _MOST_RATIO):
        raise UnreadableDocument(
            uri, f"its {packed:,} bytes would unpack to {unpacked:,}, as those of an archive made to do harm"
        )


def _in_old_office(data: bytes, uri: str, suffix: str, said: str) -> str:
    if "EncryptedPackage".encode("utf-16-le") in data:
        raise UnreadableDocument(uri, _ENCRYPTED)
    for stream, kind in _STREAMS.items():
        if stream.encode("utf-16-le") in data:
            return _BINARY[kind]
    called = said if said in CONVERTED else _BINARY.get(suffix, "")
    if not called:
        raise UnreadableDocument(uri, "it is an office file of a kind that is not known")
    return called


def _kind_of_text(data: bytes, suffix: str, said: str) -> str:
    beginning = data[:1024].lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if said in {MARKDOWN, HTML, CSV, *_MARKED_UP.values()}:
        return said
    if suffix in _TEXTS:
        return _TEXTS[suffix]
    return HTML if beginning.startswith((b"<!doctype html", b"<html")) else PLAIN_TEXT
