"""Goals that ask, called by clients that can show a person a form: the forms, their answers, and what comes instead."""

from dataclasses import dataclass
from pathlib import Path

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client import ClientRequestContext
from mcp_types import INVALID_REQUEST, ElicitRequestParams, ElicitResult, ErrorData
from pydantic import BaseModel

from goalport import ActionContext, Export, WaitFor, achieves_goal, action, agent
from goalport.base.errors import Declined
from goalport.tools import Tool, with_confirmation
from tests.listening import address_of
from tests.rooms.rest.web import web
from tests.rooms.serve.askers import (
    Answering,
    Cashier,
    Order,
    Payment,
    Pizza,
    Pizzeria,
    Receipt,
    Topping,
    Waiter,
    call,
    handle_of,
)
from tests.rooms.serve.served import ERAS, served, text_of

HAM = {"name": "ham", "portions": 2}
UNABLE = ErrorData(code=INVALID_REQUEST, message="Elicitation not supported")


@dataclass(frozen=True)
class Drink:
    name: str


@agent(description="Makes a whole meal")
class Restaurant:
    @action
    def ask_topping(self, order: Order) -> WaitFor[Topping]:
        return WaitFor.form_submission("Which topping?", Topping)

    @action
    def ask_drink(self, order: Order) -> WaitFor[Drink]:
        return WaitFor.form_submission("Which drink?", Drink)

    @action
    def agree(self, topping: Topping, drink: Drink) -> WaitFor[Payment]:
        return WaitFor.confirmation(Payment(euros=9), f"{topping.name} and {drink.name} for 9 euros?")

    @achieves_goal(description="A meal", export=Export(remote=True, name="order_meal"))
    def cook(self, topping: Topping, drink: Drink, payment: Payment) -> Receipt:
        return Receipt(content=f"{topping.portions} {topping.name}, {drink.name}, {payment.euros} euros")


@agent(description="Pays by a tool that needs a yes")
class Treasurer:
    @achieves_goal(description="A receipt", export=Export(remote=True, name="transfer", long=True))
    async def pay(self, payment: Payment, context: ActionContext) -> Receipt:
        def send(euros: int) -> str:
            """Send money."""
            return f"{euros} sent"

        asked = with_confirmation(Tool.of(send), lambda given: f"Send {given['euros']}?")
        try:
            who = await context.ask("To whom?", str)
        except Declined:
            who = "nobody"
        sent = await asked.call({"euros": payment.euros})
        return Receipt(content=f"{sent.text} to {who}")


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_is_shown_and_its_answer_goes_into_the_process_that_waits(tmp_path: Path, era: str) -> None:
    person = Answering.with_(HAM)
    async with served(tmp_path, Pizzeria()) as server, server.client(era, elicitation_callback=person) as client:
        result = await call(client, "order_pizza", size=30)
        assert result.structured_content == {"content": "30 cm with 2 ham"}
        assert person.asked == ["What shall be on a pizza of 30 cm?"]
        assert person.schemas[0]["properties"]["name"]["enum"] == ["ham", "cheese", "mushrooms"]
        assert (await server.process()).status == "completed"


@pytest.mark.parametrize("era", ERAS)
async def test_several_questions_and_several_rounds_are_one_call(tmp_path: Path, era: str) -> None:
    answers = {"Which topping?": HAM, "Which drink?": {"name": "tea"}, "ham and tea for 9 euros?": {"confirmed": True}}
    asked: list[str] = []

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        asked.append(params.message)
        return ElicitResult.model_validate({"action": "accept", "content": answers[params.message]})

    async with served(tmp_path, Restaurant()) as server, server.client(era, elicitation_callback=person) as client:
        result = await call(client, "order_meal", size=30)
        assert result.structured_content == {"content": "2 ham, tea, 9 euros"}
        assert sorted(asked) == sorted(answers)
        assert len((await server.process()).history) == 4


@pytest.mark.parametrize("era", ERAS)
async def test_questions_of_processes_below_and_of_tools_are_asked_too(tmp_path: Path, era: str) -> None:
    person = Answering.with_(HAM, {"answer": "Ada"}, {"confirmed": True})
    agents = (Pizzeria(), Waiter(), Treasurer())
    async with served(tmp_path, *agents) as server, server.client(era, elicitation_callback=person) as client:
        dinner = await call(client, "serve_guest", size=30)
        assert dinner.structured_content == {"content": "Served: 30 cm with 2 ham"}
        paid = await call(client, "transfer", euros=5)
        assert paid.structured_content == {"content": "5 sent to Ada"}
        assert person.asked[1:] == ["To whom?", "Send 5?"]


