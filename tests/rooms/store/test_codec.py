"""What the codec writes comes back: equal, of the same types, and as the same objects, through real JSON text."""

import functools
import ipaddress
import json
import re
import sys
import threading
import types
import typing
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from fractions import Fraction
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Annotated, Any, Literal, cast
from uuid import UUID
from zoneinfo import ZoneInfo

import pydantic_core
import pytest
from hypothesis import given, settings, strategies as st
from pydantic import Secret, SecretBytes, SecretStr, TypeAdapter
from pydantic_ai.messages import ModelResponse, TextPart, ThinkingPart, ToolCallPart

from goalport.agents.domain import WaitFor
from goalport.base.caller import Caller
from goalport.base.errors import Unstorable
from goalport.models.llm import AssistantMessage, Image, ModelReply, TokenUsage, ToolCall
from goalport.runtime.process import Budget, Completed, Failed
from goalport.runtime.process.action_progress import ActionInvocation, ActionProgressState, Failure
from goalport.runtime.process.ledger import Spending
from goalport.store import Codec, Seal, StoredTypes
from goalport.tools import ToolResult
from tests.rooms.store import toys

TYPES = StoredTypes()
NOW = datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC)


def through_text(data: Any) -> Any:
    """The data as the parsers of two libraries read it from text, one of them with the keys in another order."""
    read = json.loads(json.dumps(data, sort_keys=True))
    assert read == pydantic_core.from_json(pydantic_core.to_json(data))
    return read


def again(value: object) -> Any:
    """The value as another program reads it."""
    return Codec(StoredTypes()).decode(through_text(Codec(TYPES).encode(value, 0)), 0)


def _class(value: Any) -> str:
    return type(value).__name__


scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(st.characters())
    | st.text(st.characters(categories=["Cs"]), max_size=3)
    | st.text("ab", min_size=127, max_size=130)
    | st.binary()
    | st.decimals(allow_nan=False)
    | st.datetimes(timezones=st.none() | st.timezones())
    | st.timedeltas()
    | st.dates()
    | st.times(timezones=st.none() | st.just(UTC))
    | st.uuids()
    | st.complex_numbers(allow_nan=False)
    | st.fractions()
    | st.sampled_from([toys.Colour.RED, toys.Word.YES, toys.Level.LOW, toys.Right.READ | toys.Right.WRITE])
    | st.sampled_from([toys.Raw, list[toys.Raw], toys.Page[toys.Raw], int | None, toys.UserId])
)
keys = st.integers() | st.text() | st.dates() | st.integers().map(toys.Frozen) | st.tuples(st.text(), st.booleans())


