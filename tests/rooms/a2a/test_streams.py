"""What happens in a task is told while it happens; a chatbot talks in pieces, in the conversation of a context."""

from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from goalport.base.caller import ANONYMOUS
from tests.rooms.a2a.other_agents import BINDINGS, Refused, message, other_agent, state_in, words_of
from tests.rooms.agui.talkers import Cook, Kitchen, Thinker, Waiter
from tests.rooms.serve.askers import Gate, Pizzeria, Slow


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_a_stream_begins_with_the_task_and_ends_with_its_end(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Cook()) as other:
        client = replace(other, binding=binding)
        told = [each async for each in client.stream("SendStreamingMessage", message=message("peas"))]
        assert "task" in told[0]
        assert state_in(told[0]) == "submitted"
        assert [words_of(each) for each in told[1:3]] == ["The water boils", "1/1 cook"]
        assert told[-2]["artifactUpdate"]["artifact"]["parts"][0]["data"] == {"text": "A plate of peas"}
        assert state_in(told[-1]) == "completed"


async def test_a_stream_pauses_at_a_question_and_the_answer_is_told_to_all_who_follow(
    tmp_path: Path, binding: str
) -> None:
    async with other_agent(tmp_path, Kitchen()) as other:
        client = replace(other, binding=binding)
        order = message({"dish": "soup", "plates": 2})
        told = [each async for each in client.stream("SendStreamingMessage", message=order)]
        assert state_in(told[-1]) == "input_required"
        task, seen = told[0]["task"], anyio.Event()
        followed: list[str] = []

        async def follow() -> None:
            async with aclosing(client.stream("SubscribeToTask", id=task["id"])) as updates:
                async for each in updates:
                    followed.append(state_in(each))
                    seen.set()

        with anyio.fail_after(10):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(follow)
                await seen.wait()
                answer = message("yes", taskId=task["id"])
                told = [each async for each in client.stream("SendStreamingMessage", message=answer)]
        assert state_in(told[-1]) == followed[-1] == "completed"
        assert followed[0] == "input_required"
        with pytest.raises(Refused, match="has ended"):
            _ = [each async for each in client.stream("SubscribeToTask", id=task["id"])]


async def test_who_leaves_a_stream_comes_back_to_the_task(tmp_path: Path, binding: str) -> None:
    gate = Gate()
    async with other_agent(tmp_path, Slow(gate)) as other:
        client = replace(other, binding=binding)
        async with aclosing(client.stream("SendStreamingMessage", message=message({"size": 20}))) as updates:
            task = (await anext(updates))["task"]
            with anyio.fail_after(5):
                await gate.begun.wait()
        async with aclosing(client.stream("SubscribeToTask", id=task["id"])) as updates:
            assert state_in(await anext(updates)) == "working"
            gate.opened.set()
            with anyio.fail_after(5):
                assert [state_in(each) async for each in updates][-1] == "completed"


async def test_a_message_that_is_refused_begins_no_stream(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Pizzeria()) as other:
        wrong, client = message({"size": "large"}), replace(other, binding=binding)
        with pytest.raises(Refused, match="INVALID_PARAMS"):
            _ = [each async for each in client.stream("SendStreamingMessage", message=wrong)]
        assert await other.platform.processes.records() == []


async def test_a_message_that_a_chatbot_does_not_take_begins_no_conversation(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Thinker()) as other:
        client, chatbot = replace(other, binding=binding), other.platform.chatbots["Thinker"]
        with pytest.raises(Refused, match="takes text and images"):
            await client.send({"a": 1}, contextId="c-1")
        assert await chatbot.find_thread("c-1", ANONYMOUS) is None
        await client.send("hello", contextId="c-1")
        assert await chatbot.find_thread("c-1", ANONYMOUS) is not None


async def test_a_chatbot_replies_in_pieces_in_the_conversation_of_a_context(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Thinker()) as other:
        client = replace(other, binding=binding)
        told = [each async for each in client.stream("SendStreamingMessage", message=message("Hi", contextId="talk"))]
        pieces = [each["artifactUpdate"] for each in told if "artifactUpdate" in each]
        assert [each["artifact"]["parts"][0]["text"] for each in pieces] == [
            "Number 1: ",
            "you said 'Hi'.",
            "Number 1: you said 'Hi'.",
        ]
        assert ([each.get("append", False) for each in pieces], pieces[-1]["lastChunk"]) == ([True, True, False], True)
        assert state_in(told[-1]) == "completed"
        task = await client.send("Again", contextId="talk")
        assert task["artifacts"][0]["parts"] == [{"text": "Number 3: you said 'Again'."}]
        assert [each["parts"][0]["text"] for each in task["history"]] == ["Again", "Number 3: you said 'Again'."]
        first = await client.call("GetTask", id=told[0]["task"]["id"])
        assert first["artifacts"][0]["parts"] == [{"text": "Number 1: you said 'Hi'."}]
        assert [each["id"] for each in (await client.call("ListTasks"))["tasks"]] == [task["id"]]
        fails = await client.send("fail", contextId="talk")
        assert state_in(fails) == "failed"
        assert (await replace(client, caller="bob").send("Hi", contextId="talk"))["artifacts"][0]["parts"] == [
            {"text": "Number 1: you said 'Hi'."}
        ]


async def test_a_message_that_comes_twice_is_said_once(tmp_path: Path, binding: str) -> None:
    thinker = Thinker()
    async with other_agent(tmp_path, thinker) as other:
        client, said = replace(other, binding=binding), message("Hi", contextId="talk")
        first = (await client.call("SendMessage", message=said))["task"]
        assert (await client.call("SendMessage", message=said))["task"]["id"] == first["id"]
        assert thinker.begun == 1


async def test_the_next_message_answers_what_a_chatbot_asks(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Waiter()) as other:
        client = replace(other, binding=binding)
        task = await client.send("Hungry", contextId="table")
        assert state_in(task) == "input_required"
        again = await client.send({"dish": "soup", "plates": 2}, contextId="table")
        assert (again["id"], words_of(again).splitlines()[0]) == (task["id"], "2 x soup?")
        done = await client.answer(again, "yes")
        assert (done["id"], state_in(done)) == (task["id"], "completed")
        assert done["artifacts"][0]["parts"] == [{"text": "Here: soup"}]
        assert state_in(await client.call("GetTask", id=task["id"])) == "completed"


async def test_a_turn_is_cancelled_and_the_conversation_goes_on(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Thinker()) as other:
        client, found = replace(other, binding=binding), ""
        async with aclosing(
            client.stream("SendStreamingMessage", message=message("wait", contextId="talk"))
        ) as updates:
            async for each in updates:
                found = found or each["task"]["id"]
                if "artifactUpdate" in each:
                    break
        assert state_in(await client.call("CancelTask", id=found)) == "canceled"
        assert state_in(await client.send("Hi", contextId="talk")) == "completed"
        with pytest.raises(Refused, match="TASK_NOT_FOUND"):
            await client.call("GetTask", id=f"{found.partition(':')[0]}:nothing")
