"""Chunks: pieces of leaves that point exactly at their text, are never too long, and can be read alone."""

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings, strategies as st

from goalport.knowledge.documents import (
    Chunk,
    Chunker,
    ChunkerConfig,
    LeafSection,
    NavigableDocument,
    read_html,
    read_markdown,
    read_plain_text,
)

URI = "file:///handbook/lamp.md"
SENTENCES = " ".join(f"Sentence number {number} says something." for number in range(200))
TABLE = "| lamp | light |\n| --- | --- |\n" + "".join(f"| lamp {row} | white {row} |\n" for row in range(100))
CODE = "~~~python\n" + "".join(f"    lamp_{line}.turn()  # line\n" for line in range(200)) + "~~~"
PARTS = st.sampled_from(
    (
        *("# Title\n", "## Other\n", "\n\n", "```python\n", "```\n", "| a | b |\n", "|---|---|\n", "- item\n", "word "),
        *(
            "A sentence. ",
            "漢字。",
            "\t",
            "   ",
            "> quoted\n",
            "    code\n",
            "~~~\n",
            "\r\n",
            "e\u0301",
            "\u2764\ufe0f",
        ),
        *("\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea", " \u0301", "`", "a\n", "x" * 90),
    )
)
CONFIGS = st.builds(
    ChunkerConfig,
    max_chunk_size=st.sampled_from((50, 80, 200)),
    overlap_size=st.sampled_from((0, 10, 25)),
    include_section_title=st.booleans(),
)


def chunks(text: str, **config: int | bool) -> tuple[Chunk, ...]:
    return Chunker(ChunkerConfig(**config)).split(read_markdown(text, URI))  # type: ignore[arg-type]


def check(document: NavigableDocument, config: ChunkerConfig) -> None:
    found = Chunker(config).split(document)
    covered = {place for chunk in found for place in range(chunk.start, chunk.end)}

    for number, chunk in enumerate(found):
        assert document.text[chunk.start : chunk.end] == chunk.urtext
        assert chunk.urtext in chunk.text
        assert chunk.urtext.strip()
        assert len(chunk.text) <= config.max_chunk_size
        assert chunk.number == number
    assert len({chunk.id for chunk in found}) == len(found)
    for leaf in document.leaves():
        assert all(place in covered or document.text[place].isspace() for place in range(leaf.start, leaf.end))
        own = [chunk for chunk in found if chunk.parent_id == leaf.id]
        assert all(leaf.start <= chunk.start < chunk.end <= leaf.end for chunk in own)


@settings(max_examples=300)
@given(st.lists(PARTS, max_size=40).map("".join), CONFIGS)
def test_chunks_point_at_their_text_cover_their_leaves_and_are_never_too_long(text: str, config: ChunkerConfig) -> None:
    check(read_markdown(text, URI), config)


@given(st.text(max_size=400), CONFIGS)
def test_that_holds_for_sections_that_no_reader_made(text: str, config: ChunkerConfig) -> None:
    leaf = LeafSection(id="leaf", title="Lamp", parent_id="root", path=("Lamp",), text=text)
    check(NavigableDocument(id="root", uri=URI, title="Lamp", text=text, children=(leaf,)), config)


def test_a_chunk_says_where_it_comes_from() -> None:
    document = read_markdown("---\nlanguage: en\n---\n# Lamp\n\nIt turns.\n\n## Care\n\nDaily.\n", URI)
    first, second = Chunker().split(document)
    (_, care) = document.leaves()

    assert (first.text, first.urtext, first.path) == ("Lamp\n\nIt turns.", "It turns.", ("Lamp",))
    assert (second.text, second.urtext, second.path) == ("Care\n\nDaily.", "Daily.", ("Lamp", "Care"))
    assert (second.parent_id, second.root_id, second.uri, second.number) == (care.id, document.id, URI, 1)
    assert second.metadata == {"language": "en"}


def test_a_chunk_is_never_of_two_sections() -> None:
    assert [each.urtext for each in chunks("# A\n\na\n\n# B\n\nb")] == ["a", "b"]


def test_a_long_text_is_cut_between_sentences_and_repeats_the_last_ones() -> None:
    found = chunks(SENTENCES, max_chunk_size=300, overlap_size=60)

    assert all(each.urtext.startswith("Sentence") and each.urtext.endswith(".") for each in found)
    overlaps = [before.end - after.start for before, after in pairwise(found)]
    assert min(overlaps) > 20
    assert max(overlaps) <= 60


def test_no_more_than_half_of_a_chunk_is_repeated() -> None:
    found = chunks(SENTENCES, max_chunk_size=100)

    assert max(before.end - after.start for before, after in pairwise(found)) <= 50


def test_paragraphs_that_fit_are_kept_whole() -> None:
    paragraphs = [f"Paragraph {number}. " + "It says more. " * 8 for number in range(20)]
    found = chunks("\n\n".join(paragraphs), max_chunk_size=300, overlap_size=0)

    assert all(any(each.strip() in chunk.urtext for chunk in found) for each in paragraphs)


def test_a_table_is_cut_between_rows_and_each_piece_repeats_its_header() -> None:
    found = chunks(f"Before it.\n\n{TABLE}\nAfter it.", max_chunk_size=300)

    assert len(found) > 5
    for each in found[1:]:
        assert each.text.startswith("lamp\n\n| lamp | light |\n| --- | --- |\n| lamp ")
    rows = [line for each in found for line in each.urtext.splitlines() if line.startswith("| lamp ")]
    assert rows == TABLE.splitlines()[:1] + TABLE.splitlines()[2:]