def nested(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return (
        st.lists(inner, max_size=4)
        | st.lists(inner, max_size=3).map(tuple)
        | st.lists(inner, max_size=3).map(lambda values: deque(values, 5))
        | st.lists(inner, max_size=2).map(lambda values: [*values, *values])
        | st.dictionaries(keys, inner, max_size=3)
        | st.sets(keys, max_size=3)
        | st.frozensets(keys, max_size=3)
        | st.tuples(inner, inner).map(lambda pair: toys.Node(*pair))
        | inner.map(toys.Frozen)
        | inner.map(lambda value: toys.Slotted(value=value, _hidden=[value]))
        | inner.map(toys.Point)
        | inner.map(lambda value: toys.Raw(text="a", at=value))
        | st.lists(inner, max_size=3).map(lambda items: toys.Page[Any](items=items))
        | inner.map(lambda value: toys.Open.model_validate({"name": "x", "more": value}))
        | inner.map(lambda value: toys.Stage("draft", value))
    )


values = st.recursive(scalars, nested, max_leaves=12)


_NO_IDENTITY: tuple[Any, ...] = (
    str,
    int,
    float,
    complex,
    bytes,
    Decimal,
    Fraction,
    date,
    time,
    timedelta,
    UUID,
    type,
    toys.Right,
    types.GenericAlias,
    types.UnionType,
    type(toys.UserId),
)


def shape(value: Any, seen: dict[int, int]) -> Any:
    """Types and identities of all that a value holds; equality alone takes 1 for True and a copy for the object."""
    if isinstance(value, _NO_IDENTITY) or value is None:
        return type(value), repr(value)
    if id(value) in seen:
        return "seen", seen[id(value)]
    seen[id(value)] = len(seen)
    if isinstance(value, dict):
        pairs = cast("dict[object, object]", value).items()
        return dict, [(shape(key, seen), shape(each, seen)) for key, each in pairs]
    if isinstance(value, list | tuple | deque):
        return type(cast("object", value)), [shape(each, seen) for each in cast("Sequence[object]", value)]
    inside: dict[str, object] = {**getattr(value, "__dict__", {})}
    return (
        type(value),
        {name: shape(each, seen) for name, each in sorted(inside.items())},
        repr(value) if not inside else "",
    )


@given(values)
@settings(deadline=None)
def test_any_value_comes_back_equal_of_the_same_types_and_with_the_same_sharing(value: object) -> None:
    back = again(value)
    assert back == value
    if not _has_sets(value):
        assert shape(back, {}) == shape(value, {})


def _has_sets(value: object) -> bool:
    return any(word in repr(value) for word in ("{", "frozenset", "set()"))


@given(st.lists(values, min_size=1, max_size=5), st.lists(st.integers(0, 4), max_size=6))
@settings(deadline=None)
def test_objects_that_are_written_one_after_another_stay_the_same_objects(made: list[Any], order: list[int]) -> None:
    written = [[made[each % len(made)], made[0]] for each in order]
    writer, reader = Codec(TYPES), Codec(StoredTypes())
    back: list[Any] = []
    for number, each in enumerate(written):
        back.append(reader.decode(through_text(writer.encode(each, number)), number))
    assert back == written
    flat = [each for pair in written for each in pair]
    flat_back = [each for pair in back for each in pair]
    for one, one_back in zip(flat, flat_back, strict=True):
        for other, other_back in zip(flat, flat_back, strict=True):
            if type(one) in {toys.Node, toys.Raw, list, dict}:
                assert (one is other) == (one_back is other_back)


VALUES: list[Any] = [
    float("inf"), -0.0, 1e22, 1e16, 2.0**53, 1 << 63, -(1 << 64), 1 << 20_000, "\0", "\ud800x", "é" * 200,
    Decimal("1.10"), Decimal("-Infinity"), Fraction(1, 3), complex(-0.0, 1), bytearray(b"x"),
    NOW, datetime(2026, 10, 25, 2, 30, fold=1, tzinfo=ZoneInfo("Europe/Berlin")), time(1, 2, fold=1),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "Here")), timezone(timedelta(minutes=-90)), date.max,
    ZoneInfo("Asia/Tokyo"), timedelta.min,
    UUID(int=7), Path("a/b"), PurePosixPath("/c"), PureWindowsPath("c:/d"), re.compile(b"a+", re.DOTALL),
    ipaddress.ip_address("fe80::1%eth0"), ipaddress.ip_network("10.0.0.0/8"), ipaddress.ip_interface("10.0.0.1/8"),
    OrderedDict(b=1, a=2), Counter("aab"), defaultdict(list, a=[1]), deque([1, 2], 2), (), frozenset(), set[int](),
    toys.Colour.GREEN, toys.Right(0), toys.Point(1, [2]), toys.SlottedBelow(1, ("a",), [2]), toys.Checked(1),
    toys.Box(toys.Raw(text="a")), toys.Names(["a"]), toys.Site.model_validate({"url": "http://a.com/b?c=d"}),
    toys.Parts(raw=toys.Raw(text="a")), toys.Stage("draft"), toys.Approval("Fine?", list[toys.Raw]), toys.Kept([1]),
    WaitFor.form_submission("Which?", toys.Raw), WaitFor.confirmation(toys.Raw(text="x"), "Fine?", expires_in=9.0),
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=_class)
def test_a_value_comes_back_as_it_was(value: object) -> None:
    back = again(value)
    assert type(back) is type(value)
    assert back == value
    if not isinstance(value, int):
        assert repr(back) == repr(value)


def test_a_time_that_pydantic_has_read_keeps_its_offset() -> None:
    at = TypeAdapter(datetime).validate_python("2026-01-01T00:00:00+02:00")
    assert again(at).isoformat() == at.isoformat()


def test_a_number_that_is_none_stays_none() -> None:
    assert repr(again([float("nan"), Decimal("sNaN")])) == "[nan, Decimal('sNaN')]"


KINDS: list[Any] = [
    toys.Raw, int, None, type(None), Any, object, list[toys.Raw], dict[str, list[toys.Raw | None]],
    toys.Page[toys.Raw], toys.Page[list[int]], toys.Box[int], toys.Box, tuple[int, ...], tuple[()], type[toys.Raw],
    int | None, Sequence[int], Literal["a", 1, toys.Colour.RED], Annotated[int, toys.Frozen([1])], toys.UserId,
    list[None], toys.Stage, toys.Colour,
]  # fmt: skip


