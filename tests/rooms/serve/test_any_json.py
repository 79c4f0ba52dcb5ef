"""Whatever JSON is sent as an argument: calls that goalport answers itself end as those do that the SDK answers.

The JSON is generated as text, since some of it is nothing that Python would write.
"""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st
from mcp_types import PARSE_ERROR
from pydantic import BaseModel, JsonValue

from goalport import Export, achieves_goal, agent
from tests.rooms.serve.own_and_sdk import Post, asking, call, in_session, pair

_SCALARS = [
    "null", "true", "0", "-0", "1.0", "1e400", "-1e-400", "0.1e1", "01", "+1", "1_0", "NaN", "-Infinity", "nan",
    "9" * 19, "9" * 400, "1" * 5_000, '""', '"5"', '"NaN"', '"1e400"', r'"\ud83d\ude00"', r'"\ud800"',
    r'"\udc00\ud800"', r'"\u0000"', '"\x7f\u2028\U0010ffff"', '"\x01"', '"a', '"\\x"', "{}", "[]",
    "[,]", '{"a": 1, "a": 2}', "{1: 2}", "",
]  # fmt: skip
_TEXTS = st.sampled_from(_SCALARS) | st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
).map(lambda value: json.dumps(value, ensure_ascii=False))
_DEPTHS = st.sampled_from([0, 1, 2, 60, 100, 190, 200, 250, 1_000, 100_000])


class Anything(BaseModel):
    """What an argument of each kind may be."""

    value: JsonValue = None
    ratio: float = 0.0
    number: int = 0
    text: str = ""


class Heard(BaseModel):
    said: Anything


@agent(description="Says what it hears")
class Echo:
    @achieves_goal(description="Echo", export=Export(remote=True, name="echo"))
    def echo(self, anything: Anything) -> Heard:
        return Heard(said=anything)


def nested(text: str, depth: int, *, in_objects: bool) -> str:
    """A JSON text in so many lists or objects."""
    opening, closing = ('{"a":', "}") if in_objects else ("[", "]")
    return opening * depth + text + closing * depth


def saying(post: Post, field: str, text: str) -> Post:
    """A call whose argument is written as this text."""
    body = json.dumps(post.body).replace('"arguments": {}', f'"arguments": {{"{field}": {text}}}')
    return Post(body.encode(), post.headers)


async def test_whatever_json_an_argument_is_both_answer_the_same_and_it_comes_back_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # No answer becomes an event stream because the machine of the test is busy.
    monkeypatch.setattr("goalport.server.doors.mcp.streamable_http._PATIENCE", 60.0)
    calls = [call("echo", {}), in_session(call("echo", {})), asking(call("echo", {}), progressToken=1)]
    fields = [*Anything.model_fields]
    found = [(calls[0], field, text) for text in _SCALARS for field in fields]

    @settings(max_examples=120, database=None, derandomize=True)
    @given(st.sampled_from(calls), st.sampled_from(fields), _TEXTS, _DEPTHS, st.booleans())
    def collect(post: Post, field: str, text: str, depth: int, in_objects: bool) -> None:  # noqa: FBT001 - generated
        found.append((post, field, nested(text, depth, in_objects=in_objects)))

    collect()
    returned = 0
    async with pair(tmp_path, Echo()) as both:
        for post, field, text in found:
            answer = await both.same(saying(post, field, text))
            streams = answer.headers.get("content-type") == "text/event-stream"
            last: Any = answer.body[-1] if streams else answer.body
            if "error" in last:
                assert last["error"]["code"] == PARSE_ERROR
            elif not last["result"]["isError"]:
                returned += 1
                said = last["result"]["structuredContent"]["said"]
                assert field != "value" or said["value"] == json.loads(text)
        assert both.own.seen == 0
        assert both.sdk.seen > returned > 50
