"""The handle says which call to make next: complete, but for the answer, which only a person gives."""

import json
import re
from pathlib import Path
from typing import Annotated, Any

import pytest
from mcp_types import CallToolResult
from pydantic import BaseModel, Field

from goalport import ActionContext, Export, WaitFor, achieves_goal, action, agent
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
        assert following["tool"] == "process_answer"
        assert following["arguments"] == {"processId": handle["processId"], "answer": None}
        assert "Ask the person" in following["instruction"]
        assert "Do not call order_pizza again" in following["instruction"]
        end = await call(client, following["tool"], **following["arguments"] | {"answer": {"name": "cheese"}})
        assert end.structured_content == {"content": "30 cm with 1 cheese"}


@EACH_ERA
async def test_the_next_call_of_a_confirmation_says_neither_yes_nor_no(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Cashier()) as server, server.client(era) as client:
        handle = handle_of(server, "pay", await call(client, "pay", euros=7))
        following = handle["next"]
        assert (following["tool"], following["arguments"]) == (
            "process_answer",
            {"processId": handle["processId"], "answer": None},
        )
        end = await call(client, following["tool"], **following["arguments"] | {"answer": True})
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
            said = True if handle["questions"][0]["kind"] == "confirmation" else {"answer": "Eva"}
            result = await call(client, following["tool"], **following["arguments"] | {"answer": said})
        assert seen == ["process_answer", "process_answer"]
        assert text_of(result) == "Eva, yes"


@pytest.mark.parametrize("form", ['{"name": "ham", "portions": 2}', {"name": "ham", "portions": 2}])
@EACH_ERA
async def test_the_answer_to_a_form_may_be_json_in_a_text(tmp_path: Path, era: str, form: object) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client(era) as client:
        process = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))["processId"]
        end = await call(client, "process_answer", processId=process, answer=form)
        assert end.structured_content == {"content": "30 cm with 2 ham"}


@pytest.mark.parametrize("form", ["[" * 100_000, "ham", "[1]", "null"])
async def test_a_text_that_is_no_object_in_json_is_refused(tmp_path: Path, form: str) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        process = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))["processId"]
        refused = await call(client, "process_answer", processId=process, answer=form)
        assert refused.is_error
        assert "should be an object with fields" in text_of(refused)


class Comment(BaseModel):
    """A form that any object would fit."""

    text: str = "none"


ASKED: dict[str, WaitFor[Any]] = {
    "form": WaitFor.form_submission("A comment?", Comment),
    "confirmation": WaitFor.form_submission("Sure?", bool),
    "choice": WaitFor.choice("Which?", ["red", "blue"], str),
    "input": WaitFor.input("Your name?"),
    "url": WaitFor.url("Pay there", "https://pay.example.com"),
}


@EACH_ERA
@pytest.mark.parametrize("kind", ASKED)
async def test_no_next_call_can_be_sent_back_as_it_stands(tmp_path: Path, kind: str, era: str) -> None:
    @agent(description="Asks in its middle")
    class Asks:
        @achieves_goal(description="Asked", export=Export(remote=True, name="ask", long=True))
        async def ask(self, order: Order, context: ActionContext) -> Receipt:
            return Receipt(content=f"taken: {await context.ask(ASKED[kind])}")

    async with served(tmp_path, Asks()) as server, server.client(era) as client:
        result = await call(client, "ask", size=1)
        handle = handle_of(server, "ask", result)
        assert handle["questions"][0]["kind"] == kind
        refused = await call(client, handle["next"]["tool"], **handle["next"]["arguments"])
        assert refused.is_error
        for shown in re.findall(r"with (\{.*?\})\.", text_of(result)):
            if "processId" in shown and "process_cancel" not in text_of(result).split(shown)[0][-40:]:
                assert (await call(client, handle["next"]["tool"], **json.loads(shown))).is_error
        waiting = await call(client, "process_status", processId=handle["processId"])
        assert handle_of(server, "ask", waiting)["questions"] == handle["questions"]
