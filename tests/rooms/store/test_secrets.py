"""Secrets in stored objects are encrypted, by keys that can be changed, and each for its own process only."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeAlias

import pytest
from pydantic import BaseModel, Field, SecretBytes, SecretStr, WithJsonSchema
from pydantic.dataclasses import dataclass as pydantic_dataclass

from goalport.base.errors import SettingsError, Unreadable, Unstorable
from goalport.base.sealing import ProcessSeals
from goalport.store import Codec, Sealed, StoredTypes, storable
from tests.rooms.store.toys import Login

TYPES = StoredTypes()
OLD, NEW = b"o" * 32, b"n" * 32


class Marked(BaseModel):
    pin: Annotated[int, Field(json_schema_extra={"writeOnly": True})]
    word: Annotated[str, WithJsonSchema({"type": "string", "format": "password"})]
    notes: list[str] = Field(default_factory=list[str], json_schema_extra={"format": "password"})
    open: str = ""


@dataclass(frozen=True)
class Card:
    holder: str
    number: object = field(metadata={"secret": True})


Word: TypeAlias = Annotated[str, Field(json_schema_extra={"format": "password"})]


@dataclass
class Annotations:
    one: Word
    other: Word | None = None


@pydantic_dataclass
class Checked:
    one: Word
    other: str = Field(default="", json_schema_extra={"writeOnly": True})


class Optional(BaseModel):
    word: Word | None


def codec(*keys: bytes, process: str = "a") -> Codec:
    return Codec(TYPES, seal=ProcessSeals(lambda: keys).of(process))


def through_text(data: object) -> Any:
    return json.loads(json.dumps(data))


@pytest.mark.parametrize(
    "value",
    [
        SecretStr("geheim"),
        SecretStr(""),
        SecretBytes(b"geheim\0\xff"),
        Login(user="a", password=SecretStr("geheim\ud800")),
        Marked(pin=1234, word="geheim", notes=["geheim", "geheim" * 100], open="all may read"),
        Card("Lynda", "geheim"),
        Card("Lynda", None),
        Annotations("geheim", "geheim"),
        Checked("geheim", "geheim"),
        Optional(word="geheim"),
    ],
)
def test_a_secret_comes_back_equal_and_is_not_written_in_clear(value: object) -> None:
    data = through_text(codec(OLD).encode(value, 0))
    assert "geheim" not in str(data)
    assert "1234" not in str(data)
    assert codec(OLD).decode(data, 0) == value


def test_what_is_not_marked_stays_readable() -> None:
    data = codec(OLD).encode(Marked(pin=1, word="w", open="all may read"), 0)
    assert "all may read" in str(data)


def test_an_object_in_a_secret_field_and_elsewhere_is_one_object_again() -> None:
    words = ["geheim"]
    back: Any = codec(OLD).decode(through_text(codec(OLD).encode([Card("a", words), words], 0)), 0)
    assert back == [Card("a", words), words]
    assert back[0].number is back[1]


def test_any_value_can_be_sealed_as_a_whole_and_comes_back_as_itself() -> None:
    words = ["geheim"]
    data = through_text(codec(OLD).encode([Sealed({"digits": words, "more": [1]}), words], 0))
    assert "more" not in str(data)
    back: Any = codec(OLD).decode(data, 0)
    assert back == [{"digits": words, "more": [1]}, words]
    assert back[0]["digits"] is back[1]
    with pytest.raises(Unstorable, match="not written in clear"):
        Codec(TYPES).encode(Sealed("geheim"))


def test_a_key_is_changed_by_putting_the_new_one_before_the_old_one() -> None:
    data = codec(OLD).encode(SecretStr("geheim"), 0)
    assert codec(NEW, OLD).decode(data, 0) == SecretStr("geheim")
    fresh = codec(NEW, OLD).encode(SecretStr("geheim"), 0)
    assert codec(NEW).decode(fresh, 0) == SecretStr("geheim")


@pytest.mark.parametrize("other", [codec(NEW), codec(OLD, process="b")])
def test_with_another_key_or_for_another_process_it_is_unreadable_and_says_what_to_do(other: Codec) -> None:
    data = codec(OLD).encode(Card("a", "geheim"), 0)
    with pytest.raises(Unreadable, match=r"another key, or for another process.*GOALPORT_STATE_KEYS.*state\.key"):
        other.decode(data, 0)


def test_a_secret_that_was_changed_in_the_store_is_unreadable() -> None:
    data: Any = codec(OLD).encode(SecretStr("geheim"), 0)
    for damaged in ("", "é", data["$secret_text"][:-4] + "AAAA"):
        with pytest.raises(Unreadable):
            codec(OLD).decode({"$secret_text": damaged}, 0)


def test_a_key_that_cannot_be_had_is_said_when_a_secret_is_written_or_read() -> None:
    def no_keys() -> Sequence[bytes]:
        raise SettingsError("The key file cannot be read. Make it readable.")

    locked = Codec(TYPES, seal=ProcessSeals(no_keys).of("a"))
    assert locked.encode("no secret", 0) == "no secret"
    with pytest.raises(Unstorable, match=r"Login\.password \(a SecretStr\).*no key.*Make it readable"):
        locked.encode(Login(user="a", password=SecretStr("geheim")), 1)
    with pytest.raises(Unreadable, match="Make it readable"):
        locked.decode(codec(OLD).encode(SecretStr("geheim"), 0), 0)


@pytest.mark.parametrize("value", [Card("a", "geheim"), Marked(pin=1, word="geheim")])
def test_a_field_that_is_marked_as_secret_is_not_written_without_a_key(value: object) -> None:
    with pytest.raises(Unstorable, match=r"(number|notes) .*not written in clear") as refused:
        Codec(TYPES).encode(value, 0)
    assert "geheim" not in str(refused.value)
    assert "not written in clear" in (storable(type(value), TYPES) or "")
    assert storable(type(value), TYPES, sealed=True) is None
