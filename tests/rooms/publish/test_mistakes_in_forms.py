"""What a person reads who has made mistakes in a form."""

from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from enum import Enum
from typing import Any, Literal

import pytest
from pydantic import AnyUrl, BaseModel, Field, SecretStr

from goalport import WaitFor
from goalport.base.errors import BadInput
from goalport.runtime.process import Question
from goalport.runtime.process.questions import SchemaSubmission
from goalport.server.publish.forms import form_of


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Everything(BaseModel):
    short: str = Field(min_length=3)
    long: str = Field(max_length=2)
    letters: str = Field(pattern="^[a-z]+$")
    least: int = Field(ge=1)
    most: float = Field(lt=9)
    fives: int = Field(multiple_of=5)
    day: date
    time: datetime
    lasts: timedelta
    page: AnyUrl
    color: Color
    sides: list[Literal["rice", "bread"]] = Field(max_length=1)
    yes: bool
    whole: int
    words: str
    missing: int


MISTAKES: dict[str, tuple[Any, str]] = {
    "short": ("ab", "should have at least 3 characters; came 'ab'"),
    "long": ("abc", "should have at most 2 characters; came 'abc'"),
    "letters": ("A", "should match the pattern ^[a-z]+$; came 'A'"),
    "least": (0, "should be at least 1; came 0"),
    "most": (9, "should be less than 9; came 9"),
    "fives": (7, "should be a multiple of 5; came 7"),
    "day": ("soon", "should be a date, such as 2026-11-22; came 'soon'"),
    "time": ("noon", "should be a date with a time, such as 2026-11-22T14:30:00Z; came 'noon'"),
    "lasts": ("long", "should be a length of time, such as PT1H30M; came 'long'"),
    "page": ("here", "should be an address, such as https://example.com; came 'here'"),
    "color": ("green", "should be 'red' or 'blue'; came 'green'"),
    "sides": (["rice", "bread"], "should have at most 1 item; came ['rice', 'bread']"),
    "yes": ("perhaps", "should be yes or no (true or false); came 'perhaps'"),
    "whole": ("many", "should be a whole number; came 'many'"),
    "words": (3, "should be a text; came 3"),
}


def test_every_mistake_is_told_at_once_and_in_words_for_a_person() -> None:
    asked = form_of(Question("q-1", "p-1", "ask", WaitFor.form_submission("What?", Everything)))
    with pytest.raises(BadInput) as refusal:
        asked.read(asked.elicited({name: sent for name, (sent, _) in MISTAKES.items()}))
    expected = [f"{name}: {words}" for name, (_, words) in MISTAKES.items()]
    assert [*refusal.value.problems] == [*expected, "missing: required, but missing"]


@dataclass
class Login:
    pin: str = field(metadata={"secret": True})
    times: int = 1


class Account(BaseModel):
    pin: SecretStr = Field(min_length=8)
    times: int = 1


PINS: dict[str, Any] = {
    "type": "object",
    "properties": {"pin": {"type": "string", "format": "password", "minLength": 8}, "times": {"type": "integer"}},
}


@pytest.mark.parametrize(
    "wait",
    [
        WaitFor.form_submission("What?", Login),
        WaitFor.form_submission("What?", Account),
        SchemaSubmission("What?", PINS),
    ],
)
def test_what_a_person_typed_into_a_form_with_a_secret_is_not_repeated(wait: WaitFor[Any]) -> None:
    question = Question("q-1", "p-1", "ask", wait)
    asked = form_of(question)
    sent = {"pin": "hunter2", "times": "hunter3"}
    assert asked.elicitation("2025-11-25") is None
    with pytest.raises(BadInput, match="times: should be a whole number") as of_program:
        question.validated(sent)
    with pytest.raises(BadInput, match="times: should be a whole number") as of_client:
        question.validated(asked.read(sent))
    assert "hunter" not in f"{of_program.value} {of_client.value}"
