"""What actions ask people keeps its types: pyright checks these lines, and they run."""

from typing import Any, assert_type

import pytest
from pydantic import BaseModel

from goalport import UserInput
from goalport.errors import Declined
from goalport.testing import FakeOperationContext
from goalport.tools import Tool, with_confirmation


class Wish(BaseModel):
    city: str


async def test_an_answer_is_of_the_type_that_was_asked_for() -> None:
    context = FakeOperationContext(UserInput("x"))
    context.expect_response(Wish(city="Oslo"), True, {"size": 3}, Declined("Sure?", "No."))
    assert_type(await context.ask("Where to?", Wish), Wish)
    assert_type(await context.ask("Sure?", bool), bool)
    assert_type(await context.ask("Which size?", {"type": "object", "properties": {}}), dict[str, Any])
    try:
        await context.ask("Sure?", bool, key="again", expires_in=60)
    except Declined as declined:
        assert_type(declined.reason, str)
    with pytest.raises(TypeError, match="a question in words"):
        await context.ask(3, bool)  # pyright: ignore[reportCallIssue, reportArgumentType]
    with pytest.raises(TypeError, match="of an object"):
        await context.ask("Which size?", {"type": "integer"})


def test_a_tool_with_a_confirmation_is_a_tool() -> None:
    def pay(euros: int) -> str:
        return f"{euros}"

    assert_type(with_confirmation(Tool.of(pay), "Pay?"), Tool)
    assert_type(with_confirmation(Tool.of(pay), lambda given: f"Pay {given['euros']}?"), Tool)
    with_confirmation(Tool.of(pay), len)  # pyright: ignore[reportArgumentType]
