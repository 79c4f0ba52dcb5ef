"""Markdown as a document: sections out of headings, metadata out of front matter, and texts made to do harm."""

from time import process_time

import pytest
from hypothesis import given, strategies as st

from goalport.base.words import cleaned
from goalport.knowledge.documents import ContainerSection, LeafSection, NavigableDocument, read_markdown

URI = "file:///handbook/lamp.md"
GUIDE = """\
---
title: "The lamp: a manual"
tags: [light, glass]
since: 2026-11-01
---
# Lamp

It turns.

## Care

Every day.

### Glass

Clean it.

## Care

Once a year.
"""
LINES = st.sampled_from(
    (
        *("# a", "## b", "text", "more text", "", "", "```", "```py", "~~~", "- item", "  more", "1. one", "> quote"),
        *("    code", "===", "---", "***", "| a | b |", "|---|---|", "<div>", "</div>", "<!-- c", "-->", "#no"),
    )
)
"""Lines that begin or end something in Markdown."""


def shape(document: NavigableDocument) -> list[tuple[str, ...]]:
    """The path and the text of each leaf."""
    return [(*leaf.path, leaf.text) for leaf in document.leaves()]


def test_headings_become_sections_and_front_matter_becomes_metadata() -> None:
    document = read_markdown(GUIDE, URI)

    assert document.title == "The lamp: a manual"
    assert document.metadata == {"title": "The lamp: a manual", "tags": ["light", "glass"], "since": "2026-11-01"}
    assert shape(document) == [
        ("The lamp: a manual", "Lamp", "It turns."),
        ("The lamp: a manual", "Lamp", "Care", "Every day."),
        ("The lamp: a manual", "Lamp", "Care", "Glass", "Clean it."),
        ("The lamp: a manual", "Lamp", "Care", "Once a year."),
    ]


def test_a_text_before_the_first_section_of_a_container_is_a_leaf_with_its_title() -> None:
    (lamp,) = read_markdown(GUIDE, URI).children

    assert isinstance(lamp, ContainerSection)
    before, care, _ = lamp.children
    assert isinstance(before, LeafSection)
    assert (before.title, before.parent_id, before.path) == ("Lamp", lamp.id, lamp.path)
    assert before.id != lamp.id
    assert care.parent_id == lamp.id


def test_the_only_heading_above_all_others_is_the_title_and_no_section() -> None:
    assert shape(read_markdown("# Lamp\n\nIt turns.\n\n## Care\n\nDaily.\n", URI)) == [
        ("Lamp", "It turns."),
        ("Lamp", "Care", "Daily."),
    ]
    assert shape(read_markdown("![logo](x.png)\n# Lamp\n\nIt turns.\n", URI)) == [
        ("Lamp", "![logo](x.png)\n# Lamp\n\nIt turns.")
    ]


def test_a_text_without_headings_is_one_leaf_with_the_name_of_its_file() -> None:
    assert shape(read_markdown("It turns.\n\nAll night.\n", URI)) == [("lamp", "It turns.\n\nAll night.")]


def test_sections_of_one_title_have_ids_of_their_own_that_stay_when_others_come() -> None:
    def ids(text: str) -> dict[tuple[str, ...], str]:
        return {(*leaf.path, leaf.text): leaf.id for leaf in read_markdown(text, URI).leaves()}

    before, after = ids(GUIDE), ids(GUIDE.replace("## Care", "## Light\n\nWhite.\n\n## Care", 1))

    assert len(set(before.values())) == 4
    assert before.items() <= after.items()


@pytest.mark.parametrize(
    ("written", "title"),
    [
        ("## The **bold** `a_b*c` [link](http://x.org/(y)) ##", "The bold a_b*c link"),
        ("# [`f`](x) ![a](b) \\[c] ", "f a [c]"),
        ("Two\nlines\n=====", "Two lines"),
        ("# snake_case_name and _that_ &amp; more {#anchor}", "snake_case_name and that & more"),
        ("# C\\# <b>now</b>", "C# now"),
        (f"# {'long ' * 100}", ("long " * 40).strip() + "…"),
    ],
)
def test_a_title_is_a_heading_without_its_markup(written: str, title: str) -> None:
    document = read_markdown(f"{written}\n\nIt turns.", URI)

    assert document.title.startswith(title[:190])
    assert len(document.title) <= 201
    assert shape(document) == [(document.title, "It turns.")]


