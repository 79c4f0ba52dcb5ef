"""The handle says which call to make next, in a form that is sent as it is: what it asks for stands there filled."""

import json
from datetime import date
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any, Literal
from uuid import UUID

import jsonschema
import pytest
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from goalport import Export, WaitFor, achieves_goal, action, agent
from goalport.prompts import made_up
from goalport.publish.published_arguments import PublishedArguments
from tests.rooms.serve.askers import Cashier, Gate, Order, Pizzeria, Receipt, Slow, call, handle_of
from tests.rooms.serve.served import ERAS, served, text_of

EACH_ERA = pytest.mark.parametrize("era", ERAS)


def next_of(result: CallToolResult) -> Any:
    content: Any = result.structured_content
    return content.get("next")


@EACH_ERA
async def test_the_next_call_of_a_form_is_complete_and_takes_the_answer_in_its_place(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client(era) as client:
        handle = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        following = handle["next"]
        assert following["tool"] == "submitFormAndResumeProcess"
        assert following["arguments"] == {"processId": handle["processId"], "formData": {"name": "ham"}}
        assert "Ask the person" in following["instruction"]
        assert "Do not call order_pizza again" in following["instruction"]
        end = await call(client, following["tool"], **following["arguments"] | {"formData": {"name": "cheese"}})
        assert end.structured_content == {"content": "30 cm with 1 cheese"}


@EACH_ERA
async def test_the_next_call_of_a_confirmation_is_its_yes(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Cashier()) as server, server.client(era) as client:
        handle = handle_of(server, "pay", await call(client, "pay", euros=7))
        following = handle["next"]
        assert (following["tool"], following["arguments"]) == (
            "_confirm",
            {"processId": handle["processId"], "confirmed": True},
        )
        end = await call(client, following["tool"], **following["arguments"])
        assert end.structured_content == {"content": "paid 7"}


@EACH_ERA
async def test_the_next_call_of_work_that_goes_on_waits_for_its_result(tmp_path: Path, era: str) -> None:
    gate = Gate()
    async with served(tmp_path, Slow(gate)) as server, server.client(era) as client:
        following = handle_of(server, "bake", await call(client, "bake", size=30))["next"]
        assert following["tool"] == "process_status"
        gate.opened.set()
        end = await call(client, following["tool"], **following["arguments"])
        assert end.structured_content == {"content": "at last"}


@agent(description="Asks two things")
class Twice:
    @action
    def ask(self, order: Order) -> WaitFor[Annotated[str, Field(description="A name")]]:
        return WaitFor.form_submission("Who?", str)

    @action
    def agree(self, order: Order) -> WaitFor[Receipt]:
        return WaitFor.confirmation(Receipt(content="yes"), "Sure?")

    @achieves_goal(description="Both", export=Export(remote=True, name="both", long=True))
    def done(self, order: Order, name: str, agreed: Receipt) -> Receipt:
        return Receipt(content=f"{name}, {agreed.content}")


async def test_each_next_call_names_its_question_where_there_are_several(tmp_path: Path) -> None:
    async with served(tmp_path, Twice()) as server, server.client() as client:
        result = await call(client, "both", size=1)
        seen: list[str] = []
        while following := next_of(result):
            handle: Any = result.structured_content
            seen.append(following["tool"])
            assert ("questionId" in following["arguments"]) is (len(handle["questions"]) > 1)
            result = await call(client, following["tool"], **following["arguments"])
        assert sorted(seen) == ["_confirm", "submitFormAndResumeProcess"]
        assert text_of(result) == "answer, yes"


@pytest.mark.parametrize("form", ['{"name": "ham", "portions": 2}', {"name": "ham", "portions": 2}])
@EACH_ERA
async def test_the_answer_to_a_form_may_be_json_in_a_text(tmp_path: Path, era: str, form: object) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client(era) as client:
        process = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))["processId"]
        end = await call(client, "submitFormAndResumeProcess", processId=process, formData=form)
        assert end.structured_content == {"content": "30 cm with 2 ham"}


@pytest.mark.parametrize("form", ["[" * 100_000, "ham", "[1]", "null"])
async def test_a_text_that_is_no_object_in_json_is_refused(tmp_path: Path, form: str) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        process = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))["processId"]
        refused = await call(client, "submitFormAndResumeProcess", processId=process, formData=form)
        assert refused.is_error
        assert "formData: should be" in text_of(refused)


class Colour(Enum):
    RED = "red"


class Tree(BaseModel):
    name: str
    children: "list[Tree]"


class Filled(BaseModel):
    name: str = Field(min_length=5, max_length=8)
    short: str = Field(max_length=2)
    kind: Literal["a", "b"]
    colour: Colour
    number: int = Field(ge=10)
    small: int = Field(lt=-3)
    part: float = Field(gt=0, lt=0.5)
    even: int = Field(multiple_of=4, gt=4)
    price: Decimal
    day: date
    key: UUID
    tags: list[str] = Field(min_length=2)
    one: list[int]
    pair: tuple[int, str]
    scores: dict[str, int]
    tree: Tree
    either: int | str
    maybe: int | None
    given: str = Field(examples=["as in this example"])
    fine: bool


class Optional(BaseModel):
    comment: str = "none"
    stars: int = Field(3, ge=1)


@pytest.mark.parametrize("kind", [Filled, Optional, str, list[int], dict[str, int], Tree, Colour])
def test_the_example_of_an_answer_is_one_that_is_taken(kind: type) -> None:
    arguments = PublishedArguments.of_fields(kind, "answer")
    example: Any = made_up(arguments.schema, brief=True)
    jsonschema.validate(example, arguments.schema)
    assert example
    assert arguments.read(json.loads(json.dumps(example)))


def test_an_example_takes_what_the_form_offers() -> None:
    example: Any = made_up(PublishedArguments.of_fields(Filled, "answer").schema, brief=True)
    assert example["given"] == "as in this example"
    assert made_up(PublishedArguments.of_fields(Optional, "answer").schema, brief=True) == {
        "comment": "none",
        "stars": 3,
    }
