"""Answers that do not fit: each is told in words, and the question stays open."""

from dataclasses import dataclass

import anyio
import pytest

from goalport.domain import UserInput, WaitFor, achieves_goal, agent
from goalport.errors import BadInput
from goalport.platform import AgentPlatform
from goalport.process import AgentProcess, Completed


@dataclass(frozen=True)
class Draft:
    text: str


async def settled(process: AgentProcess) -> object:
    with anyio.fail_after(5):
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


async def test_an_answer_that_a_question_of_ones_own_refuses_needs_correcting() -> None:
    @agent(description="d")
    class Picky:
        @achieves_goal(description="g")
        def ask(self, user_input: UserInput) -> WaitFor[Draft]:
            return Bounded("How many?")

    platform = AgentPlatform([Picky])
    process = await platform.run("Picky", UserInput("x"))
    with pytest.raises(BadInput, match=r"needs correcting:\n- answer: At most three\."):
        platform.answer(process.id, response=4)
    platform.answer(process.id, response=3)
    assert await settled(process) == Completed(Draft("3"))


async def test_an_answer_that_cannot_be_read_from_json_is_given_as_an_object() -> None:
    @agent(description="d")
    class Rigid:
        @achieves_goal(description="g")
        def ask(self, user_input: UserInput) -> WaitFor[Unreadable]:
            return WaitFor.form_submission("Which?", Unreadable)

    platform = AgentPlatform([Rigid])
    process = await platform.run("Rigid", UserInput("x"))
    with pytest.raises(BadInput, match="Unreadable cannot be read from JSON"):
        platform.answer(process.id, response={"size": 1})
    chosen = Unreadable(1)
    platform.answer(process.id, response=chosen)
    assert await settled(process) == Completed(chosen)
