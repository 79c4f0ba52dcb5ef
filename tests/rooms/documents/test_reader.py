"""The reader of documents: what a file is and in which encoding, and a sentence for each that cannot be read."""

import os
import sys
import zipfile
from io import BytesIO
from pathlib import Path

import pytest

from goalport.base.errors import UnreadableDocument
from goalport.knowledge.documents import DocumentReader, ReadingLimits
from tests.rooms.documents.files import DOCX, archive, docx, pdf

FOLDER = "file:///papers/"
RUBBISH = bytes(range(256)) * 20


async def text_of(data: bytes, name: str, media_type: str | None = None) -> str:
    async with DocumentReader() as reader:
        return (await reader.read(data, FOLDER + name, media_type)).text


@pytest.mark.parametrize(
    ("name", "media_type", "data", "known", "title"),
    [
        ("a.md", None, b"# Lamp\n\nIt turns.", "text/markdown", "Lamp"),
        ("a.md", "text/plain; charset=utf-8", b"# Lamp\n\nIt turns.", "text/markdown", "Lamp"),
        ("a", "text/markdown", b"# Lamp\n\nIt turns.", "text/markdown", "Lamp"),
        ("a.md", "text/html", b"<title>Lamp</title>It turns.", "text/html", "Lamp"),
        ("lamp", None, b"  <!DOCTYPE html><p>It turns.", "text/html", "lamp"),
        ("lamp.txt", None, b"# It turns.", "text/plain", "lamp"),
        ("lamp.json", "application/json", b'{"turns": true}', "text/plain", "lamp"),
        ("lamp.py", None, b"def turn(): ...", "text/plain", "lamp"),
        ("lamps.csv", None, b"name;light\nlamp;white\n", "text/csv", "lamps"),
        ("The%20lamp.md?raw=1", "no type", b"It turns.", "text/markdown", "The lamp"),
    ],
)
async def test_a_text_is_read_as_its_sender_or_its_name_says(
    name: str, media_type: str | None, data: bytes, known: str, title: str
) -> None:
    async with DocumentReader() as reader:
        document = await reader.read(data, FOLDER + name, media_type)

    assert (document.metadata["media_type"], document.title, document.uri) == (known, title, FOLDER + name)


@pytest.mark.parametrize(
    ("data", "media_type"),
    [
        ("Süß 漢字".encode(), None),
        ("\ufeffSüß 漢字".encode(), None),
        ("\ufeffSüß 漢字".encode("utf-16-le"), None),
        ("\ufeffSüß 漢字".encode("utf-32-be"), None),
        ("Süß 漢字".encode("utf-16-be"), "text/plain; charset=UTF-16BE"),
        ("Süß 漢字".encode("gb18030"), 'text/plain; charset="GB18030"'),
        ("Süß 漢字".encode(), "text/plain; charset=no-such"),
        ("Süß 漢字".encode(), "text/plain; charset=idna"),
        ("Süß 漢字".encode(), "text/plain; charset=zlib"),
    ],
)
async def test_the_encoding_of_a_text_is_found(data: bytes, media_type: str | None) -> None:
    assert await text_of(data, "a.txt", media_type) == "Süß 漢字"


@pytest.mark.parametrize(
    ("text", "said", "written"),
    [
        ("9–17 €", "iso-8859-1", "cp1252"),
        ("9–17 €", "us-ascii", "cp1252"),
        ("Ağaç – 5 €", "iso-8859-9", "cp1254"),
        ("①番線 ㈱東京", "Shift_JIS", "cp932"),
        ("朱镕基", "gb2312", "gb18030"),
        ("뷁 서울", "euc-kr", "cp949"),
    ],
)
async def test_a_text_is_read_in_the_larger_encoding_that_programs_write(text: str, said: str, written: str) -> None:
    assert await text_of(text.encode(written), "a.txt", f"text/plain; charset={said}") == text
    assert await text_of(f"<meta charset={said}><p>{text}".encode(written), "a.html") == text


async def test_texts_that_say_no_encoding_are_taken_for_what_they_most_often_are() -> None:
    assert await text_of("Süß – 5 €".encode("cp1252"), "a.txt") == "Süß – 5 €"
    assert await text_of(("plain words " * 50).encode("utf-16-le"), "a.txt") == "plain words " * 50
    assert await text_of(b"<meta charset='iso-8859-2'>\xb1", "a.html") == "ą"
    assert await text_of("é".encode() * 100 + b"\xc3", "a.txt") == "é" * 100 + "\ufffd"


@pytest.mark.parametrize(
    ("name", "start", "unit"),
    [
        ("a.md", "", "a\n\n"),
        ("a.txt", "", "a\r\n"),
        ("a.csv", "", "a,b\n"),
        ("a.html", "", "<p>a"),
        ("b.html", "<pre>", "a&#10;"),
    ],
)
async def test_a_text_of_more_lines_or_elements_than_are_read_is_refused(name: str, start: str, unit: str) -> None:
    reader = DocumentReader(ReadingLimits(max_lines=20))

    assert (await reader.read((start + unit * 10).encode(), name)).text
    with pytest.raises(UnreadableDocument, match=r"it has \d+ lines or elements, and at most 20 are read"):
        await reader.read((start + unit * 30).encode(), name)


