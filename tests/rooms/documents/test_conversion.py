"""The child process that converts files: whatever becomes of it, there is one sentence, and the next file is read."""

import sys

import anyio
import pytest

from goalport.base.errors import UnreadableDocument
from goalport.knowledge.documents import DocumentReader, ReadingLimits
from goalport.knowledge.documents.reader import Conversion
from tests.rooms.documents.files import docx, pdf

PDF = "application/pdf"
ANSWERS = """
import json, os, pathlib, time
data = pathlib.Path("document").read_bytes()
if data == b"exit": os._exit(3)
if data == b"hang": time.sleep(3600)
answer = {"text": "ok", "metadata": {"title": " ".join(sorted(os.environ)), "folder": os.getcwd()}}
if data == b"error": answer = {"error": "ParsingError: no\\x1bsuch\\nfont"}
written = json.dumps(answer).encode()
if data == b"rubbish": written = b"!" * 200_000
if data == b"bytes": written = b'{"text": "\\xff\\xfe"}'
if data == b"huge": written = b'{"text": "' + b"x" * 10_000_000 + b'"}'
if data != b"silent": pathlib.Path("answer.json").write_bytes(written)
"""
"""A converter that does what a file says."""


def converter(**limits: float) -> Conversion:
    return Conversion(ReadingLimits(**limits), (sys.executable, "-c", ANSWERS))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"exit", r"ended \(status 3\)"),
        (b"silent", r"ended \(status 0\)"),
        (b"rubbish", "answered what makes no sense"),
        (b"bytes", "answered what makes no sense"),
        (b"huge", "answered what makes no sense"),
        (b"error", r"it is damaged, or in no known format \(nosuch font\)"),
        (b"hang", "its conversion took longer than 2 seconds"),
    ],
)
async def test_a_child_that_fails_costs_one_file(data: bytes, reason: str) -> None:
    conversion = converter(conversion_seconds=2 if data == b"hang" else 60, max_characters=1_000_000)

    with pytest.raises(UnreadableDocument, match=f"^a.pdf cannot be read: .*{reason}"):
        await conversion.convert(data, PDF, "a.pdf")
    if data != b"hang":
        assert (await conversion.convert(b"fine", PDF, "a.pdf")).text == "ok"


async def test_a_conversion_that_nobody_waits_for_is_ended_at_once() -> None:
    conversion = converter()
    with anyio.fail_after(60):
        with anyio.move_on_after(0.2):
            await conversion.convert(b"hang", PDF, "a.pdf")
        assert (await conversion.convert(b"fine", PDF, "a.pdf")).text == "ok"


async def test_the_child_sees_no_secrets_of_its_parent_and_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")
    found = (await converter().convert(b"environment", PDF, "a.pdf")).metadata

    assert "PATH" in str(found["title"])
    assert "OPENAI" not in str(found["title"])
    assert not await anyio.Path(str(found["folder"])).exists()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits the memory of a process")
async def test_damaged_locked_and_greedy_files_are_a_sentence_each_and_the_next_one_is_read() -> None:
    greedy = docx("Lamp", *["It turns and turns and turns."] * 400_000)
    async with DocumentReader(ReadingLimits(conversion_memory=450_000_000)) as reader:
        for data, reason in (
            (greedy, "ended .* too much memory"),
            (pdf("Lamp", "It turns.", encrypted=True), "it is protected by a password"),
            (b"%PDF-1.7 rubbish", "it is damaged, or in no known format"),
        ):
            with pytest.raises(UnreadableDocument, match=reason):
                await reader.read(data, "file:///a.pdf")
        assert "It turns." in (await reader.read(pdf("Lamp", "It turns."), "file:///a.pdf")).text


async def test_a_text_that_is_too_long_is_refused_by_the_child() -> None:
    async with DocumentReader(ReadingLimits(max_characters=20)) as reader:
        with pytest.raises(UnreadableDocument, match=r"its text has .* characters, and at most 20 are read"):
            await reader.read(docx("Lamp", "It turns all night."), "file:///a.docx")


async def test_the_beginning_of_a_page_is_read_however_high_it_stands() -> None:
    async with DocumentReader() as reader:
        text = (await reader.read(pdf("Dear Ada,", "the lamp is paid.", top=790), "file:///a.pdf")).text

    assert "Dear Ada," in text
    assert "the lamp is paid." in text


async def test_a_title_that_says_nothing_is_none() -> None:
    async with DocumentReader() as reader:
        titles = [
            (await reader.read(pdf("Lamp", "It turns.", title=title), "file:///a.pdf")).title
            for title in ("On lamps", "untitled", r"\(anonymous\)")
        ]

    assert titles == ["On lamps", "Lamp", "Lamp"]