@pytest.mark.parametrize(
    "text",
    [
        "```\n# no heading\n```",
        "~~~~\n# none\n~~~\n# nor here\n~~~~",
        "- item\n\n  # in a list",
        "> # quoted",
        "> quoted\n---",
        "<!--\n# hidden\n\n# still\n-->",
        "<pre>\n\n# as it is\n</pre>",
        "    # code",
        "- item\n---",
        "a | b\n--- | ---\n1 | 2",
        "#hashtag",
    ],
)
def test_what_only_looks_like_a_heading_is_text(text: str) -> None:
    assert shape(read_markdown(text, URI)) == [("lamp", text.strip())]


@pytest.mark.parametrize(
    ("text", "metadata"),
    [
        ("---\ntitle: Lamp: a manual\n---\nIt turns.", {"title": "Lamp: a manual"}),
        ("---\n---\nIt turns.", {}),
        ("---\na: &a [1, 2]\nb: [*a, *a]\n---\nIt turns.", {"b": "[*a, *a]"}),
        (f"---\nc: {2**70}\n---\nIt turns.", {"c": f"{2**70:x}"}),
        ('---\ntitle: "Lamp\\0\\u202e"\n---\nIt turns.', {"title": "Lamp"}),
    ],
)
def test_front_matter_is_no_heading_however_it_is_written(text: str, metadata: dict[str, object]) -> None:
    document = read_markdown(text, URI)

    assert [leaf.text for leaf in document.leaves()] == ["It turns."]
    assert metadata.items() <= document.metadata.items()


def test_a_line_between_texts_is_no_front_matter() -> None:
    assert shape(read_markdown("---\n\nIt turns.\n\n---\n\nAll night.", URI))[0][-1].startswith("---")


def test_the_text_has_line_feeds_and_no_characters_that_show_nothing() -> None:
    document = read_markdown("# L\u200bamp\r\n\r\nIt\0 tur\u00adns\u202e.\r\fAll night.\r\n", URI)

    assert shape(document) == [("Lamp", "It turns.\n\nAll night.")]
    assert document.text == "# Lamp\n\nIt turns.\n\nAll night.\n"
    for kept in ("\U0001f468\u200d\U0001f469", "\u0645\u06cc\u200c\u062e", "\u2764\ufe0f"):
        assert shape(read_markdown(kept, URI)) == [("lamp", kept)]
        assert cleaned(kept) == kept


@given(st.lists(LINES, max_size=12).map("\n".join))
def test_each_leaf_stands_where_it_says(text: str) -> None:
    document = read_markdown(text, URI)

    for leaf in document.leaves():
        assert document.text[leaf.start : leaf.end] == leaf.text
    ids = [each.id for each in document.sections()]
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize(
    ("before", "repeated"),
    [
        ("", "a\n"),
        ("", "- a\n"),
        ("", "     ```x\n"),
        ("", "a\n-\n"),
        ("", "<!--\n"),
        ("", "# a\n"),
        ("", "a|b\n-|-\n"),
        ("> " * 200, "a\n"),
        ("- " * 200, "a\n"),
        ("", "[a]: b\n"),
        ("# ", "[a]("),
        ("# ", "`a "),
        ("a|b\n", "|-"),
    ],
)
def test_the_time_for_a_text_is_in_proportion_to_its_length(before: str, repeated: str) -> None:
    def seconds(times: int) -> float:
        began = process_time()
        read_markdown(before + repeated * times, URI)
        return process_time() - began

    small = max(min(seconds(1_000) for _ in range(3)), 0.002)

    # The best of some runs: others use the processor too.
    assert min(seconds(10_000) for _ in range(3)) < 60 * small
