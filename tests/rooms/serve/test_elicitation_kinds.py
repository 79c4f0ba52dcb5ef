"""Questions of every kind, as clients that show forms are asked them."""

from pathlib import Path

import pytest
from pydantic import BaseModel

from goalport import Export, WaitFor, achieves_goal, action, agent
from tests.rooms.serve.askers import Answering, Order, Receipt, Topping, call, handle_of
from tests.rooms.serve.served import ERAS, served

TOPPINGS = [Topping(name="ham", portions=1), Topping(name="cheese", portions=1)]


class Address(BaseModel):
    street: str
    city: str


class Delivery(BaseModel):
    name: str
    address: Address


@agent(description="Asks for an address of several fields")
class Courier:
    @action
    def ask(self, order: Order) -> WaitFor[Delivery]:
        return WaitFor.form_submission("Where to?", Delivery)

    @achieves_goal(description="A receipt", export=Export(remote=True, name="deliver"))
    def deliver(self, delivery: Delivery) -> Receipt:
        return Receipt(content=f"{delivery.name}, {delivery.address.street}, {delivery.address.city}")


@agent(description="Offers some toppings")
class Counter:
    @action
    def ask(self, order: Order) -> WaitFor[Topping]:
        return WaitFor.choice("Which?", TOPPINGS, Topping)

    @achieves_goal(description="A receipt", export=Export(remote=True, name="choose"))
    def choose(self, topping: Topping) -> Receipt:
        return Receipt(content=topping.name)


@pytest.mark.parametrize("era", ERAS)
async def test_a_form_that_nests_is_answered_by_the_handle(tmp_path: Path, era: str) -> None:
    person = Answering.with_()
    async with served(tmp_path, Courier()) as server, server.client(era, elicitation_callback=person) as client:
        handle = handle_of(server, "deliver", await call(client, "deliver", size=30))
        answer = {"name": "Ada", "address": {"street": "High Street 1", "city": "Oslo"}}
        result = await call(client, "process_answer", processId=handle["processId"], answer=answer)
    assert result.structured_content == {"content": "Ada, High Street 1, Oslo"}
    assert not person.schemas


@pytest.mark.parametrize("era", ERAS)
async def test_one_of_several_is_chosen(tmp_path: Path, era: str) -> None:
    person = Answering.with_({"choice": "nothing"}, {"choice": "cheese"})
    async with served(tmp_path, Counter()) as server, server.client(era, elicitation_callback=person) as client:
        result = await call(client, "choose", size=30)
    assert result.structured_content == {"content": "cheese"}, person.schemas