async def test_a_table_of_values_is_a_table_with_a_header() -> None:
    assert await text_of(b'name,light\r\n"a|b, c",white\r\n\r\nred\r\n', "a.csv") == (
        "| name | light |\n| --- | --- |\n| a\\|b, c | white |\n| red |"
    )
    assert await text_of(b"no values here\n", "a.csv") == "no values here\n"
    assert await text_of(b'a,"' + b"x" * 200_000, "a.csv") == 'a,"' + "x" * 200_000


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.md", b"", "it is empty"),
        ("a.md", b" \n", "it holds nothing but white space"),
        ("a.pdf", b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR", "it is called a PDF file, and is none"),
        ("a.md", RUBBISH, "it is binary data and no text"),
        ("a.pdf", b"no PDF at all", "it is called a PDF file, and is none"),
        ("a.docx", b"PK\x03\x04 no archive", "it is damaged, or in no known format"),
        ("a.docx", docx("Lamp")[:-40], "it is damaged, or in no known format"),
        ("a.zip", archive({"a.md": "# Lamp"}), "it is a ZIP archive and no document; unpack it first"),
        ("a.docx", archive({"word/document.xml": bytes(100_000_000)}), "it has no text"),
        ("a.docx", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"), "by a password"),
        ("a.gif", b"GIF89a\1\0\1\0\0\0\0;", "it is binary data and no text"),
        ("a.md", b"\0\0\0\0", "it is binary data and no text"),
        ("a.md", "\ufeff\u200b".encode(), "it has no text"),
    ],
)
async def test_what_cannot_be_read_is_named_with_the_reason(name: str, data: bytes, reason: str) -> None:
    with pytest.raises(UnreadableDocument) as refusal:
        await text_of(data, name)

    message = str(refusal.value)
    assert message.startswith(f"{FOLDER}{name} cannot be read: ")
    assert reason in message
    assert message.count("\n") == 0


async def test_a_text_may_begin_like_another_kind_of_file() -> None:
    for text in ("ID3 tags are old.", "GIF89a is a format.", "MZ is how they begin.", "BZh too.", "See: %PDF-1.4"):
        assert await text_of(text.encode(), "a.md") == text


async def test_what_is_too_large_is_refused_without_being_read(tmp_path: Path) -> None:
    sparse = tmp_path / "sparse.md"
    with sparse.open("wb") as file:
        file.truncate(2_000_000_000)

    async with DocumentReader(ReadingLimits(max_bytes=1_000, max_characters=100)) as reader:
        with pytest.raises(UnreadableDocument, match="it has 2,000,000,000 bytes, and at most 1,000 are read"):
            await reader.read_file(sparse)
        with pytest.raises(UnreadableDocument, match="it has 1,001 bytes"):
            await reader.read(b"x" * 1_001, "a.md")
        with pytest.raises(UnreadableDocument, match="it has 101 characters, and at most 100 are read"):
            await reader.read(b"x" * 101, "a.md")


@pytest.mark.skipif(os.name == "nt", reason="Windows has neither such links nor such pipes")
async def test_what_is_no_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    loop, pipe = tmp_path / "loop.md", tmp_path / "pipe.md"
    loop.symlink_to(loop)
    os.mkfifo(pipe)

    async with DocumentReader() as reader:
        for path, reason in {
            loop: "too many levels of symbolic links",
            pipe: "it is no file",
            tmp_path: "it is a folder",
            tmp_path / "none.md": "no such file or directory",
            tmp_path / "nul\0.md": "null",
        }.items():
            with pytest.raises(UnreadableDocument, match=reason):
                await reader.read_file(path)


async def test_a_file_is_read_under_its_own_uri_or_a_given_one(tmp_path: Path) -> None:
    file = tmp_path / "the lamp.md"
    file.write_text("It turns.", "utf-8")

    async with DocumentReader() as reader:
        assert (await reader.read_file(file)).uri == file.as_uri()
        assert (await reader.read_file(file, "docs://lamp")).uri == "docs://lamp"


async def test_an_archive_without_a_name_says_what_it_is() -> None:
    packed = BytesIO()
    with zipfile.ZipFile(packed, "w") as book:
        book.writestr("mimetype", "application/vnd.oasis.opendocument.text")
        book.writestr("content.xml", "no XML")

    with pytest.raises(UnreadableDocument, match=r"in no known format .*content\.xml"):
        await text_of(packed.getvalue(), "download")


async def test_pdf_and_office_files_become_sections_too() -> None:
    async with DocumentReader() as reader:
        paper = await reader.read(pdf("Lamp", "It turns."), f"{FOLDER}a.bin")
        letter = await reader.read(docx("Lamp", "It turns."), f"{FOLDER}a.docx", "application/octet-stream")
        mail = await reader.read(b"From: a@example.org\r\nSubject: Lamp\r\n\r\nIt turns.\r\n", f"{FOLDER}a.eml")

    assert [(each.title, next(each.leaves()).path) for each in (paper, letter, mail)] == [("Lamp", ("Lamp",))] * 3
    assert all("It turns." in each.text for each in (paper, letter, mail))
    assert "| a | b |\n| --- | --- |\n| 1 | 2 |" in letter.text
    assert (paper.metadata["media_type"], letter.metadata["media_type"]) == ("application/pdf", DOCX)


@pytest.mark.parametrize(
    ("library", "name", "data"),
    [("selectolax.lexbor", "a.html", b"<p>It turns."), ("kreuzberg", "a.pdf", pdf("Lamp", "It turns."))],
)
async def test_a_library_that_is_not_installed_is_named(
    library: str, name: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, library, None)

    with pytest.raises(UnreadableDocument, match=r"not installed: pip install 'goalport\[ingest\]'"):
        await text_of(data, name)
    assert await text_of(b"It turns.", "a.md") == "It turns."
