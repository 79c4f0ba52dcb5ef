"""Answers that do not fit: each is told in words, and the question stays open."""

from dataclasses import dataclass
from typing import Any, Literal

import anyio
import pytest

from goalport.agents.domain import UserInput, WaitFor, achieves_goal, agent
from goalport.base.errors import BadInput
from goalport.runtime.platform import AgentPlatform
from goalport.runtime.process import AgentProcess, Completed, Failed
from tests.rooms.toy_domain import Draft


async def settled(process: AgentProcess) -> object:
    with anyio.fail_after(60):
        return await process.wait()


class Unreadable:
    def __init__(self, size: int) -> None:
        self.size = size


class Bounded(WaitFor[Draft]):
    @property
    def response_type(self) -> object:
        return int

    def accept(self, response: int) -> Draft:
        if response > 3:
            raise ValueError("At most three.")
        return Draft(str(response))


class Chosen(WaitFor[Unreadable]):
    @property
    def response_type(self) -> object:
        return Unreadable

    def accept(self, response: Unreadable) -> Unreadable:
        return response


@dataclass(frozen=True)
class Holder:
    content: Unreadable


async def test_an_answer_that_a_question_of_ones_own_refuses_needs_correcting() -> None:
    @agent(description="d")
    class Picky:
        @achieves_goal(description="g")
        def ask(self, user_input: UserInput) -> WaitFor[Draft]:
            return Bounded("How many?")

    platform = AgentPlatform([Picky])
    process = await platform.run("Picky", UserInput("x"))
    with pytest.raises(BadInput, match=r"needs correcting:\n- answer: At most three\."):
        await platform.answer(process.id, response=4)
    await platform.answer(process.id, response=3)
    assert await settled(process) == Completed(Draft("3"))


async def test_an_answer_that_cannot_be_read_from_json_is_given_as_an_object() -> None:
    @agent(description="d")
    class Rigid:
        @achieves_goal(description="g")
        def ask(self, user_input: UserInput) -> WaitFor[Unreadable]:
            return Chosen("Which?")

    platform = AgentPlatform([Rigid])
    process = await platform.run("Rigid", UserInput("x"))
    with pytest.raises(BadInput, match="Unreadable cannot be read from JSON"):
        await platform.answer(process.id, response={"size": 1})
    chosen = Unreadable(1)
    await platform.answer(process.id, response=chosen)
    assert await settled(process) == Completed(chosen)


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        (None, "Expected the type of the answer, but got None"),
        ("Draft", "Expected the type of the answer, but got 'Draft'"),
        (Draft("x"), "Expected the type of the answer, but got Draft"),
        (Unreadable, "Unreadable is none"),
        (list[Unreadable], r"list\[Unreadable\] is none"),
        (Holder, "Holder is none"),
    ],
)
def test_a_question_for_what_can_be_no_form_fails_where_it_is_written(kind: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        WaitFor[Any].form_submission("Which?", kind)


@pytest.mark.parametrize("message", ["", "  ", None, 3, b"Which?"])
def test_a_question_without_words_fails_where_it_is_written(message: Any) -> None:
    for make in (
        lambda: WaitFor.form_submission(message, Draft),
        lambda: WaitFor.confirmation(Draft("x"), message),
        lambda: Bounded(message),
    ):
        with pytest.raises(TypeError, match="Expected a question in words, but got"):
            make()


def test_a_confirmation_of_nothing_fails_where_it_is_written() -> None:
    with pytest.raises(TypeError, match="Expected an object that a person agrees to, but got None"):
        WaitFor.confirmation(None, "Right?")


@pytest.mark.parametrize("kind", [bool, str, int, Draft, list[Draft], Draft | None, Literal["a", "b"]])
def test_a_form_can_ask_for_whatever_json_can_express(kind: Any) -> None:
    assert WaitFor[Any].form_submission("Which?", kind).response_type == kind


async def test_an_action_that_asks_for_what_can_be_no_form_fails_and_says_why() -> None:
    @agent(description="d")
    class Rigid:
        @achieves_goal(description="g")
        def ask(self, user_input: UserInput) -> WaitFor[Unreadable]:
            return WaitFor.form_submission("Which?", Unreadable)

    process = await AgentPlatform([Rigid]).run("Rigid", UserInput("x"))
    assert isinstance(process.outcome, Failed)
    assert "Expected a type of which a form can be made, but Unreadable is none" in process.outcome.reason
