"""Another goalport as upstream server: its waiting goals are answered through whoever called them."""

import json
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import CallToolResult

from goalport.server.doors.mcp.server import make_server
from tests.rooms.serve.served import Served, state_of, text_of
from tests.rooms.upstream.connected import MARK, nothing_left_behind
from tests.stories.servers import GOALPORT

INNER = """
from dataclasses import dataclass
from goalport import Export, UserInput, WaitFor, achieves_goal, action, agent

@dataclass(frozen=True)
class Approval:
    name: str
    copies: int = 1

@dataclass(frozen=True)
class Order:
    approved: str
    copies: int

@dataclass(frozen=True)
class Printed:
    content: str

@agent(description="Prints papers")
class Printer:
    @action
    def ask(self, said: UserInput) -> Approval | WaitFor[Approval]:
        return WaitFor.form_submission(f"Who approves {said.content}?", Approval)

    @action
    def confirm(self, approval: Approval) -> WaitFor[Order]:
        return WaitFor.confirmation(Order(approval.name, approval.copies), f"Print {approval.copies}?")

    @achieves_goal(
        description="Print a paper",
        export=Export(remote=True, name="print_paper", starting_input_types=[UserInput]),
    )
    @action
    def print_it(self, said: UserInput, order: Order) -> Printed:
        return Printed(f"{order.copies} x {said.content}, approved by {order.approved}")

@agent(description="Prints long papers")
class Press:
    @achieves_goal(
        description="Print a long paper",
        export=Export(remote=True, name="print_long", starting_input_types=[UserInput]),
    )
    @action
    def print_long(self, said: UserInput) -> Printed:
        return Printed(said.content * 2_000)
"""
OUTER = """
from dataclasses import dataclass
from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent

@dataclass(frozen=True)
class Done:
    content: str

@agent(description="Has papers printed elsewhere")
class Office:
    @achieves_goal(
        description="Have it printed",
        export=Export(remote=True, name="have_printed", starting_input_types=[UserInput], long=True),
    )
    @action(tool_groups=["print"])
    async def have(self, said: UserInput, context: ActionContext) -> Done:
        (paper,) = (each for each in context.tools if each.name == "shop_print_paper")
        return Done((await paper.call({"content": said.content})).text)
"""


SMALL = {"GOALPORT_MAX_RESULT_BYTES": "2000"}
READER = """
from dataclasses import dataclass
from goalport import ActionContext, Export, UserInput, achieves_goal, action, agent

@dataclass(frozen=True)
class Read:
    content: str

@agent(description="Reads papers of elsewhere")
class Reader:
    @achieves_goal(
        description="Have a long paper read",
        export=Export(remote=True, name="have_read", starting_input_types=[UserInput]),
    )
    @action(tool_groups=["print"])
    async def have(self, said: UserInput, context: ActionContext) -> Read:
        tools = {each.name: each for each in context.tools}
        found = (await tools["shop_print_long"].call({"content": said.content})).structured
        pages = []
        for page in range(1, found["pages"] + 1):
            call = {**found["next"]["arguments"], "page": page}
            pages.append((await tools[found["next"]["tool"]].call(call)).blocks[-1].text)
        return Read(f"{len(pages)} pages, {''.join(pages).count(said.content)} times")
"""


@asynccontextmanager
async def two(root: Path) -> AsyncGenerator[Served]:
    """A goalport in memory, whose upstream server is another one that keeps large results for pages."""
    inner = root / "inner"
    (inner / "agents").mkdir(parents=True)
    (inner / "agents" / "printer.py").write_text(INNER)
    command = ["serve", "--transport", "stdio", "--workspace", str(inner)]
    servers = {"shop": {"command": str(GOALPORT), "args": command, "env": {MARK: str(os.getpid()), **SMALL}}}
    groups = {"print": {"servers": ["shop"], "naming": {"prefix": "shop_"}, "exports": True}}
    files = {
        "agents/office.py": OUTER,
        "agents/reader.py": READER,
        "mcp_config.json": json.dumps({"mcpServers": servers, "toolGroups": groups}),
    }
    with nothing_left_behind():
        state = state_of(root, files=files, upstream_wait_seconds=60)
        try:
            async with state.publisher.connected():
                yield Served(state, make_server(state)[0])
        finally:
            await state.platform.aclose()


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Served]:
    """Both goalports; every test ends the processes that it starts."""
    async with two(tmp_path_factory.mktemp("two")) as both:
        yield both


