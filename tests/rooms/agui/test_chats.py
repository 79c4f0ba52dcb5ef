"""Chatbots over AG-UI: messages, streamed replies, and the conversation that goes on from run to run."""

from pathlib import Path
from typing import Any

import anyio

from goalport.caller import ANONYMOUS
from tests.rooms.agui.front_end import front_end, kinds, only
from tests.rooms.agui.talkers import Thinker
from tests.rooms.chat.talkers import Parrot


async def test_a_conversation_goes_on_from_run_to_run(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        thread = web.thread("Parrot")
        events = await thread.run("Hello")
        assert (events[0]["type"], events[0]["protocolVersion"]) == ("RUN_STARTED", "1.0")
        assert (events[-1]["type"], events[-1]["runId"], events[-1]["outcome"]) == (
            "RUN_FINISHED",
            "run-1",
            {"type": "success"},
        )
        await thread.run("Again")
        assert thread.said == [
            "user: Hello",
            "assistant: 1: Hello … Hello",
            "user: Again",
            "assistant: 2: Hello … Again",
        ]
        assert thread.state["goalport"]["conversation"] | {"head": ""} == {
            "id": "t-1",
            "chatbot": "Parrot",
            "title": "",
            "head": "",
            "finished": False,
        }
        conversation = await web.platform.conversations.find("t-1", ANONYMOUS)
        assert conversation is not None
        assert len(conversation.entries) == 4


async def test_a_reply_is_streamed_with_its_reasoning_and_its_step(tmp_path: Path) -> None:
    thinker = Thinker()
    async with front_end(tmp_path, thinker) as web:
        thread = web.thread("Thinker").say("wait")
        events = list[dict[str, Any]]()
        with anyio.fail_after(10):
            async for each in thread.stream():
                events.append(each)
                if each["type"] == "TEXT_MESSAGE_CONTENT":
                    thinker.go_on.set()
    assert kinds(events) == [
        "RUN_STARTED",
        "STATE_SNAPSHOT",
        "STATE_DELTA",
        "STEP_STARTED",
        "REASONING_START",
        "REASONING_MESSAGE_START",
        "REASONING_MESSAGE_CONTENT",
        "REASONING_MESSAGE_END",
        "REASONING_END",
        "TEXT_MESSAGE_START",
        "TEXT_MESSAGE_CONTENT",
        "TEXT_MESSAGE_END",
        "STEP_FINISHED",
        "STATE_DELTA",
        "RUN_FINISHED",
    ]
    assert "".join(each["delta"] for each in only(events, "TEXT_MESSAGE_CONTENT")) == "Number 1: you said 'wait'."
    assert "".join(each["delta"] for each in only(events, "REASONING_MESSAGE_CONTENT")) == "Hm. Well."
    assert only(events, "STEP_STARTED")[0]["stepName"] == only(events, "STEP_FINISHED")[0]["stepName"]