@pytest.mark.parametrize(("columns", "padding"), [(12, 1), (24, 12), (60, 1)])
def test_each_piece_of_a_wide_table_says_what_its_columns_are(columns: int, padding: int) -> None:
    names = [f"column {number}{' ' * padding}" for number in range(columns)]
    rows = "".join(f"| {' | '.join(f'cell {row}.{number}' for number in range(columns))} |\n" for row in range(20))
    table = f"| {' | '.join(names)} |\n|{'|'.join('-' * (len(each) + 2) for each in names)}|\n{rows}"
    found = chunks(table, max_chunk_size=600)

    assert len(found) > 5
    for each in found:
        assert each.text.startswith("lamp\n\n| column 0 ")
        assert "| column 11 " in each.text
        assert len(each.text) <= 600
    assert "".join(each.urtext for each in found).count("cell") == 20 * columns


def test_code_is_cut_between_lines_and_each_piece_is_fenced() -> None:
    found = chunks(f"Before it.\n\n{CODE}\n\nAfter it.", max_chunk_size=300)
    pieces = [each for each in found if "turn()" in each.text]

    assert len(pieces) > 5
    for each in pieces:
        assert each.text.count("~~~") == 2
        assert "~~~python\n    lamp_" in each.text
    lines = [line for each in found for line in each.urtext.splitlines() if "turn()" in line]
    assert lines == CODE.splitlines()[1:-1]


def test_the_line_that_closes_a_fence_is_no_chunk() -> None:
    for size in range(200, 240):
        assert all("turn()" in each.urtext for each in chunks(CODE, max_chunk_size=size))


def test_code_and_tables_that_fit_are_kept_whole() -> None:
    code, table = "\n".join(CODE.splitlines()[:10]) + "\n~~~", "\n".join(TABLE.splitlines()[:13])
    for block in (code, table):
        assert 240 < len(block) < 290
        found = chunks(f"{'A few words. ' * 12}\n\n{block}\n\n{'And more. ' * 12}", max_chunk_size=300, overlap_size=80)
        assert sum(block in each.urtext for each in found) == 1


def test_a_row_that_is_too_long_for_a_chunk_is_cut_all_the_same() -> None:
    found = chunks(f"| a | b |\n|---|---|\n| {'word ' * 200}| x |\n| 1 | 2 |", max_chunk_size=300)

    assert max(len(each.text) for each in found) <= 300
    assert found[-1].text.endswith("| 1 | 2 |")


@pytest.mark.parametrize(
    "one",
    [
        "e\u0301\u0323",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467",
        "\U0001f1e9\U0001f1ea",
        "\U0001f44d\U0001f3fd",
        "\r\n",
    ],
    ids=["accents", "family", "flag", "skin", "line end"],
)
def test_what_a_reader_sees_as_one_character_is_not_cut_in_two(one: str) -> None:
    for shift in range(len(one)):
        text = "x" * shift + one * 100 + "."
        leaf = LeafSection(id="leaf", title="Lamp", parent_id="root", path=("Lamp",), text=text)
        document = NavigableDocument(id="root", uri=URI, title="Lamp", text=text, children=(leaf,))
        for chunk in Chunker(ChunkerConfig(max_chunk_size=50, overlap_size=10)).split(document):
            assert (chunk.start - shift) % len(one) == 0 or chunk.start == 0
            assert (chunk.end - shift) % len(one) == 0 or chunk.end == len(text)


def test_chunks_keep_their_ids_while_they_and_their_section_stay() -> None:
    text = f"# A\n\n{SENTENCES}\n\n# B\n\nb\n\nb\n"
    changed = text.replace("# B\n\nb", "# New\n\nnew\n\n# B\n\nb").replace("number 199", "number 1990")
    before, after = chunks(text), chunks(changed)

    assert [each.id for each in before] == [each.id for each in chunks(text)]
    assert [each.id for each in before if each in before[:-2]] == [each.id for each in after[: len(before) - 2]]
    assert before[-1].id == after[-1].id
    assert before[-2].id != after[len(before) - 2].id


class WithSummary:
    """Writes a line about the document before each chunk, and tries to change more than it may."""

    async def transform(self, chunk: Chunk, leaf: LeafSection) -> Chunk:
        return replace(chunk, text=f"About {leaf.title}. {chunk.text}", urtext="other", start=0, id="other")


async def test_a_transformer_changes_what_is_searched_and_keeps_the_original() -> None:
    document = read_markdown("# Lamp\n\nIt turns.\n\n## Care\n\nDaily.\n", URI)
    plain = await Chunker().chunk(document)
    changed = await Chunker(transformers=[WithSummary(), WithSummary()]).chunk(document)

    assert changed[1].text == "About Care. About Care. Care\n\nDaily."
    assert [replace(each, text="") for each in changed] == [replace(each, text="") for each in plain]


def test_pages_and_plain_texts_are_cut_alike() -> None:
    rows = "".join(f"<tr><td>lamp {row}<td>white" for row in range(200))
    for document in (
        read_html(f"<h1>T</h1><table><tr><th>name<th>light{rows}</table><p>{SENTENCES}", URI),
        read_plain_text(SENTENCES.replace("7", "\r\n"), URI),
    ):
        check(document, ChunkerConfig())
        assert len(Chunker().split(document)) > 3


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({"max_chunk_size": 10}, "max_chunk_size should be at least 50; came 10"),
        ({"overlap_size": -1}, "overlap_size should be at least 0; came -1"),
    ],
)
def test_sizes_that_make_no_sense_are_refused(config: dict[str, int], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        ChunkerConfig(**config)  # type: ignore[arg-type]
