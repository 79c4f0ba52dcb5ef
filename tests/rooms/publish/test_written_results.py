"""What is sent of a result: JSON that is written once, and the same as data for the SDK."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from mcp_types import TextContent
from pydantic import BaseModel, JsonValue

from goalport.base.secrecy import register_secrets
from goalport.server.publish.output import OutputFormat, WrittenResult
from tests.rooms.publish.test_results import IMAGE, Point, Report, answer_in
from tests.rooms.serve.served import ERAS, text_of

TEXTS = st.text() | st.sampled_from(['"', "\\", '\\"', "\x00\x1f\x7f", "\u2028", "é", "😀", "null", "NaN"])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=12,
)


class Owner:
    """Whose secrets are hidden for as long as it lives."""


def said(result: WrittenResult) -> Any:
    """What a client reads, by another reader than the one that is used here."""
    return json.loads(result.json)


def dumped(result: Mapping[str, Any]) -> int:
    """The bytes of a result as the SDK sends it."""
    return len(json.dumps(result, separators=(",", ":")))


@given(st.dictionaries(TEXTS, VALUES, max_size=4))
def test_an_object_is_written_once_and_its_text_repeats_it(value: dict[str, JsonValue]) -> None:
    result = OutputFormat.of(dict[str, JsonValue]).written(value)
    wire = result.wire
    assert said(result) == wire
    assert wire["structuredContent"] == value
    assert json.loads(wire["content"][0]["text"]) == value
    assert {key: wire[key] for key in ("isError", "resultType")} == {"isError": False, "resultType": "complete"}
    assert result.size >= dumped(wire)


@given(VALUES)
def test_what_is_no_object_is_wrapped(value: JsonValue) -> None:
    result = OutputFormat.of(list[JsonValue]).written([value])
    assert said(result) == result.wire
    assert result.wire["structuredContent"] == {"result": [value]}
    assert json.loads(result.wire["content"][0]["text"]) == [value]


@given(TEXTS, st.integers())
def test_a_text_in_the_field_content_is_the_text(content: str, pages: int) -> None:
    result = OutputFormat.of(Report).written(Report(content=content, pages=pages))
    assert said(result) == result.wire
    assert result.wire["content"] == [{"type": "text", "text": content}]
    assert result.wire["structuredContent"] == {"content": content, "pages": pages}
    assert result.size >= dumped(result.wire)


@given(TEXTS)
def test_content_blocks_are_written_as_they_are(text: str) -> None:
    result = OutputFormat.of(list[TextContent]).written([TextContent(type="text", text=text), IMAGE])
    assert said(result) == result.wire
    assert [each.get("text") for each in result.wire["content"]] == [text, None]
    assert "structuredContent" not in result.wire


@given(st.dictionaries(TEXTS, TEXTS, max_size=3), TEXTS, TEXTS)
def test_known_secrets_are_in_no_form_of_a_result(beside: dict[str, str], before: str, after: str) -> None:
    owner, secret = Owner(), 'córre"ct\\horse'
    register_secrets(owner, [secret])
    for value in ({**beside, "told": before + secret + after}, {**beside, "content": secret}):
        result = OutputFormat.of(dict[str, str]).written(value)
        assert said(result) == result.wire
        assert "horse" not in result.json.decode()
        assert "***" in result.wire["content"][0]["text"]


def test_a_secret_whose_place_is_outside_of_texts_leaves_no_broken_json() -> None:
    owner = Owner()
    register_secrets(owner, ["123456789"])
    with pytest.raises(ValueError, match="expected"):
        OutputFormat.of(Point).written(Point(x=1_234_567_890, y=2))


def test_members_of_its_meta_can_be_added_and_its_type_left_out() -> None:
    result = WrittenResult.of([], {"a": 1}, is_error=True)
    told = json.loads(b"".join(result.pieces({"server": "s"}, typed=False)))
    assert told == {"content": [], "isError": True, "structuredContent": {"a": 1}, "_meta": {"server": "s"}}


class Unspeakable(BaseModel):
    number: int

    @property
    def content(self) -> str:
        """A text that UTF-8 cannot express."""
        return "\ud800"


@pytest.mark.parametrize("era", ERAS)
async def test_a_text_that_cannot_be_encoded_is_an_error_that_clients_can_read(tmp_path: Path, era: str) -> None:
    result = await answer_in(tmp_path, era, Unspeakable, Unspeakable(number=1))
    assert result.is_error
    assert "cannot be written" in text_of(result)


class Fractions(BaseModel):
    ratios: dict[str, list[float]]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (Fractions, Fractions(ratios={"a": [float("nan")]})),
        (dict[str, Any], {"a": Fractions(ratios={"a": [float("inf")]})}),
        (list, [Fractions(ratios={"a": [float("inf")]})]),
        (tuple[str, float], ("a", float("nan"))),
        (float | str, float("nan")),
    ],
)
async def test_no_number_hides_from_the_look_for_those_that_json_lacks(
    tmp_path: Path, kind: Any, value: object
) -> None:
    result = await answer_in(tmp_path, "auto", kind, value)
    assert result.is_error
    assert "JSON has no such number" in text_of(result)
