"""AG-UI's own client at the AG-UI door, with a model that streams over HTTP: what it verifies, and what it shows."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from goalport import ActionContext, action
from goalport.models.llm import UserMessage
from goalport.runtime.chat import Conversation, FrontEnd, chatbot
from tests.clients.running import CLIENTS, obeying
from tests.providers import Providers
from tests.rooms.agui.front_end import front_end
from tests.rooms.agui.talkers import Cook, Waiter

Tell = Callable[..., Any]


def shelf(number: int) -> str:
    """What stands on a shelf."""
    return f"Shelf {number}: tea"


@chatbot(description="Answers with a model that has a tool")
class Grocer:
    """It streams what the model says."""

    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, conversation: Conversation, context: ActionContext) -> None:
        """Answer."""
        ai = context.ai.with_tools(shelf)
        await context.send_message(ai.streaming().respond(conversation.messages))


@chatbot(description="Shows things to people")
class Painter:
    """It calls the tools of the front end."""

    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, conversation: Conversation, context: ActionContext, front_end: FrontEnd | None) -> None:
        """Answer."""
        ai = context.ai if front_end is None else context.ai.with_reference(front_end)
        await context.send_message(ai.streaming().respond(conversation.messages))


@asynccontextmanager
async def client(node: str, root: Path, *agents: object) -> AsyncGenerator[Tell]:
    """The client, as a function that does a run of an agent in a thread."""
    async with front_end(root, *agents) as web:
        with obeying([node, str(CLIENTS / "node" / "agui.mjs")], root) as tell:

            async def run(agent: str, say: str = "", **parameters: Any) -> Any:
                url = f"{str(web.http.base_url).rstrip('/')}/agui/{agent}"
                line = {"url": url, "threadId": f"t-{agent}", "say": say, **parameters}
                return await to_thread.run_sync(partial(tell, line))

            yield run


def shown(told: dict[str, Any]) -> list[tuple[str, str]]:
    """The messages of the client that were said."""
    return [(each["role"], each["content"]) for each in told["messages"] if each.get("content")]


async def test_a_chat_with_a_model_and_its_tool(
    node: str, aimock: Providers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in aimock.environment.items():
        monkeypatch.setenv(name, value)
    aimock.answer({"userMessage": "Where", "hasToolResult": True}, content="The tea is on shelf three.")
    aimock.answer("Where", toolCalls=[{"name": "shelf", "arguments": '{"number": 3}'}])
    aimock.answer("Thanks", {"chunkSize": 5}, content="You are welcome, and come again soon.")
    async with client(node, tmp_path, Grocer()) as run:
        told = await run("Grocer", "Where is the tea?")
        assert "error" not in told, told
        assert [each["type"] for each in told["events"] if each["type"].startswith("TOOL")] == [
            "TOOL_CALL_START",
            "TOOL_CALL_ARGS",
            "TOOL_CALL_END",
            "TOOL_CALL_RESULT",
        ]
        assert shown(told)[-2:] == [("tool", "Shelf 3: tea"), ("assistant", "The tea is on shelf three.")]
        told = await run("Grocer", "Thanks")
        pieces = [each for each in told["events"] if each["type"] == "TEXT_MESSAGE_CONTENT"]
        assert len(pieces) > 3
        assert shown(told)[-1] == ("assistant", "You are welcome, and come again soon.")
        said = [each["content"] for each in aimock.requests()[-1]["messages"] if each["role"] != "system"]
        assert said == ["Where is the tea?", "The tea is on shelf three.", "Thanks"]


async def test_a_model_calls_the_tools_of_the_front_end(
    node: str, aimock: Providers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in aimock.environment.items():
        monkeypatch.setenv(name, value)
    aimock.answer({"userMessage": "Paint", "hasToolResult": True}, content="It is red now.")
    aimock.answer("Paint", toolCalls=[{"name": "front_end_paint", "arguments": '{"colour": "red"}'}])
    schema = {"type": "object", "properties": {"colour": {"type": "string"}}, "required": ["colour"]}
    offered: dict[str, Any] = {
        "tools": [{"name": "paint", "description": "Paints the page", "parameters": schema}],
        "context": [{"description": "The page", "value": "A list of teas"}],
    }
    async with client(node, tmp_path, Painter()) as run:
        told = await run("Painter", "Paint it red", **offered)
        assert "error" not in told, told
        end = told["events"][-1]
        (call,) = [each for each in told["events"] if each["type"] == "TOOL_CALL_START"]
        assert (call["toolCallName"], end["outcome"]["pendingToolCallIds"]) == ("paint", [call["toolCallId"]])
        assert not [each for each in told["events"] if each["type"] == "TOOL_CALL_RESULT"]
        assert "A list of teas" in str(aimock.requests()[-1]["messages"])
        told = await run("Painter", result={"toolCallId": call["toolCallId"], "content": "Painted"}, **offered)
        assert "error" not in told, told
        assert shown(told) == [("user", "Paint it red"), ("tool", "Painted"), ("assistant", "It is red now.")]
        assert "Painted" in str(aimock.requests()[-1]["messages"])


async def test_questions_are_interrupts_that_it_answers_and_goals_give_it_results(node: str, tmp_path: Path) -> None:
    async with client(node, tmp_path, Waiter(), Cook()) as run:
        told = await run("Waiter", "I am hungry")
        (form,) = told["interrupts"]
        assert form["responseSchema"]["required"] == ["dish", "plates"]
        resume = [{"interruptId": form["id"], "status": "resolved", "payload": {"dish": "soup", "plates": 2}}]
        (yes,) = (await run("Waiter", resume=resume))["interrupts"]
        told = await run("Waiter", resume=[{"interruptId": yes["id"], "status": "resolved", "payload": True}])
        assert "error" not in told, told
        assert shown(told) == [("user", "I am hungry"), ("assistant", "Here: soup")]
        assert told["interrupts"] == []
        told = await run("cook", "noodles")
        assert told["result"] == {"text": "A plate of noodles"}
        assert told["state"]["goalport"]["result"] == {"text": "A plate of noodles"}