@pytest.mark.parametrize("kind", KINDS, ids=repr)
def test_a_type_comes_back(kind: Any) -> None:
    back = again([kind])[0]
    assert back == kind
    assert repr(back) == repr(kind)


def test_a_type_in_an_older_form_comes_back_as_the_same_type() -> None:
    older = vars(typing)
    kinds: list[Any] = [older["List"], older["List"][int], older["Tuple"][()], older["Optional"][int], older["Mapping"]]
    assert again(kinds) == [list, list[int], tuple[()], int | None, Mapping]


@pytest.mark.parametrize(
    "value",
    [
        ActionInvocation("Writer.draft", NOW, 1.5, "succeeded", None, TokenUsage(input_tokens=3, cost=0.1)),
        ModelReply(message=AssistantMessage("hi", (ToolCall("1", "look", '{"a": 1}'),)), usage=TokenUsage(), model="m"),
        ToolResult("text", artifact=toys.Raw(text="a"), structured={"text": "a"}),
        Spending("p-1", "Writer.draft", "m", TokenUsage(output_tokens=4), 0.5, NOW),
        Image("image/png", b"\x89PNG" * 99),
        Budget(cost=1.0),
        Failed("It failed.", ("draft failed",)),
        Completed(None),
        Caller("ann", "house", frozenset({"read"})),
        ActionProgressState(
            has_run=frozenset({"a"}),
            left_out={},
            declined={},
            waits={},
            skipped=set(),
            numbers={"a": 1},
            begun=2,
            paused_after=-1,
        ),
    ],
    ids=_class,
)  # fmt: skip
def test_what_a_process_notes_itself_comes_back(value: object) -> None:
    assert again(value) == value


def test_content_blocks_of_tools_come_back_under_the_public_name_of_their_class() -> None:
    result = ToolResult("text", blocks=(ToolResult.of_text("a").content[0],))
    assert '"mcp_types:TextContent"' in json.dumps(Codec(TYPES).encode(result, 0))
    assert again(result) == result


def test_a_message_in_the_form_of_its_provider_comes_back() -> None:
    native = ModelResponse([ThinkingPart("hm", signature="s"), TextPart("hi"), ToolCallPart("look", {"a": 1})])
    reply = ModelReply(message=AssistantMessage("hi", native=native))
    assert again(reply).message.native == native


def test_an_exception_ends_with_the_program_and_what_describes_it_is_stored() -> None:
    failure, result = again([Failure("It broke.", error=ValueError("x"), at=NOW), ToolResult("x", error=OSError())])
    assert (failure.reason, failure.error, failure.at, result.text, result.error) == ("It broke.", None, NOW, "x", None)


def test_what_is_marked_as_not_stored_gets_its_default() -> None:
    back = again(toys.Counted("a"))
    assert back.name == "a"
    assert isinstance(back.lock, type(threading.Lock()))


def test_an_object_without_some_of_its_values_comes_back_without_them() -> None:
    value = object.__new__(toys.Slotted)
    object.__setattr__(value, "value", 1)
    back = again(value)
    assert (back.value, hasattr(back, "_hidden")) == (1, False)


def test_a_generic_model_keeps_the_arguments_that_it_was_made_with() -> None:
    kind = toys.Page[Annotated[int, toys.Frozen(1)]]
    assert type(again(kind(items=[1]))) is kind


def test_objects_are_made_of_their_fields_without_their_constructors_and_validators() -> None:
    value, strict = toys.Computed(2.0, 3.0), toys.Strict(name="a", child=toys.Strict(name="b"))
    assert (value.twice, strict.length) == (24.0, 3)
    made = toys.Computed.made
    back, strict_back = again([value, strict])
    assert toys.Computed.made == made
    assert vars(back) == {"side": 2.0, "area": 12.0}
    assert strict_back == strict
    assert "length" not in vars(strict_back)


def test_a_model_keeps_what_its_fields_do_not_show() -> None:
    value = toys.Open.model_validate({"name": "a", "$more": [1], "é": 2})
    value._seen = 4  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
    back = again(value)
    assert back == value
    assert back.__pydantic_extra__ == {"$more": [1], "é": 2}
    assert back.model_fields_set == value.model_fields_set
    assert again(toys.Raw(text="a")).model_fields_set == {"text"}
    assert back.model_dump_json() == value.model_dump_json()


def in_list(value: object) -> object:
    return [0, value]


def in_dict(value: object) -> object:
    return {"a": value}


