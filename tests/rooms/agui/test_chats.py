"""Chatbots over AG-UI: messages, streamed replies, and the conversation that goes on from run to run."""

from pathlib import Path
from typing import Any

import anyio

from goalport.base.caller import ANONYMOUS
from goalport.base.secrecy import register_secrets
from tests.rooms.agui.front_end import Thread, front_end, kinds, only
from tests.rooms.agui.talkers import Shy, Thinker
from tests.rooms.chat.talkers import Careful, Moody, Parrot


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
            "title": "Hello",
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


async def test_an_edited_message_begins_another_branch(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        thread = web.thread("Parrot")
        await thread.run("One")
        await thread.run("Two")
        thread.messages[2]["content"] = "Three"
        del thread.messages[3:]
        await thread.run()
        assert thread.said[-2:] == ["user: Three", "assistant: 2: One … Three"]
        conversation = await web.platform.conversations.find("t-1", ANONYMOUS)
        assert conversation is not None
        assert [each.text for each in conversation.entries][2] == "Three"
        assert len(conversation.loaded.messages) > len(conversation.entries)


async def test_a_reply_that_was_left_out_is_given_again(tmp_path: Path) -> None:
    thinker = Thinker()
    async with front_end(tmp_path, thinker) as web:
        thread = web.thread("Thinker")
        await thread.run("Hello")
        await thread.run("Again")
        await thread.run()
        assert thinker.begun == 2
        before = thread.messages.pop()
        await thread.run()
        assert thinker.begun == 3
        assert thread.messages[-1]["content"] == before["content"]
        assert thread.messages[-1]["id"] != before["id"]


async def test_a_front_end_without_the_messages_goes_on_at_the_end_and_is_sent_them(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        first = web.thread("Parrot")
        await first.run("One")
        other = web.thread("Parrot")
        await other.run("Two")
        everything = ["user: One", "assistant: 1: One … One", "user: Two", "assistant: 2: One … Two"]
        assert other.said == everything
        loaded = web.thread("Parrot")
        await loaded.run()
        assert loaded.said == everything
        await first.run("Three")
        assert first.said == [*everything, "user: Three", "assistant: 3: One … Three"]


async def test_a_greeting_of_the_front_end_stays_where_nothing_was_said(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        thread = web.thread("Parrot")
        thread.messages = [{"id": "a", "role": "assistant", "content": "Good day"}]
        events = await thread.run()
        assert events[-1]["outcome"] == {"type": "success"}
        assert thread.said == ["assistant: Good day"]
        await thread.run("Hello")
        assert thread.said == ["assistant: Good day", "user: Hello", "assistant: 1: Hello … Hello"]


async def test_what_was_said_elsewhere_is_taken_over_with_its_instructions(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot()) as web:
        thread = web.thread("Parrot")
        thread.messages = [
            {"id": "s", "role": "system", "content": "Be brief"},
            {"id": "a", "role": "assistant", "content": "Good day"},
            {"id": "r", "role": "reasoning", "content": "Hm"},
            {"id": "c", "role": "assistant", "toolCalls": [_call("c-1")]},
            {"id": "t", "role": "tool", "toolCallId": "c-1", "content": "42"},
        ]
        await thread.run("Hello")
        conversation = await web.platform.conversations.find("t-1", ANONYMOUS)
        assert conversation is not None
        assert [(each.role, each.text) for each in conversation.entries] == [
            ("system", "Be brief"),
            ("assistant", "Good day"),
            ("user", "Hello"),
            ("assistant", "1: Hello … Hello"),
        ]
        assert [each["id"] for each in thread.messages][:6] == ["s", "a", "r", "c", "t", "said-5"]


def _call(call_id: str) -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "add", "arguments": "{}"}}


async def test_a_thread_of_somebody_else_is_another_conversation(tmp_path: Path) -> None:
    async with front_end(tmp_path, Parrot(), Thinker()) as web:
        ada, eve = web.thread("Parrot", caller="ada"), web.thread("Parrot", caller="eve")
        await ada.run("My secret")
        await eve.run()
        assert eve.said == []
        await eve.run("What did she say?")
        assert eve.said[-1] == "assistant: 1: What did she say? … What did she say?"
        await eve.run("And now?")
        assert eve.said[-1] == "assistant: 2: What did she say? … And now?"
        free = web.thread("Parrot", caller="eve")
        free.id = "t-free"
        await free.run("And here?")
        ids = [each.state["goalport"]["conversation"]["id"] for each in (ada, eve, free)]
        assert ({len(each) for each in ids}, len({*ids, ada.id, free.id})) == ({64}, 5)
        other = web.thread("Thinker", caller="ada")
        await other.run("Hello")
        assert other.said == ["user: Hello", "assistant: Number 1: you said 'Hello'."]


async def test_a_reader_that_goes_away_leaves_the_reply_to_finish(tmp_path: Path) -> None:
    thinker = Thinker()
    async with front_end(tmp_path, thinker) as web:
        thread = web.thread("Thinker").say("wait")
        with anyio.fail_after(10):
            async for each in thread.stream():
                if each["type"] == "TEXT_MESSAGE_CONTENT":
                    break
            again = await _first_text(thread)
            thinker.go_on.set()
            await thread.run()
        assert again == "Number 1: "
        assert thinker.begun == 1
        assert thread.said == ["user: wait", "assistant: Number 1: you said 'wait'."]


async def test_a_reply_ends_with_its_reader_if_the_chatbot_says_so(tmp_path: Path) -> None:
    shy = Shy()
    async with front_end(tmp_path, shy) as web:
        thread = web.thread("Shy").say("wait")
        with anyio.fail_after(10):
            async for each in thread.stream():
                if each["type"] == "TEXT_MESSAGE_CONTENT":
                    break
            (process,) = web.platform.processes.running
            await process.rest()
        shy.go_on.set()
        await thread.run("Are you there?")
        assert thread.said[-1] == "assistant: Number 2: you said 'Are you there?'."


async def _first_text(thread: Thread) -> str:
    """The beginning of the reply to a run that is sent again, which joins the reply that is written."""
    async for each in thread.stream():
        if each["type"] == "TEXT_MESSAGE_CONTENT":
            return str(each["delta"])
    raise AssertionError("There was no text.")


async def test_two_runs_at_once_are_answered_one_after_another(tmp_path: Path) -> None:
    thinker = Thinker()
    async with front_end(tmp_path, thinker) as web:
        one, other = web.thread("Thinker"), web.thread("Thinker")
        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one.run, "wait for it")
                while not thinker.begun:
                    await anyio.sleep(0.01)
                tasks.start_soon(other.run, "me too")
                thinker.go_on.set()
        assert one.said[-1] == "assistant: Number 1: you said 'wait for it'."
        assert other.said[-3:] == ["user: me too", "reasoning: Hm. Well.", "assistant: Number 3: you said 'me too'."]


