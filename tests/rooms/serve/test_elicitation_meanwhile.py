"""What goes on while a form is shown: other servers ask, progress is told, and many answer at once."""

import json
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.client import ClientRequestContext
from mcp_types import (
    CallToolResult,
    ElicitRequestParams,
    ElicitResult,
    InputRequiredResult,
    TextContent,
)

from goalport.server.doors.mcp.server import make_server
from tests.rooms.serve.askers import Answering, Pizzeria, Visiting, call
from tests.rooms.serve.served import ERAS, Served, served, state_of, text_of
from tests.rooms.serve.test_upstream import server_entry
from tests.rooms.upstream.connected import nothing_left_behind

HAM = {"name": "ham", "portions": 2}
OFFICE = """
from dataclasses import dataclass
from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent

@dataclass(frozen=True)
class Sign:
    content: str

@agent(description="Asks elsewhere")
class Office:
    @achieves_goal(
        description="A sign", export=Export(remote=True, name="find_sign", starting_input_types=[UserInput], long=True)
    )
    @action(tool_groups=["theirs"])
    async def find(self, said: UserInput, context: ActionContext) -> Sign:
        return Sign((await context.tool("ask").call({})).text)
"""


class Thinking:
    """A person who answers a form with this sign once they may, and what was asked."""

    def __init__(self, sign: str) -> None:
        self.sign = sign
        self.asked, self.may_answer = anyio.Event(), anyio.Event()

    async def __call__(self, _: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        self.asked.set()
        await self.may_answer.wait()
        return ElicitResult(action="accept", content={"sign": self.sign})


@asynccontextmanager
async def office(root: Path, asks: str = '"ask_later").call({})', **server: object) -> AsyncGenerator[Served]:
    """A goal that asks by a tool of an upstream server; its result is all that the tool gives."""
    groups = {"theirs": {"include": ["ask*"]}, "others": {"include": ["echo"], "exports": True}}
    config = {"mcpServers": {"plain": {**server_entry(), **server}}, "toolGroups": groups}
    agents = OFFICE.replace('(await context.tool("ask").call({})).text', f"str((await context.tool({asks}).content)")
    files = {"agents/office.py": agents, "mcp_config.json": json.dumps(config)}
    with nothing_left_behind():
        state = state_of(root, files=files, upstream_wait_seconds=20)
        try:
            async with state.publisher.connected():
                yield Served(state, make_server(state)[0])
        finally:
            await state.platform.aclose()


async def test_a_call_that_waits_for_a_person_leaves_its_turn_to_others(tmp_path: Path) -> None:
    person = Thinking("Leo")
    async with (
        office(tmp_path, concurrency=1, timeout=0.5) as server,
        server.client("legacy", elicitation_callback=person) as client,
        anyio.create_task_group() as tasks,
    ):
        tasks.start_soon(lambda: call(client, "find_sign", content="mine"))
        with anyio.fail_after(60):
            await person.asked.wait()
        assert (await call(client, "echo", text="hi")).content == [TextContent(type="text", text="hi")]
        person.may_answer.set()


async def test_a_question_waits_until_it_can_belong_to_one_call_alone(tmp_path: Path) -> None:
    first, second, found = Thinking("Leo"), Thinking("Aries"), dict[str, str]()

    async def find(client: Client, whose: str) -> None:
        found[whose] = str((await call(client, "find_sign", content=whose)).structured_content)

    async with (
        office(tmp_path) as server,
        server.client("legacy", elicitation_callback=first) as one,
        server.client("legacy", elicitation_callback=second) as other,
    ):
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(find, one, "first")
                await first.asked.wait()
                tasks.start_soon(find, other, "second")
                await anyio.wait_all_tasks_blocked()
                assert not second.asked.is_set()
                first.may_answer.set()
                await second.asked.wait()
                second.may_answer.set()
    assert ["Leo" in found["first"], "Aries" in found["second"]] == [True, True]
    assert "declined" not in str(found)


async def test_a_question_that_stays_unclear_is_declined_and_only_calls_that_asked_nobody_are_told(
    tmp_path: Path,
) -> None:
    first, second, found = Thinking("Leo"), Thinking("Aries"), dict[str, str]()

    async def find(client: Client, whose: str) -> None:
        found[whose] = str((await call(client, "find_sign", content=whose)).structured_content)

    async with (
        office(tmp_path, timeout=2) as server,
        server.client("legacy", elicitation_callback=first) as one,
        server.client("legacy", elicitation_callback=second) as other,
    ):
        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(find, one, "first")
                await first.asked.wait()
                await find(other, "second")
                first.may_answer.set()
    assert "decline" in found["second"]
    assert "Leo" in found["first"]
    assert "decline" not in found["first"]
    assert not second.asked.is_set()


@pytest.mark.parametrize("era", ERAS)
async def test_the_question_of_an_upstream_server_is_a_form_of_our_client(tmp_path: Path, era: str) -> None:
    config = {"mcpServers": {"plain": server_entry()}, "toolGroups": {"theirs": {"include": ["ask"]}}}
    files = {"agents/office.py": OFFICE, "mcp_config.json": json.dumps(config)}
    person = Answering.with_({"sign": "Leo"})
    with nothing_left_behind():
        state = state_of(tmp_path, files=files, upstream_wait_seconds=20)
        try:
            async with state.publisher.connected():
                server = Served(state, make_server(state)[0])
                async with server.client(era, elicitation_callback=person) as client:
                    result = await call(client, "find_sign", content="mine")
        finally:
            await state.platform.aclose()
    assert result.structured_content is not None
    assert "Leo" in result.structured_content["content"]
    assert person.asked == ["plain asks: Which sign?"]


@pytest.mark.parametrize("era", ERAS)
async def test_the_address_of_an_upstream_server_is_opened_by_our_client(tmp_path: Path, era: str) -> None:
    config = {"mcpServers": {"plain": server_entry()}, "toolGroups": {"theirs": {"include": ["ask_page"]}}}
    files = {"agents/office.py": OFFICE.replace('"ask"', '"ask_page"'), "mcp_config.json": json.dumps(config)}
    person = Visiting()
    with nothing_left_behind():
        state = state_of(tmp_path, files=files, upstream_wait_seconds=20)
        try:
            async with state.publisher.connected():
                server = Served(state, make_server(state)[0])
                async with server.client(era, elicitation_callback=person) as client:
                    result = await call(client, "find_sign", content="mine")
        finally:
            await state.platform.aclose()
    assert result.structured_content is not None
    assert json.loads(result.structured_content["content"]) == {"action": "accept"}
    assert person.seen == ["https://example.com/", "plain asks: Which sign?\n\nSend this once it is done there."]


async def test_the_address_of_an_upstream_server_is_not_filled_with_ids_of_ours(tmp_path: Path) -> None:
    person = Visiting()
    address = "https://example.com/{process_id}/{question_id}?mine={question_id}"
    async with (
        office(tmp_path, f'"ask_page").call({{"text": "{address}"}})') as server,
        server.client("legacy", elicitation_callback=person) as client,
    ):
        await call(client, "find_sign", content="mine")
    assert person.seen[0] == "https://example.com/%7Bprocess_id%7D/%7Bquestion_id%7D?mine=%7Bquestion_id%7D"


async def test_a_form_that_the_protocol_has_no_answer_for_is_not_shown_and_the_call_says_why(tmp_path: Path) -> None:
    person = Answering.with_({"city": "Rome"})
    async with (
        office(tmp_path, '"ask_object").call({})') as server,
        server.client("legacy", elicitation_callback=person) as client,
    ):
        result = await call(client, "find_sign", content="mine")
    assert person.asked == []
    assert "was declined: MCP has no answer for its field 'home'" in text_of(result).replace("\\", "")


async def test_progress_grows_while_a_person_is_asked_and_after_that(tmp_path: Path) -> None:
    told: list[tuple[float, str]] = []
    asked = anyio.Event()

    async def note(progress: float, total: float | None, message: str | None) -> None:
        told.append((progress, message or str(total)))
        if "a person is asked" in (message or ""):
            asked.set()

    async def person(_: ClientRequestContext, params: ElicitRequestParams) -> ElicitResult:
        assert params.message
        with anyio.fail_after(60):
            await asked.wait()
        return ElicitResult.model_validate({"action": "accept", "content": HAM})

    async with (
        served(tmp_path, Pizzeria(), heartbeat_seconds=0.02) as server,
        server.client("legacy", elicitation_callback=person) as client,
    ):
        with anyio.fail_after(60):
            result = await client.call_tool("order_pizza", {"size": 30}, progress_callback=note)
    assert result.structured_content == {"content": "30 cm with 2 ham"}
    amounts = [progress for progress, _ in told]
    assert amounts == sorted(set(amounts))
    assert len([message for _, message in told if message.endswith("begins")]) == 1


async def test_of_fifty_answers_at_once_one_counts(tmp_path: Path) -> None:
    results: list[CallToolResult | InputRequiredResult] = []
    async with (
        served(tmp_path, Pizzeria()) as server,
        server.client(elicitation_callback=Answering.with_()) as client,
    ):
        begun = await client.session.call_tool("order_pizza", {"size": 30}, allow_input_required=True)
        assert isinstance(begun, InputRequiredResult)
        (question,) = begun.input_requests or {}

        async def repeat(portions: int) -> None:
            answer = ElicitResult(action="accept", content={"name": "ham", "portions": portions})
            results.append(
                await client.session.call_tool(
                    "order_pizza",
                    {"size": 30},
                    request_state=begun.request_state,
                    input_responses={question: answer},
                    allow_input_required=True,
                )
            )

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                for portions in range(1, 51):
                    tasks.start_soon(repeat, portions)
        contents = [each.structured_content for each in results if isinstance(each, CallToolResult)]
        assert len(contents) == 50
        assert all(each == contents[0] and each["content"].endswith(" ham") for each in contents)
        assert len((await server.process()).history) == 2