@pytest.mark.parametrize("era", ERAS)
async def test_to_decline_is_a_no_and_to_confirm_with_a_no_is_one_too(tmp_path: Path, era: str) -> None:
    person = Answering.with_("decline", {"confirmed": False}, "decline", {"confirmed": True})
    agents = (Pizzeria(), Cashier(), Treasurer())
    async with served(tmp_path, *agents) as server, server.client(era, elicitation_callback=person) as client:
        refused = await call(client, "order_pizza", size=30)
        assert refused.is_error
        assert "The person who was asked declined" in text_of(refused)
        assert (await call(client, "pay", euros=7)).is_error
        paid = await call(client, "transfer", euros=5)
        assert paid.structured_content == {"content": "5 sent to nobody"}


@pytest.mark.parametrize("era", ERAS)
async def test_to_dismiss_a_form_gives_the_handle_and_leaves_the_question_open(tmp_path: Path, era: str) -> None:
    person = Answering.with_("cancel")
    async with served(tmp_path, Pizzeria()) as server, server.client(era, elicitation_callback=person) as client:
        handle = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        assert handle["status"] == "waiting"
        answered = await call(client, handle["next"]["tool"], processId=handle["processId"], answer=HAM)
        assert answered.structured_content == {"content": "30 cm with 2 ham"}
        assert len(person.asked) == 1


@pytest.mark.parametrize("era", ERAS)
async def test_an_answer_that_is_not_valid_is_asked_again_with_what_is_wrong(tmp_path: Path, era: str) -> None:
    person = Answering.with_({"name": "gold", "portions": 0}, HAM)
    async with served(tmp_path, Pizzeria()) as server, server.client(era, elicitation_callback=person) as client:
        result = await call(client, "order_pizza", size=30)
        assert result.structured_content == {"content": "30 cm with 2 ham"}
        _, again = person.asked
        assert again.startswith("The answer needs correcting:\n- name: ")
        assert "\n- portions: " in again
        assert again.endswith("What shall be on a pizza of 30 cm?")


@pytest.mark.parametrize("era", ERAS)
async def test_after_three_answers_that_are_not_valid_the_client_gets_the_handle(tmp_path: Path, era: str) -> None:
    person = Answering.with_({"name": "gold"}, {}, {"name": "silver"})
    async with served(tmp_path, Pizzeria()) as server, server.client(era, elicitation_callback=person) as client:
        handle = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        assert len(handle["questions"]) == 1
        assert person.answers == []


async def test_a_client_that_cannot_ask_although_it_says_so_gets_the_handle(tmp_path: Path) -> None:
    person = Answering.with_(UNABLE)
    async with served(tmp_path, Restaurant()) as server, server.client("legacy", elicitation_callback=person) as client:
        handle = handle_of(server, "order_meal", await call(client, "order_meal", size=30))
        assert len(handle["questions"]) == 2
        assert len(person.asked) == 1


async def test_a_client_that_fails_to_ask_between_two_calls_finds_its_process_waiting(tmp_path: Path) -> None:
    person = Answering.with_(UNABLE, HAM)
    async with served(tmp_path, Pizzeria()) as server, server.client(elicitation_callback=person) as client:
        with pytest.raises(MCPError, match="not supported"):
            await call(client, "order_pizza", size=30)
        process = await server.process()
        assert process.status == "waiting"
        result = await call(client, "process_status", processId=process.id)
        assert result.structured_content == {"content": "30 cm with 2 ham"}


