"""A task asks, and the next message of its client answers."""

from dataclasses import replace
from pathlib import Path

import anyio
import pytest

from goalport import ActionContext, Export, UserInput, achieves_goal, agent
from goalport.agents import WaitFor
from tests.rooms.a2a.other_agents import BINDINGS, Other, Refused, message, other_agent, state_in, words_of
from tests.rooms.agui.talkers import Kitchen
from tests.rooms.serve.askers import Gate, Pizzeria, Slow

ORDER = {"dish": "soup", "plates": 2}


@pytest.fixture(params=BINDINGS)
def binding(request: pytest.FixtureRequest) -> str:
    return request.param


async def test_a_question_is_a_form_and_data_answers_it(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Pizzeria()) as other:
        client = replace(other, binding=binding)
        task = await client.send({"size": 30}, contextId="c-1")
        assert state_in(task) == "input_required"
        assert words_of(task).startswith("What shall be on a pizza of 30 cm?")
        asked = task["status"]["message"]["parts"][1]["data"]
        assert asked["schema"]["properties"]["name"]["enum"] == ["ham", "cheese", "mushrooms"]
        for wrong in ({"name": "pineapple"}, {"portions": 2}):
            with pytest.raises(Refused, match="INVALID_PARAMS"):
                await client.answer(task, wrong)
        with pytest.raises(Refused, match="another context"):
            await client.answer(task, {"name": "ham"}, contextId="c-2")
        done = await client.answer(task, {"name": "ham", "portions": 2}, contextId="c-1")
        assert (done["id"], state_in(done)) == (task["id"], "completed")
        assert done["artifacts"][0]["parts"][0]["data"] == {"content": "30 cm with 2 ham"}
        assert [each["role"] for each in done["history"]] == ["ROLE_USER", "ROLE_AGENT", "ROLE_USER"]
        assert done["history"][2]["parts"][1]["data"] == {"name": "ham", "portions": 2}
        with pytest.raises(Refused, match="UNSUPPORTED_OPERATION"):
            await client.answer(task, {"name": "cheese"})


@pytest.mark.parametrize("said", ["yes", True, {"approved": True}])
async def test_words_and_bare_data_answer_too(tmp_path: Path, binding: str, said: object) -> None:
    async with other_agent(tmp_path, Kitchen()) as other:
        client = replace(other, binding=binding)
        task = await client.send(ORDER)
        with pytest.raises(Refused, match="neither a yes nor a no"):
            await client.answer(task, "perhaps")
        assert state_in(await client.answer(task, said)) == "completed"


@pytest.mark.parametrize(("said", "declined"), [("no", "No appetite"), ("No appetite", True)])
async def test_a_person_may_decline(tmp_path: Path, binding: str, said: str, declined: object) -> None:
    async with other_agent(tmp_path, Pizzeria()) as other:
        client = replace(other, binding=binding)
        task = await client.send({"size": 30})
        done = await client.answer(task, said, metadata={"declined": declined})
        assert state_in(done) == "failed"
        assert "No appetite" in words_of(done)


async def test_of_two_answers_at_once_one_counts(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Pizzeria()) as other:
        client = replace(other, binding=binding)
        task = await client.send({"size": 30})
        ends: list[str] = []

        async def answer(name: str) -> None:
            try:
                ends.append(state_in(await client.answer(task, {"name": name})))
            except Refused as refused:
                ends.append(refused.reason)

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(answer, "ham")
            tasks.start_soon(answer, "cheese")
        assert sorted(ends) == ["UNSUPPORTED_OPERATION", "completed"]


async def test_an_answer_that_comes_twice_counts_once(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, Twice()) as other:
        client = replace(other, binding=binding)
        task = await client.send("begin")
        yes = message("yes", taskId=task["id"])
        second = (await client.call("SendMessage", message=yes))["task"]
        assert words_of(second).startswith("Really?")
        again = (await client.call("SendMessage", message=yes))["task"]
        assert words_of(again).startswith("Really?")
        for unknown in ("q-nothing", ["q-nothing"], {"q": 1}):
            with pytest.raises(Refused, match="is not open"):
                await client.answer(task, "yes", metadata={"questionId": unknown})
        named = {"questionId": second["status"]["message"]["parts"][1]["data"]["questionId"]}
        assert state_in(await client.answer(task, "yes", metadata=named)) == "completed"


@agent(description="Asks twice")
class Twice:
    @achieves_goal(description="Agreed", export=Export(remote=True, name="agree"))
    async def agree(self, said: UserInput, context: ActionContext) -> str:
        first = await context.ask("Shall I?", bool)
        return f"{first} {await context.ask('Really?', bool)}"


@agent(description="Signs in somewhere")
class SignIn:
    @achieves_goal(description="What is there", export=Export(remote=True, name="look"))
    async def look(self, said: UserInput, context: ActionContext) -> str:
        await context.ask(WaitFor.url("Sign in there", "https://example.com/sign-in"))
        return "seen"


async def test_a_sign_in_is_required_where_only_a_person_can_do_it(tmp_path: Path, binding: str) -> None:
    async with other_agent(tmp_path, SignIn()) as other:
        client = replace(other, binding=binding)
        task = await client.send("begin")
        assert state_in(task) == "auth_required"
        assert task["status"]["message"]["parts"][1]["data"]["url"] == "https://example.com/sign-in"
        assert state_in(await client.answer(task, "done")) == "completed"


async def test_a_task_that_works_takes_no_message(tmp_path: Path, binding: str) -> None:
    gate = Gate()
    async with other_agent(tmp_path, Slow(gate)) as other:
        client: Other = replace(other, binding=binding)
        task = await client.send({"size": 20}, configuration={"returnImmediately": True})
        with pytest.raises(Refused, match="waits for no answer"):
            await client.answer(task, "hurry")
        gate.opened.set()
