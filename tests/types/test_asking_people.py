"""What actions ask people keeps its types: pyright checks these lines, and they run."""

from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from goalport import UserInput, WaitFor
from goalport.agents.domain import VisitedUrl
from goalport.base.errors import Declined
from goalport.testing import FakeOperationContext
from goalport.tools import Tool, with_confirmation


class Wish(BaseModel):
    city: str


async def test_an_answer_is_of_the_type_that_was_asked_for() -> None:
    context = FakeOperationContext(UserInput("x"))
    context.expect_response(
        Wish(city="Oslo"), True, Wish(city="Rome"), "Ada", True, {"size": 3}, Declined("Sure?", "No.")
    )
    assert_type(await context.ask("Where to?", Wish), Wish)
    assert_type(await context.ask("Sure?", bool), bool)
    assert_type(await context.ask(WaitFor.choice("Where to?", [Wish(city="Rome")], Wish)), Wish)
    assert_type(await context.ask(WaitFor.input("Who?"), key="who"), str)
    assert_type(await context.ask(WaitFor.url("Pay.", "https://example.com")), VisitedUrl)
    assert_type(await context.ask("Which size?", {"type": "object", "properties": {}}), dict[str, Any])
    try:
        await context.ask("Sure?", bool, key="again", expires_in=60)
    except Declined as declined:
        assert_type(declined.reason, str)
    with pytest.raises(TypeError, match="a question in words"):
        await context.ask(3, bool)  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(TypeError, match="of an object"):
        await context.ask("Which size?", {"type": "integer"})


def test_a_question_is_of_the_type_of_its_answer() -> None:
    assert_type(WaitFor.choice("Where to?", [Wish(city="Rome")], Wish), WaitFor[Wish])
    WaitFor.choice("Where to?", [Wish(city="Rome")], Wish, label=lambda each: each.city)
    WaitFor.form_submission("Where to?", Wish, prefill=Wish(city="Rome"))
    with pytest.raises(TypeError, match="options of type Wish"):
        WaitFor.choice("Where to?", ["Rome"], Wish)
    with pytest.raises(TypeError, match="a draft of type Wish"):
        WaitFor.form_submission("Where to?", Wish, prefill=3)


def test_a_tool_with_a_confirmation_is_a_tool() -> None:
    def pay(euros: int) -> str:
        return f"{euros}"

    assert_type(with_confirmation(Tool.of(pay), "Pay?"), Tool)
    assert_type(with_confirmation(Tool.of(pay), lambda given: f"Pay {given['euros']}?"), Tool)
    with_confirmation(Tool.of(pay), len)  # pyright: ignore[reportArgumentType]