async def test_a_turn_that_fails_ends_its_run_and_not_the_conversation(tmp_path: Path) -> None:
    async with front_end(tmp_path, Moody(), Thinker()) as web:
        thread = web.thread("Moody")
        events = await thread.run("fail")
        assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "turn-failed")
        await thread.run("better now?")
        assert thread.said == ["user: fail", "user: better now?", "assistant: Fine."]
        other = web.thread("Thinker")
        events = await other.run("fail")
        assert "".join(each["delta"] for each in only(events, "TEXT_MESSAGE_CONTENT")) == "Number 1: "
        assert events[-1]["type"] == "RUN_ERROR"
        assert other.said == ["user: fail"]


async def test_a_conversation_that_reached_its_goal_takes_no_more_messages(tmp_path: Path) -> None:
    async with front_end(tmp_path, Careful()) as web:
        thread = web.thread("Careful")
        await thread.run("bye")
        assert thread.state["goalport"]["conversation"]["finished"]
        events = await thread.run("one more thing")
        assert (events[-1]["type"], events[-1]["code"]) == ("RUN_ERROR", "conversation-ended")


async def test_a_secret_that_a_reply_holds_is_told_in_no_piece(tmp_path: Path) -> None:
    thinker = Thinker()
    async with front_end(tmp_path, thinker) as web:
        thread = web.thread("Thinker")
        register_secrets(thread, ["Number 1: you said"])
        events = await thread.run("Hello")
        assert "".join(each["delta"] for each in only(events, "TEXT_MESSAGE_CONTENT")) == "*** 'Hello'."
        assert thread.said[-1] == "assistant: *** 'Hello'."
