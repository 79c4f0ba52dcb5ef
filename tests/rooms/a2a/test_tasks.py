"""A message begins a task, which is a process; tasks are looked at, listed and cancelled."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest
from pydantic import BaseModel

from goalport import Export, UserInput, achieves_goal, action, agent
from goalport.errors import BadInput
from tests.rooms.a2a.other_agents import BINDINGS, Refused, message, other_agent, state_in, words_of
from tests.rooms.agui.talkers import Cook, Kitchen
from tests.rooms.serve.askers import Gate, Pizzeria, Slow

pytestmark = pytest.mark.parametrize("binding", BINDINGS)
ORDER = {"dish": "soup", "plates": 2}


class Number(BaseModel):
    value: int


class Guest(BaseModel):
    name: str


@agent(description="Greets people")
class Doorman:
    @action
    def recognise(self, said: UserInput) -> Guest:
        return Guest(name=said.content.split()[-1])

    @achieves_goal(
        description="Greet", export=Export(remote=True, name="greet", starting_input_types=[UserInput, Guest])
    )
    @action
    def greet(self, guest: Guest) -> str:
        return f"Hello, {guest.name}!"


@agent(description="Halves numbers")
class Halver:
    @achieves_goal(description="The half of a number", export=Export(remote=True, name="halve"))
    def halve(self, number: Number) -> int:
        if number.value % 2:
            raise BadInput("The number is odd.")
        if number.value > 100:
            raise RuntimeError("too large")
        return number.value // 2


async def test_data_begins_the_goal_whose_schema_it_fits(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Halver(), Pizzeria()) as other:
        task = await replace(other, binding=binding).send({"value": 8})
        assert state_in(task) == "completed"
        (artifact,) = task["artifacts"]
        assert [each["data"] for each in artifact["parts"]] == [4]
        assert (await other.platform.process(task["id"])).agent.name == "Halver"


async def test_a_sentence_begins_the_only_goal(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Cook()) as other:
        task = await replace(other, binding=binding).send("peas", contextId="c-1")
        assert (state_in(task), task["contextId"]) == ("completed", "c-1")
        assert task["artifacts"][0]["parts"][0]["data"] == {"text": "A plate of peas"}
        (said,) = task["history"]
        assert (said["role"], said["parts"]) == ("ROLE_USER", [{"text": "peas"}])
        shown = await replace(other, binding=binding).call("GetTask", id=task["id"], historyLength=0)
        assert shown == {name: value for name, value in task.items() if name != "history"}


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        ([{"value": "many"}], "value"),
        ([{"valeu": 8}], "valeu"),
        (["half of eight"], "halve cannot start from a sentence: it takes value."),
        ([[8]], "should be a JSON object"),
        ([{"value": 8}, [8]], "each of them has to be an object"),
    ],
)
async def test_what_a_goal_cannot_begin_with_is_refused_and_nothing_begins(
    tmp_path: Path, binding: str, parts: list[object], words: str
) -> None:
    async with other_agent(tmp_path, Halver()) as other:
        with pytest.raises(Refused, match="INVALID_PARAMS") as refused:
            await replace(other, binding=binding).send(*parts)
        assert words in refused.value.message
        assert await other.platform.processes.records() == []


async def test_which_goal_is_meant_has_to_be_clear(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Halver(), Pizzeria()) as other:
        client = replace(other, binding=binding)
        with pytest.raises(Refused, match="fits no skill"):
            await client.send({"weight": 8})
        with pytest.raises(Refused, match="order_pizza"):
            await client.send({"value": 8}, metadata={"skill": "order_pasta"})
        task = await client.send({"value": 8}, metadata={"skill": "halve"})
        assert state_in(task) == "completed"
        task = await replace(client, agent="Halver").send({"value": 10})
        assert task["artifacts"][0]["parts"][0]["data"] == 5
        with pytest.raises(Refused, match="no agent 'Nobody'"):
            await replace(client, agent="Nobody").send({"value": 10})


async def test_a_sentence_is_for_the_goal_that_starts_from_what_somebody_says(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Doorman()) as other:
        client = replace(other, binding=binding, agent="Doorman")
        task = await client.send("I am Ann")
        assert task["artifacts"][0]["parts"] == [{"text": "Hello, Ann!"}]
        card = (await other.http.get("/a2a/agents/Doorman/.well-known/agent-card.json")).json()
        assert card["description"].startswith("Greets people. With several skills, ")


async def test_an_end_without_a_result_says_why(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Halver()) as other:
        client = replace(other, binding=binding)
        odd = await client.send({"value": 7})
        assert (state_in(odd), words_of(odd)) == ("rejected", "The number is odd.")
        large = await client.send({"value": 1000})
        assert state_in(large) == "failed"
        assert "too large" not in words_of(large)
        assert "artifacts" not in large


async def test_a_message_that_comes_twice_begins_one_task(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Halver()) as other:
        client, said = replace(other, binding=binding), message({"value": 8})
        first = (await client.call("SendMessage", message=said))["task"]
        assert (await client.call("SendMessage", message=said))["task"]["id"] == first["id"]
        other_data = {**said, "parts": [{"data": {"value": 10}}]}
        assert (await client.call("SendMessage", message=other_data))["task"]["id"] != first["id"]


async def test_a_task_runs_while_nobody_waits_and_is_cancelled(tmp_path: Path, binding: str) -> None:
    gate = Gate()
    async with other_agent(tmp_path, Slow(gate)) as other:
        client = replace(other, binding=binding)
        task = await client.send({"size": 20}, configuration={"returnImmediately": True})
        assert state_in(task) in {"submitted", "working"}
        with anyio.fail_after(5):
            await gate.begun.wait()
        assert state_in(await client.call("GetTask", id=task["id"])) == "working"
        cancelled = await client.call("CancelTask", id=task["id"])
        assert state_in(cancelled) == "canceled"
        assert "cancelled" in words_of(cancelled)
        with pytest.raises(Refused, match="TASK_NOT_CANCELABLE"):
            await client.call("CancelTask", id=task["id"])


async def test_nobody_reaches_the_tasks_of_others(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Kitchen()) as other:
        ada, bob = (replace(other, binding=binding, caller=each) for each in ("ada", "bob"))
        task = await ada.send(ORDER)
        assert state_in(task) == "input_required"
        for method in ("GetTask", "CancelTask"):
            with pytest.raises(Refused, match="TASK_NOT_FOUND"):
                await bob.call(method, id=task["id"])
        with pytest.raises(Refused, match="TASK_NOT_FOUND"):
            _ = [each async for each in bob.stream("SubscribeToTask", id=task["id"])]
        with pytest.raises(Refused, match="TASK_NOT_FOUND"):
            await bob.answer(task, "yes")
        assert (await bob.call("ListTasks"))["tasks"] == []
        assert state_in(await ada.call("GetTask", id=task["id"])) == "input_required"


async def test_tasks_are_listed_a_page_at_a_time(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Halver(), Kitchen()) as other:
        client = replace(other, binding=binding)
        ids = [(await client.send({"value": each}, contextId="numbers"))["id"] for each in (2, 4, 7)]
        waiting = await client.send(ORDER, contextId="dishes")
        first = await client.call("ListTasks", pageSize=3)
        assert [each["id"] for each in first["tasks"]] == [waiting["id"], ids[2], ids[1]]
        assert (first["totalSize"], first["pageSize"]) == (4, 3)
        assert all("artifacts" not in each for each in first["tasks"])
        second = await client.call("ListTasks", pageSize=3, pageToken=first["nextPageToken"])
        assert ([each["id"] for each in second["tasks"]], second["nextPageToken"]) == ([ids[0]], "")
        of_context = await client.call("ListTasks", contextId="numbers", includeArtifacts=True)
        assert [each["id"] for each in of_context["tasks"]] == ids[::-1]
        assert of_context["tasks"][2]["artifacts"]
        of_state = await client.call("ListTasks", status="TASK_STATE_REJECTED")
        assert [each["id"] for each in of_state["tasks"]] == [ids[2]]
        for wrong in ({"pageSize": 0}, {"pageToken": "nowhere"}, {"historyLength": -1}, {"status": "DONE"}):
            with pytest.raises(Refused, match="INVALID_PARAMS"):
                await client.call("ListTasks", **wrong)


@agent(description="Greets")
class Greeter:
    @achieves_goal(description="A greeting", export=Export(remote=True, name="greet"))
    def greet(self, said: UserInput) -> str:
        return f"Hello {said.content}"


async def test_a_text_is_a_text_and_a_process_of_another_door_is_a_task(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Greeter()) as other:
        client = replace(other, binding=binding)
        task = await client.send("Ada")
        assert task["artifacts"][0]["parts"] == [{"text": "Hello Ada"}]
        begun = await other.http.post("/api/v1/process", json={"goal": "greet", "input": {"content": "Bob"}})
        shown = await client.call("GetTask", id=begun.json()["processId"])
        assert shown["artifacts"][0]["parts"] == [{"text": "Hello Bob"}]
        assert shown["contextId"] == shown["id"]