def next_of(result: CallToolResult) -> dict[str, Any]:
    assert result.structured_content is not None, text_of(result)
    return result.structured_content["next"]


def question_of(result: CallToolResult) -> dict[str, Any]:
    assert result.structured_content is not None, text_of(result)
    return result.structured_content["questions"][0]


async def answered(client: Client, result: CallToolResult, **answer: object) -> CallToolResult:
    """What comes of the next call, as the handle gives it, with this answer."""
    following = next_of(result)
    return await client.call_tool(following["tool"], {**following["arguments"], **answer})


async def test_a_handle_names_the_companions_as_the_group_calls_them(server: Served) -> None:
    async with server.client() as client:
        handed = await client.call_tool("shop_print_paper", {"content": "news"})
        assert next_of(handed)["tool"] == "shop_process_answer"
        assert "Do not call shop_print_paper again" in next_of(handed)["instruction"]
        assert "then call shop_process_answer with {" in text_of(handed)
        assert "call shop_process_cancel with {" in text_of(handed)
        assert "call print_paper again" not in text_of(handed)
        sure = await answered(client, handed, answer={"name": "Ann", "copies": 2})
        assert next_of(sure)["tool"] == "shop_process_answer"
        done = await answered(client, sure, answer=True)
        assert text_of(done) == "2 x news, approved by Ann"


async def test_the_questions_of_its_goals_become_those_of_the_process_that_called(server: Served) -> None:
    async with server.client() as client:
        handed = await client.call_tool("have_printed", {"content": "news"})
        assert next_of(handed)["tool"] == "process_answer"
        question = question_of(handed)
        assert question["message"] == "shop asks: Who approves news?"
        assert question["schema"]["required"] == ["name"]
        sure = await answered(client, handed, answer={"name": "Ann"})
        assert question_of(sure)["message"] == "shop asks: Print 1?"
        done = await answered(client, sure, answer={"answer": True})
        assert text_of(done) == "1 x news, approved by Ann"


async def test_a_no_reaches_the_goal_that_asked(server: Served) -> None:
    async with server.client() as client:
        handed = await client.call_tool("have_printed", {"content": "news"})
        sure = await answered(client, handed, answer={"name": "Ann"})
        done = await answered(client, sure, answer={"answer": False})
        assert "print_paper" in text_of(done)
        assert "1 x news" not in text_of(done)


async def test_a_large_result_of_it_is_read_by_the_tool_that_the_group_names(server: Served) -> None:
    async with server.client() as client:
        link = await client.call_tool("shop_print_long", {"content": "news"})
        assert not link.is_error
        assert next_of(link)["tool"] == "shop_process_result"
        assert "call shop_process_result with {" in text_of(link)
        assert "Do not call shop_print_long again" in text_of(link)
        assert "goalport://" not in text_of(link), "our clients cannot read the other's resources"
        assert [each.type for each in link.content] == ["text"]
        following = next_of(link)
        page = await client.call_tool(following["tool"], following["arguments"])
        assert "For the next, call shop_process_result with {" in text_of(page)
        beyond = await client.call_tool(following["tool"], {**following["arguments"], "page": 1_000})
        assert beyond.is_error
        told = await client.call_tool("have_read", {"content": "news"})
        assert text_of(told).endswith(" pages, 2000 times")


async def test_what_its_companions_say_names_the_tools_as_the_group_does(server: Served) -> None:
    async with server.client() as client:
        handed = await client.call_tool("shop_print_paper", {"content": "news"})
        process = {"processId": next_of(handed)["arguments"]["processId"]}
        status = await client.call_tool("shop_process_status", process)
        assert "Do not call shop_print_paper again" in text_of(status)
        assert "Do not call shop_print_paper again" in next_of(status)["instruction"]
        wrong = await client.call_tool("shop_process_answer", {**process, "questionId": "q-1", "answer": True})
        assert "which shop_process_answer gives, to" in text_of(wrong)
        ended = await client.call_tool("shop_process_cancel", process)
        assert not ended.is_error
        again = await client.call_tool("shop_process_cancel", process)
        assert "shop_process_status says why" in text_of(again)