async def test_a_person_who_takes_longer_than_the_call_may_leaves_the_client_the_handle(tmp_path: Path) -> None:
    @agent(description="Asks for a short time")
    class Hasty:
        @action
        def ask(self, order: Order) -> WaitFor[Topping]:
            return WaitFor.form_submission("Which topping?", Topping)

        @achieves_goal(description="A pizza", export=Export(remote=True, name="order_pizza", wait_budget=2))
        def bake(self, topping: Topping) -> Pizza:
            return Pizza(content=topping.name)

    dismissed = anyio.Event()

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        try:
            await anyio.sleep_forever()
        finally:
            dismissed.set()
        raise AssertionError(params)

    async with served(tmp_path, Hasty()) as server, server.client("legacy", elicitation_callback=person) as client:
        handle = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        assert handle["status"] == "waiting"
        with anyio.fail_after(60):
            await dismissed.wait()


@pytest.mark.parametrize("era", ERAS)
async def test_the_first_answer_counts_also_while_a_form_is_shown(tmp_path: Path, era: str) -> None:
    shown, answered = anyio.Event(), anyio.Event()

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        shown.set()
        if era == "legacy":
            await anyio.sleep_forever()
        await answered.wait()
        return ElicitResult(action="accept", content={"name": "cheese"})

    async with (
        served(tmp_path, Pizzeria()) as server,
        server.client(era, elicitation_callback=person) as client,
        server.client() as other,
    ):

        async def answer() -> None:
            await shown.wait()
            process = (await server.process()).id
            await call(other, "process_answer", processId=process, answer=HAM)
            answered.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer)
            result = await call(client, "order_pizza", size=30)
            assert result.structured_content == {"content": "30 cm with 2 ham"}


@pytest.mark.parametrize("era", ERAS)
async def test_companion_tools_ask_what_is_asked_next(tmp_path: Path, era: str) -> None:
    person = Answering.with_("cancel", "cancel", {"name": "tea"}, {"confirmed": True})
    async with served(tmp_path, Restaurant()) as server, server.client(era, elicitation_callback=person) as client:
        handle = handle_of(server, "order_meal", await call(client, "order_meal", size=30))
        topping = next(each for each in handle["questions"] if each["message"] == "Which topping?")
        given = {"processId": handle["processId"], "questionId": topping["id"], "answer": HAM}
        result = await call(client, "process_answer", **given)
        assert result.structured_content == {"content": "2 ham, tea, 9 euros"}


async def test_a_question_that_one_call_asks_is_not_asked_by_another_meanwhile(tmp_path: Path) -> None:
    shown, said = anyio.Event(), anyio.Event()

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert not shown.is_set()
        shown.set()
        await said.wait()
        return ElicitResult.model_validate({"action": "accept", "content": HAM})

    async with (
        served(tmp_path, Pizzeria()) as server,
        server.client("legacy", elicitation_callback=person) as client,
    ):

        async def look() -> None:
            await shown.wait()
            process = await server.process()
            looked = await call(client, "process_status", processId=process.id)
            assert handle_of(server, "order_pizza", looked)["status"] == "waiting"
            said.set()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(look)
            result = await call(client, "order_pizza", size=30)
            assert result.structured_content == {"content": "30 cm with 2 ham"}


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_that_no_client_can_show_goes_by_the_handle(tmp_path: Path, era: str) -> None:
    class Address(BaseModel):
        lines: list[Order]

    @agent(description="Delivers")
    class Courier:
        @action
        def ask(self, order: Order) -> WaitFor[Address]:
            return WaitFor.form_submission("Where to?", Address)

        @achieves_goal(description="A receipt", export=Export(remote=True, name="deliver"))
        def deliver(self, address: Address) -> Receipt:
            return Receipt(content=f"{len(address.lines)} lines")

    person = Answering.with_()
    async with served(tmp_path, Courier()) as server, server.client(era, elicitation_callback=person) as client:
        handle = handle_of(server, "deliver", await call(client, "deliver", size=30))
        assert handle["questions"][0]["message"] == "Where to?"


async def test_a_client_is_asked_however_many_sessions_have_ended_since_it_came(tmp_path: Path) -> None:
    person = Answering.with_(HAM)
    async with web(tmp_path, Pizzeria(), max_sessions=2) as server:
        address = f"{address_of(server.server)}/mcp"
        async with Client(address, mode="legacy", elicitation_callback=person) as client:
            for _ in range(3):
                async with Client(address, mode="legacy", elicitation_callback=person):
                    pass
            result = await call(client, "order_pizza", size=30)
    assert person.asked == ["What shall be on a pizza of 30 cm?"]
    assert result.structured_content == {"content": "30 cm with 2 ham"}
