"""What an action can ask a person for: one of some objects, a text, a form with a draft in it, something to be done."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from goalport import (
    ActionContext,
    AgentPlatform,
    AgentProcess,
    UserInput,
    WaitFor,
    achieves_goal,
    action,
    agent,
)
from goalport.agents.domain import VisitedUrl
from goalport.base.errors import BadInput
from goalport.runtime.process import Completed, Failed
from goalport.store.sqlite import SqliteProcessStore

STATIONS = "https://example.com/stations"


@dataclass(frozen=True)
class Station:
    id: int
    name: str


class Class(Enum):
    FIRST = 1
    SECOND = 2


class Ticket(BaseModel):
    text: str


@dataclass(frozen=True)
class Printed:
    text: str


CENTRAL, HARBOUR, OTHER_HARBOUR = Station(7, "Central"), Station(8, "Harbour"), Station(9, "Harbour")


@agent(description="Sells tickets")
class Office:
    @action
    def where(self, user_input: UserInput) -> WaitFor[Station]:
        return WaitFor.choice("Where to?", [CENTRAL, HARBOUR, OTHER_HARBOUR], Station)

    @action
    def who(self, station: Station) -> WaitFor[str]:
        return WaitFor.input(f"Who goes to {station.name}?", prefill="Ada")

    @action
    def pay(self, traveller: str) -> WaitFor[VisitedUrl]:
        return WaitFor.url(f"Pay for {traveller}.", "https://example.com/pay")

    @action
    def check(self, station: Station, traveller: str, paid: VisitedUrl) -> WaitFor[Ticket]:
        draft = Ticket(text=f"{traveller} to {station.id}, paid at {paid.url}")
        return WaitFor.form_submission("Is that right?", Ticket, prefill=draft)

    @achieves_goal(description="A ticket")
    def print_ticket(self, ticket: Ticket) -> Printed:
        return Printed(ticket.text)


async def settled(process: AgentProcess) -> object:
    with anyio.fail_after(60):
        return await process.wait()


@pytest.mark.parametrize("place", ["9", 9, "Harbour (9)", OTHER_HARBOUR])
async def test_each_kind_is_answered_after_the_program_was_started_again(tmp_path: Path, place: object) -> None:
    async def in_new_program(response: object, process_id: str = "") -> AgentProcess:
        async with (
            SqliteProcessStore(tmp_path / "processes.db") as store,
            AgentPlatform([Office], store=store) as platform,
        ):
            if not process_id:
                process = await platform.run("Office", UserInput("a ticket"))
            else:
                process = await platform.answer(process_id, response=response)
            await settled(process)
            return process

    process = await in_new_program(None)
    for response in (place, "Grace", True):
        process = await in_new_program(response, process.id)
        assert len(process.open_questions) == 1
    process = await in_new_program({"text": "all right"}, process.id)
    assert await settled(process) == Completed(Printed("all right"))


async def test_a_choice_gives_the_very_object() -> None:
    async with AgentPlatform([Office]) as platform:
        process = await platform.run("Office", UserInput("a ticket"))
        await platform.answer(process.id, response="Central")
        assert process.last(Station) is CENTRAL


@pytest.mark.parametrize("response", ["Harbour", "Centrl", 4, None, ["7"]])
async def test_what_is_none_of_the_options_leaves_the_question_open(response: object) -> None:
    async with AgentPlatform([Office]) as platform:
        process = await platform.run("Office", UserInput("a ticket"))
        with pytest.raises(BadInput, match="answer: should be one of the options; came"):
            await platform.answer(process.id, response=[] if response is None else response)
        assert len(process.open_questions) == 1


async def test_an_empty_text_is_no_answer_and_what_was_not_done_is_a_no() -> None:
    async with AgentPlatform([Office]) as platform:
        process = await platform.run("Office", UserInput("a ticket"))
        for good, bad in (("7", " "), ("Ada", "perhaps")):
            await platform.answer(process.id, response=good)
            await settled(process)
            with pytest.raises(BadInput, match="answer: should be"):
                await platform.answer(process.id, response=bad)
        await platform.answer(process.id, response=False)
        assert isinstance(await settled(process), Failed)


@agent(description="Sells tickets in one go")
class Machine:
    @achieves_goal(description="A ticket")
    async def sell(self, user_input: UserInput, context: ActionContext) -> Ticket:
        seats = await context.ask(WaitFor.choice("Which class?", Class, Class))
        name = await context.ask(WaitFor.input("Who?"))
        done = await context.ask(WaitFor.url("Pay.", STATIONS))
        return Ticket(text=f"{name}, {seats.name}, {done.url}")


async def test_an_action_asks_in_its_middle_for_each_kind() -> None:
    async with AgentPlatform([Machine]) as platform:
        process = await platform.run("Machine", UserInput("a ticket"))
        for response in ("SECOND", "Ada", True):
            await platform.answer(process.id, response=response)
            await settled(process)
        assert await settled(process) == Completed(Ticket(text=f"Ada, SECOND, {STATIONS}"))


MISTAKES: list[tuple[Callable[[], object], str]] = [
    (lambda: WaitFor.choice("Which?", [], str), "there are none"),
    (lambda: WaitFor[Any].choice("Which?", ["a", 1], str), "options of type str, but got 1"),
    (lambda: WaitFor.choice("Which?", ["a", "b", "a"], str), "2 of them are 'a'"),
    (lambda: WaitFor.choice("", ["a"], str), "a question in words"),
    (lambda: WaitFor.input(" "), "a question in words"),
    (lambda: WaitFor.url("Pay.", "http://example.com"), "begins with https://"),
    (lambda: WaitFor.url("Pay.", "https://exam ple.com"), "begins with https://"),
    (lambda: WaitFor.url("Pay.", "https:///pay"), "begins with https://"),
    (lambda: WaitFor[Any].form_submission("Which?", Ticket, prefill="a"), "a draft of type Ticket, but got 'a'"),
]


@pytest.mark.parametrize(("ask", "words"), MISTAKES)
def test_a_question_that_nobody_could_answer_is_refused_where_it_is_made(ask: Callable[[], object], words: str) -> None:
    with pytest.raises(TypeError, match=words):
        ask()
