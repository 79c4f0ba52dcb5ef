"""The child process that converts files: whatever becomes of it, there is one sentence, and the next file is read."""

import sys

import anyio
import pytest

from goalport.documents import DocumentReader, ReadingLimits
from goalport.documents.conversion import Conversion
from goalport.errors import UnreadableDocument
from tests.rooms.documents.files import docx, pdf

PDF = "application/pdf"
ANSWERS = """
import json, os, sys
for line in sys.stdin.buffer:
    data = sys.stdin.buffer.read(json.loads(line)["size"])
    if data == b"exit": os._exit(3)
    if data == b"hang": sys.stdin.buffer.read()
    if data == b"rubbish": print("!" * 200_000, flush=True); continue
    if data == b"bytes": print(json.dumps({"size": 2})); sys.stdout.flush(); sys.stdout.buffer.write(b"\\xff\\xfe")
    elif data == b"huge": print(json.dumps({"size": 10**12}))
    elif data == b"error": print(json.dumps({"size": 0, "error": "ParsingError: no\\x1bsuch\\nfont"}))
    elif data == b"environment": print(json.dumps({"size": 0, "metadata": {"title": " ".join(sorted(os.environ))}}))
    else: print(json.dumps({"size": 3, "metadata": {"title": str(os.getpid())}})); print("ok", flush=True)
    sys.stdout.flush()
"""
"""A converter that does what a file says."""


def converter(**limits: float) -> Conversion:
    return Conversion(ReadingLimits(**limits), (sys.executable, "-c", ANSWERS))  # type: ignore[arg-type]


async def child_of(conversion: Conversion) -> object:
    return (await conversion.convert(b"fine", PDF, "a.pdf")).metadata["title"]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"exit", r"ended \(status 3\)"),
        (b"rubbish", "answered what makes no sense"),
        (b"bytes", "answered what makes no sense"),
        (b"huge", "answered what makes no sense"),
        (b"error", r"it is damaged, or in no known format \(nosuch font\)"),
    ],
)
async def test_a_child_that_fails_costs_one_file_and_is_replaced(data: bytes, reason: str) -> None:
    async with converter() as conversion:
        first = await child_of(conversion)
        assert await child_of(conversion) == first
        with pytest.raises(UnreadableDocument, match=f"^a.pdf cannot be read: .*{reason}"):
            await conversion.convert(data, PDF, "a.pdf")
        assert await child_of(conversion) != first


async def test_a_conversion_that_hangs_is_ended() -> None:
    async with converter(conversion_seconds=1) as conversion:
        with pytest.raises(UnreadableDocument, match="its conversion took longer than 1 second"):
            await conversion.convert(b"hang", PDF, "a.pdf")
        assert await child_of(conversion)


async def test_a_conversion_that_nobody_waits_for_is_ended_at_once() -> None:
    async with converter() as conversion:
        first = await child_of(conversion)
        with anyio.fail_after(60):
            with anyio.move_on_after(0.2):
                await conversion.convert(b"hang", PDF, "a.pdf")
            assert await child_of(conversion) != first


async def test_files_are_converted_one_after_the_other() -> None:
    async with converter() as conversion, anyio.create_task_group() as tasks:
        for _ in range(5):
            tasks.start_soon(child_of, conversion)


async def test_the_child_sees_no_secrets_of_its_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a secret")
    async with converter() as conversion:
        names = (await conversion.convert(b"environment", PDF, "a.pdf")).metadata["title"]

    assert "PATH" in str(names)
    assert "OPENAI" not in str(names)


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
