"""Values out of JSON that is being written: however it is cut into pieces, and however long it grows."""

import json
from time import process_time
from typing import Any

from hypothesis import given, strategies as st

from goalport.runtime.ai.output_type import JsonValues

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(alphabet='ab{}[]"\\\n,: é'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.lists(st.dictionaries(st.text(max_size=3), JSON, max_size=3), max_size=4)


def _read(pieces: list[str], *, lines: bool) -> list[str]:
    values = JsonValues(lines=lines)
    return [each for piece in pieces for each in values.feed(piece)] + list(values.end())


def _cut(text: str, places: list[int]) -> list[str]:
    ends = sorted({place % (len(text) + 1) for place in places} | {len(text)})
    return [text[start:end] for start, end in zip([0, *ends], ends, strict=False)]


@given(OBJECTS, st.lists(st.integers(min_value=0), max_size=20), st.sampled_from(["", "<think>{ [</think>", "Here: "]))
def test_objects_are_found_however_the_text_is_cut(
    objects: list[dict[str, Any]], places: list[int], before: str
) -> None:
    for text in ("\n".join(map(json.dumps, objects)), json.dumps(objects, indent=1)):
        found = _read(_cut(before + text, places), lines=False)
        assert [json.loads(each) for each in found] == objects


@given(st.lists(JSON, max_size=4), st.lists(st.integers(min_value=0), max_size=20))
def test_lines_are_found_however_the_text_is_cut(values: list[Any], places: list[int]) -> None:
    found = _read(_cut("\n".join(map(json.dumps, values)), places), lines=True)
    assert [json.loads(each) for each in found] == values


def test_a_long_stream_takes_time_by_its_length_and_no_more() -> None:
    line = json.dumps({"text": "x" * 400, "items": [{"a": "}"}]}) + "\n"
    pieces = [line[at : at + 20] for at in range(0, len(line), 20)]

    def work(count: int) -> float:
        began = process_time()
        assert len(_read(pieces * count, lines=False)) == count
        return process_time() - began

    short, long = (min(work(count) for _ in range(3)) for count in (100, 1_600))
    assert long < 64 * short  # sixteen times as long: 16 times the work, 256 times if it grew with the square
