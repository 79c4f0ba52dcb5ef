"""Goals that ask people answer with a handle, and the companion tools bring them to their end."""

import json
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp_types import CallToolResult, TextResourceContents

from tests.rooms.serve.askers import Cashier, Pizzeria, Waiter, call, handle_of
from tests.rooms.serve.served import ERAS, published, served, text_of, tool_of

COMPANIONS = {"process_status", "process_answer", "process_cancel", "process_result"}
EACH_ERA = pytest.mark.parametrize("era", ERAS)


@EACH_ERA
async def test_a_form_is_asked_for_and_its_answer_brings_the_result(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client(era) as client:
        first = await call(client, "order_pizza", size=30)
        handle = handle_of(server, "order_pizza", first)
        (question,) = handle["questions"]
        assert (handle["status"], question["kind"]) == ("waiting", "form")
        assert question["message"] == "What shall be on a pizza of 30 cm?"
        assert question["schema"]["properties"]["name"]["enum"] == ["ham", "cheese", "mushrooms"]
        last = await call(
            client,
            "process_answer",
            processId=handle["processId"],
            answer={"name": "ham", "portions": 2},
        )
        assert last.structured_content == {"content": "30 cm with 2 ham"}
        assert text_of(last) == "30 cm with 2 ham"
        assert last.meta is not None
        assert last.meta["goalport/processId"] == handle["processId"]
        again = await call(client, "process_status", processId=handle["processId"])
        assert again.structured_content == last.structured_content


async def test_the_text_of_a_handle_says_all_that_a_model_needs_to_go_on(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria(), Cashier()) as server, server.client() as client:
        pizza = await call(client, "order_pizza", size=30)
        handle = handle_of(server, "order_pizza", pizza)
        text = text_of(pizza)
        assert f"process {handle['processId']} waits for a person's answer" in text
        assert "Do not call order_pizza again" in text
        assert "What shall be on a pizza of 30 cm?" in text
        form = {"processId": handle["processId"], "answer": None}
        assert f"call process_answer with {json.dumps(form)}" in text
        assert json.dumps(handle["questions"][0]["schema"]) in text
        assert f'call process_cancel with {{"processId": "{handle["processId"]}"}}' in text
        pay = await call(client, "pay", euros=5)
        process = handle_of(server, "pay", pay)["processId"]
        assert f'call process_answer with {{"processId": "{process}", "answer": null}}' in text_of(pay)


async def test_the_schema_of_an_answer_takes_what_questions_ask_for(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        members = tools["process_answer"].input_schema["properties"]["answer"]["anyOf"]
        assert [each["type"] for each in members] == ["object", "boolean", "string", "number"]


@EACH_ERA
async def test_a_confirmation_takes_a_yes_or_a_no(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Cashier()) as server, server.client(era) as client:
        for confirmed, said in ((True, "paid 7"), (False, "pay failed. Cashier.ask was declined")):
            handle = handle_of(server, "pay", await call(client, "pay", euros=7))
            (question,) = handle["questions"]
            assert (question["kind"], question["schema"]) == ("confirmation", {"type": "boolean"})
            end = await call(client, "process_answer", processId=handle["processId"], answer=confirmed)
            assert end.is_error is not confirmed
            assert said in text_of(end)


@pytest.mark.parametrize(
    ("data", "line"),
    [
        ({"name": "pineapple"}, "- name: should be 'ham', 'cheese' or 'mushrooms'; came 'pineapple'"),
        ({}, "- name: required, but missing"),
        ({"name": "ham", "portions": 0}, "- portions:"),
        ({"name": "ham", "portion": 2}, "- portion: unknown. Did you mean 'portions'?"),
    ],
)
async def test_a_wrong_answer_is_refused_with_a_list_and_the_question_stays_open(
    tmp_path: Path, data: dict[str, Any], line: str
) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        handle = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        process = handle["processId"]
        refused = await call(client, "process_answer", processId=process, answer=data)
        assert refused.is_error
        assert line in text_of(refused)
        assert handle_of(server, "order_pizza", await call(client, "process_status", processId=process)) == handle
        right = await call(client, "process_answer", processId=process, answer={"name": "ham"})
        assert right.structured_content == {"content": "30 cm with 1 ham"}


async def test_an_answer_that_comes_too_late_is_told_what_holds_now(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        handle = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        given = {
            "processId": handle["processId"],
            "questionId": handle["questions"][0]["id"],
            "answer": {"name": "ham"},
        }
        results: list[CallToolResult] = []
        async with anyio.create_task_group() as tasks:

            async def submit() -> None:
                results.append(await call(client, "process_answer", **given))

            tasks.start_soon(submit)
            tasks.start_soon(submit)
        assert sorted(each.is_error for each in results) == [False, True]
        late = await call(client, "process_answer", **given)
        assert late.is_error
        assert "is answered already: the first answer counts. It is done: process_status gives" in text_of(late)


@pytest.mark.parametrize(("store", "lost"), [("memory", True), ("sqlite", False)])
async def test_only_a_store_in_memory_is_said_to_lose_what_ran(tmp_path: Path, store: str, *, lost: bool) -> None:
    async with served(tmp_path, Pizzeria(), store=store) as server, server.client() as client:
        told = text_of(await call(client, "process_status", processId="nobody"))
    assert ("one that ran when the server stopped is lost" in told) is lost
    assert told.endswith(": call the goal's tool again then.")


async def test_companions_say_what_is_wrong_with_a_call_and_what_to_do(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria(), Cashier()) as server, server.client() as client:
        pizza = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        process = pizza["processId"]
        submit: dict[str, Any] = {"processId": process, "answer": {"name": "ham"}}
        for tool, arguments, words in (
            ("process_status", {"processId": "nobody"}, "There is no process 'nobody', or it is not yours"),
            ("process_status", {}, "processId: required, but missing"),
            (
                "process_status",
                {"processId": process, "waitSeconds": 26},
                "waitSeconds: should be at most 25; came 26",
            ),
            ("process_answer", {"processId": process, "answer": True}, "should be an object with fields"),
            ("process_answer", {"processId": process}, "answer: required, but missing"),
            ("process_answer", {**submit, "questionId": "q-1"}, "has asked no question 'q-1'. It waits"),
            ("process_answer", {**submit, "answer": "ham"}, "should be an object with fields"),
        ):
            refused = await call(client, tool, **arguments)
            assert refused.is_error
            assert words in text_of(refused)
        assert (await call(client, "process_answer", **submit)).structured_content
        ended = await call(client, "process_answer", **submit)
        assert "asks nothing. It is done: process_status gives its result." in text_of(ended)
        over = await call(client, "process_cancel", processId=process)
        assert over.is_error
        assert "has ended already: completed" in text_of(over)


async def test_a_process_that_waits_can_be_given_up(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        process = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))["processId"]
        stopped = await call(client, "process_cancel", processId=process)
        assert stopped.structured_content == {"processId": process, "status": "killed", "questions": []}
        late = await call(client, "process_answer", processId=process, answer={"name": "ham"})
        assert late.is_error
        assert "asks nothing. It has ended: process_status says why" in text_of(late)
        status = await call(client, "process_status", processId=process)
        assert status.is_error
        assert "order_pizza was stopped" in text_of(status)


async def test_the_question_of_a_process_within_a_process_is_asked_and_answered_under_the_outer_one(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, Pizzeria(), Waiter()) as server, server.client() as client:
        handle = handle_of(server, "serve_guest", await call(client, "serve_guest", size=20))
        assert handle["questions"][0]["message"] == "What shall be on a pizza of 20 cm?"
        end = await call(client, "process_answer", processId=handle["processId"], answer={"name": "cheese"})
        assert end.structured_content == {"content": "Served: 20 cm with 1 cheese"}


async def test_the_open_questions_are_in_the_resource_of_the_process(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        handle = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        contents = (await client.read_resource(f"goalport://processes/{handle['processId']}")).contents[0]
        assert isinstance(contents, TextResourceContents)
        state = json.loads(contents.text)
        (asked,) = state["questions"]
        assert asked.pop("askedAt")
        assert (state["status"], [asked]) == ("waiting", handle["questions"])


def test_companions_are_published_only_beside_a_goal_that_may_need_them(tmp_path: Path) -> None:
    assert not COMPANIONS & published(tmp_path).tools.keys()
    found = published(tmp_path, Pizzeria())
    assert found.tools.keys() >= COMPANIONS
    assert not found.problems
    for name in COMPANIONS:
        tool = tool_of(found, name)
        assert tool.output_schema is None
        assert tool.input_schema["type"] == "object"
        assert "processId" in tool.input_schema["required"]
    assert tool_of(found, "order_pizza").output_schema is not None
    schema: Any = tool_of(found, "order_pizza").output_schema
    assert schema["type"] == "object"
    assert [each["title"] for each in schema["anyOf"]] == ["Pizza", "Handle", "LargeResult"]


def test_the_input_of_a_companion_is_described_by_its_fields_alone(tmp_path: Path) -> None:
    found = published(tmp_path, Pizzeria())
    for name in COMPANIONS:
        tool = tool_of(found, name)
        assert tool.description
        assert not {"title", "description"} & tool.input_schema.keys()
        assert all(each["description"] for each in tool.input_schema["properties"].values())