@pytest.mark.parametrize(("inside", "path"), [(toys.Node, ".value"), (in_list, "[1]"), (in_dict, "['a']")])
def test_what_holds_itself_is_refused_with_its_place(inside: Callable[[object], object], path: str) -> None:
    around: list[Any] = []
    around.append(inside(around))
    with pytest.raises(Unstorable, match=re.escape(f"list[0]{path} (a list) cannot be stored: it holds itself")):
        Codec(TYPES).encode(around, 0)


def test_what_nothing_refers_to_is_not_remembered() -> None:
    codec, raw = Codec(TYPES), toys.Raw(text="a")
    shared = [raw, raw]
    assert codec.encode(shared) == codec.encode(shared)
    codec.encode(raw, 0)
    assert codec.encode(shared) == [{"$ref": [0, 0]}, {"$ref": [0, 0]}]
    reader = Codec(TYPES)
    first = reader.decode(codec.encode(raw, 0), 0)
    assert all(each is first for each in cast("list[object]", reader.decode(codec.encode(shared))))
    assert reader.encode(first, 1) == {"$ref": [0, 0]}


def test_what_failed_to_be_written_is_not_remembered() -> None:
    codec, raw = Codec(TYPES), toys.Raw(text="a")
    with pytest.raises(Unstorable):
        codec.encode([raw, sys], 0)
    assert codec.encode(raw, 0) == {"tests.rooms.store.toys:Raw": {"text": "a", "at": None, "$given": ["text"]}}


REFUSED: list[Any] = [
    (toys.Live(None, [1, 2, toys.Client()]), r"Live\.images\[2\] \(a Client\) cannot be stored: it is neither"),
    (toys.Lookup(str.upper), r"Lookup\.find \(a method_descriptor\) cannot be stored: code is not stored"),
    ({"a": [toys.Client()]}, r"dict\['a'\]\[0\] \(a Client\) cannot"),
    ([{toys.Client()}], r"list\[0\]\{\} \(a Client\)"),
    (toys.Login(user="a", password=SecretStr("geheim")), r"Login\.password \(a SecretStr\) .* in clear"),
    (toys.make_local()(), "a Local cannot be stored: it is defined inside a function"),
    ([toys.DYNAMIC], "has no Hidden. Bind the class to this name"),
    (toys.Resource("a"), "it has __del__"),
    (toys.Named(), "it is a dict too"),
    (toys.Slug("a"), "it is a str of a class of its own"),
    (ValueError("a"), "an exception holds the frames"),
    (toys.stories(), "an iterator ends with the program"),
    (threading.Lock(), "a lock ends with the program"),
    (defaultdict(lambda: 1), "its factory is a function"),
    (toys.T, "it is neither"),
    (datetime(2026, 1, 1, tzinfo=toys.Odd()), "only zones of zoneinfo"),
    (toys.Forgetful("a"), "its field lock is marked as not stored. Give it a default"),
    (toys.Loose(8 | 1), "it has bits without a name"),
    (range(3), "it is neither a dataclass"),
    (Secret[int](1), "only SecretStr and SecretBytes can be sealed"),
    (types.GenericAlias(list, (toys.T,)), "it is no type of which there are objects"),
    (functools.partial(print), "code is not stored"),
]  # fmt: skip


@pytest.mark.parametrize(("value", "says"), REFUSED, ids=_class)
def test_what_cannot_be_written_is_refused_with_where_and_why(value: object, says: str) -> None:
    with pytest.raises(Unstorable, match=says) as refused:
        Codec(TYPES).encode(value, 0)
    assert "geheim" not in str(refused.value)


def test_what_is_nested_too_deep_for_parsers_is_refused_and_all_else_is_read() -> None:
    deep: Any = None
    for _ in range(90):
        deep = toys.Node(deep)
    assert again(deep) == deep
    with pytest.raises(Unstorable, match="more than 90 levels"):
        again([deep])


class Xor(Seal):
    """Encrypts like a child, but not in clear."""

    def seal(self, secret: bytes, /) -> str:
        return bytes(each ^ 0x55 for each in secret).hex()

    def unseal(self, sealed: str, /) -> bytes:
        return bytes(each ^ 0x55 for each in bytes.fromhex(sealed))


def test_a_secret_is_sealed_where_there_is_a_key() -> None:
    value = [toys.Login(user="a", password=SecretStr("geheim\ud800")), SecretBytes(b"wort")]
    data = Codec(TYPES, seal=Xor()).encode(value, 0)
    assert "geheim" not in json.dumps(data)
    back = cast("Any", Codec(TYPES, seal=Xor()).decode(through_text(data), 0))
    assert back == value
    assert back[0].password.get_secret_value() == "geheim\ud800"
