"""What front ends tell a chatbot besides messages, and their tools: a call ends a run, the next brings its result."""

from pathlib import Path
from typing import Any

import pytest

from goalport import ActionContext, action
from goalport.base.caller import ANONYMOUS
from goalport.models.llm import UserMessage
from goalport.runtime.chat import FrontEnd, chatbot
from tests.rooms.agui.front_end import Thread, front_end, only
from tests.rooms.agui.test_requests import HELLO, given, post
from tests.rooms.chat.talkers import Parrot

SCHEMA = {"type": "object", "properties": {"colour": {"type": "string"}}}
PAINT = {"name": "paint", "description": "Paints the page", "parameters": SCHEMA}
OFFERED: dict[str, Any] = {
    "tools": [PAINT],
    "context": [{"description": "Page", "value": "Teas"}],
    "forwardedProps": {"shop": 7},
}


@chatbot(description="Calls the first tool of the front end")
class Painter:
    """It needs no model for that."""

    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, message: UserMessage, context: ActionContext, front_end: FrontEnd | None) -> None:
        """Say what the front end tells, and what came of the call."""
        if front_end is None or not front_end.offers:
            await context.send_message("Nothing to paint on.")
            return
        result = await front_end.tools()[0].call({"colour": message.content})
        told = f"{front_end.notes()}; {front_end.properties}; {front_end.state}"
        await context.send_message(f"{result.text}{' (an error)' * result.is_error}; {told}")


def call_of(events: list[dict[str, Any]]) -> str:
    """The id of the call that is left to the front end."""
    (started,) = only(events, "TOOL_CALL_START")
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [started["toolCallId"]]}
    assert started["toolCallName"] == "paint"
    return str(started["toolCallId"])


def answered(thread: Thread, call_id: str, **result: str) -> Thread:
    assert [each["id"] for each in thread.messages[-1]["toolCalls"]] == [call_id]
    thread.messages.append({"id": f"r-{call_id}", "role": "tool", "toolCallId": call_id, "content": "Done", **result})
    return thread


async def test_a_call_goes_to_the_front_end_and_its_result_to_the_action(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"store": "sqlite", "state_keys": "k" * 32}
    async with front_end(tmp_path, Painter(), **settings) as one, front_end(tmp_path, Painter(), **settings) as other:
        thread = one.thread("Painter")
        thread.state = {"theme": "dark"}
        events = await thread.run("red", **OFFERED)
        (arguments,) = only(events, "TOOL_CALL_ARGS")
        assert arguments["delta"] == '{"colour": "red"}'
        thread.http = other.http
        await answered(thread, call_of(events)).run(**OFFERED)
        assert thread.said[-1] == "assistant: Done; Page: Teas; {'shop': 7}; {'theme': 'dark'}"
        again = await thread.run(**OFFERED)
        assert again[-1]["outcome"] == {"type": "success"}
        assert not only(again, "MESSAGES_SNAPSHOT")


async def test_a_call_that_failed_or_was_left_out_is_told_as_such(tmp_path: Path) -> None:
    async with front_end(tmp_path, Painter()) as web:
        thread = web.thread("Painter")
        call = call_of(await thread.run("red", **OFFERED))
        await answered(thread, call, error="no paint left").run(**OFFERED)
        assert thread.said[-1].startswith("assistant: It failed: no paint left; ")
        await thread.run("blue", **OFFERED)
        events = await thread.run("green", **OFFERED)
        assert any("blue" in each for each in thread.said)
        assert any("(an error)" in each for each in thread.said)
        assert only(events, "TOOL_CALL_START")


async def test_what_a_front_end_told_holds_only_for_turns_that_come_through_it(tmp_path: Path) -> None:
    async with front_end(tmp_path, Painter()) as web:
        thread = web.thread("Painter")
        await answered(thread, call_of(await thread.run("red", **OFFERED))).run(**OFFERED)
        await thread.run("blue")
        assert thread.said[-1] == "assistant: Nothing to paint on."
        session = await web.platform.chatbots["Painter"].find_session("t-1", ANONYMOUS)
        assert session is not None
        assert (await session.on_user_message(UserMessage("green"))).text == "Nothing to paint on."


@pytest.mark.parametrize(
    ("tool", "field"),
    [
        ({**PAINT, "parameters": {"type": "nonsense"}}, "tools[0].parameters"),
        ({**PAINT, "parameters": [1]}, "tools[0].parameters"),
        ({**PAINT, "name": " "}, "tools[0].name"),
    ],
)
async def test_tools_that_cannot_be_called_are_refused(tmp_path: Path, tool: dict[str, Any], field: str) -> None:
    async with front_end(tmp_path, Painter(), Parrot()) as web:
        status, problem = await post(web, given(HELLO, tools=[tool]), "/agui/Painter")
        assert (status, problem["errors"][0]["field"]) == (422, field)
        status, problem = await post(web, given(HELLO, tools=[PAINT]))
        assert (status, "paint" in problem["errors"][0]["detail"]) == (422, True)
        for name, calls in (("Painter", True), ("Parrot", False)):
            told = (await web.http.get(f"/agui/{name}")).json()
            assert told["tools"]["clientProvided"] is calls
