"""Goals that take longer than a request may, and what the leaving of a client means for a process that has a handle."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.server.auth.middleware.auth_context import auth_context_var
from mcp.server.auth.middleware.bearer_auth import AuthenticatedUser
from mcp.server.auth.provider import AccessToken

from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent, run_subagent
from goalport.runtime.process import ProcessStatus
from tests.rooms.serve.askers import Gate, Order, Pizza, Pizzeria, Receipt, Slow, Topping, call, handle_of
from tests.rooms.serve.served import ERAS, published, served, text_of


@pytest.mark.parametrize("era", ERAS)
async def test_long_work_is_handed_over_when_the_budget_is_spent_and_its_result_is_fetched_later(
    tmp_path: Path, era: str
) -> None:
    gate = Gate()
    async with served(tmp_path, Slow(gate)) as server, server.client(era) as client:
        begun = await call(client, "bake", size=30)
        handle = handle_of(server, "bake", begun)
        assert (handle["status"], handle["questions"]) == ("running", [])
        assert f'call process_status with {{"processId": "{handle["processId"]}", "waitSeconds": 25}}' in text_of(begun)
        assert "Do not call bake again" in text_of(begun)
        looked = await call(client, "process_status", processId=handle["processId"])
        assert handle_of(server, "bake", looked) == handle
        gate.opened.set()
        end = await call(client, "process_status", processId=handle["processId"], waitSeconds=5)
        assert end.structured_content == {"content": "at last"}


async def test_who_looks_on_hears_of_progress_and_leaves_without_harm(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, Slow(gate), heartbeat_seconds=0.02) as server, server.client() as client:
        handle = handle_of(server, "bake", await call(client, "bake", size=30))
        heard = anyio.Event()

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            heard.set()

        async def look() -> None:
            arguments = {"processId": handle["processId"], "waitSeconds": 20}
            await client.call_tool("process_status", arguments, progress_callback=on_progress)

        with anyio.fail_after(60):
            async with anyio.create_task_group() as tasks:
                tasks.start_soon(look)
                await heard.wait()
                tasks.cancel_scope.cancel()
        gate.opened.set()
        end = await call(client, "process_status", processId=handle["processId"], waitSeconds=5)
        assert end.structured_content == {"content": "at last"}


@agent(description="Bakes for hours after an answer")
class Patient:
    def __init__(self, gate: Gate) -> None:
        self.gate = gate

    @action
    def ask(self, order: Order) -> WaitFor[Topping]:
        return WaitFor.form_submission("What on top?", Topping)

    @achieves_goal(description="A pizza", export=Export(remote=True, name="bake_slowly", wait_budget=20))
    async def bake(self, topping: Topping, context: ActionContext) -> Pizza:
        await self.gate.passed(context)
        return Pizza(content=topping.name)


async def test_going_away_kills_what_runs_and_nothing_that_waits_for_a_person(tmp_path: Path) -> None:
    gate = Gate()
    async with served(tmp_path, Patient(gate)) as server:
        async with server.client() as client:
            waiting = handle_of(server, "bake_slowly", await call(client, "bake_slowly", size=30))
            running = handle_of(server, "bake_slowly", await call(client, "bake_slowly", size=31))
            answer = {"processId": running["processId"], "answer": {"name": "ham"}}
            with anyio.fail_after(60):
                async with anyio.create_task_group() as tasks:
                    tasks.start_soon(client.call_tool, "process_answer", answer)
                    await gate.begun.wait()
                    tasks.cancel_scope.cancel()
                outcome = await (await server.platform.process(running["processId"])).wait()
        assert outcome.status is ProcessStatus.KILLED
        assert (await server.platform.process(waiting["processId"])).status is ProcessStatus.WAITING
        gate.opened.set()
        async with server.client() as client:
            answer = {"processId": waiting["processId"], "answer": {"name": "cheese"}}
            end = await call(client, "process_answer", **answer)
            assert end.structured_content == {"content": "cheese"}


@contextmanager
def as_caller(name: str) -> Generator[None]:
    token = AccessToken(token=name, client_id="client", scopes=[], subject=name, claims={"iss": "https://issuer"})
    before = auth_context_var.set(AuthenticatedUser(token))
    try:
        yield
    finally:
        auth_context_var.reset(before)


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("process_status", {}),
        ("process_answer", {"answer": {"name": "ham"}}),
        ("process_answer", {"answer": True}),
        ("process_cancel", {}),
    ],
)
async def test_a_process_is_unknown_to_everybody_but_its_caller(
    tmp_path: Path, tool: str, arguments: dict[str, object]
) -> None:
    async with served(tmp_path, Pizzeria()) as server:
        with as_caller("ada"):
            async with server.client() as client:
                handle = handle_of(server, "order_pizza", await call(client, "order_pizza", size=30))
        with as_caller("eve"):
            async with server.client() as client:
                refused = await call(client, tool, processId=handle["processId"], **arguments)
                assert refused.is_error
                assert "or it is not yours" in text_of(refused)
        assert (await server.platform.process(handle["processId"])).status is ProcessStatus.WAITING


async def test_a_call_under_the_same_key_gets_the_same_handle(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        meta: Any = {"goalport/idempotencyKey": "k"}
        results = [await client.call_tool("order_pizza", {"size": 30}, meta=meta) for _ in range(2)]
        first, second = (each.structured_content for each in results)
        assert first == second
        assert len(await server.platform.processes.records()) == 1


@agent(description="Does not say that it may ask")
class Sly:
    @achieves_goal(description="A receipt", export=Export(remote=True, name="be_sly"))
    async def serve(self, order: Order) -> Receipt:
        return Receipt(content=(await run_subagent("Pizzeria", Pizza, order)).content)


async def test_a_goal_that_asks_without_having_said_so_is_stopped_and_its_author_told_what_to_write(
    tmp_path: Path,
) -> None:
    async with served(tmp_path, Pizzeria(), Sly()) as server, server.client() as client:
        refused = await call(client, "be_sly", size=30)
        assert refused.is_error
        assert "Export(long=True)" in text_of(refused)
        assert {each.status for each in await server.platform.processes.records()} == {ProcessStatus.KILLED}


@agent(description="Plans a party")
class Party:
    @action
    def ask_topping(self, user_input: UserInput) -> WaitFor[Topping]:
        return WaitFor.form_submission("Which topping?", Topping)

    @action
    def ask_size(self, user_input: UserInput) -> WaitFor[Order]:
        return WaitFor.form_submission("Which size?", Order)

    @action
    def ask_money(self, user_input: UserInput) -> WaitFor[Pizza]:
        return WaitFor.confirmation(Pizza(content="paid"), "Pay?")

    @achieves_goal(description="A party", export=Export(remote=True, name="party"))
    def end(self, topping: Topping, order: Order, paid: Pizza) -> Receipt:
        return Receipt(content=f"{topping.name} {order.size} {paid.content}")


async def test_several_questions_are_answered_one_by_one_by_their_ids(tmp_path: Path) -> None:
    async with served(tmp_path, Party()) as server, server.client() as client:
        handle = handle_of(server, "party", await call(client, "party", content="now"))
        process, ids = handle["processId"], {each["message"]: each["id"] for each in handle["questions"]}
        vague = await call(client, "process_answer", processId=process, answer={"name": "ham"})
        assert vague.is_error
        assert f"Give the questionId of the one you answer: {ids['Which topping?']}: Which topping?" in text_of(vague)
        wrong = await call(client, "process_answer", processId=process, questionId=ids["Pay?"], answer={})
        assert "answer: should be yes or no" in text_of(wrong)
        submit = "process_answer"
        after = await call(client, submit, processId=process, questionId=ids["Which topping?"], answer={"name": "ham"})
        assert [each["message"] for each in handle_of(server, "party", after)["questions"]] == ["Which size?", "Pay?"]
        paid = await call(client, submit, processId=process, questionId=ids["Pay?"], answer=True)
        assert [each["message"] for each in handle_of(server, "party", paid)["questions"]] == ["Which size?"]
        end = await call(client, submit, processId=process, answer={"size": 40})
        assert end.structured_content == {"content": "ham 40 paid"}


@agent(description="Called like a companion")
class Impostor:
    @action
    def ask(self, user_input: UserInput) -> WaitFor[Order]:
        return WaitFor.form_submission("Size?", Order)

    @achieves_goal(description="A status", export=Export(remote=True, name="process_status"))
    def status(self, order: Order) -> Receipt:
        return Receipt(content="fake")


def test_a_goal_that_is_called_like_a_companion_is_reported_and_not_published(tmp_path: Path) -> None:
    found = published(tmp_path, Impostor())
    assert found.tools["process_status"].tool.title == "Status of a process"
    (problem,) = found.problems
    assert "Goal Impostor.status" in problem or "goal Impostor.status" in problem
    assert "'process_status'" in problem


@pytest.mark.parametrize("seconds", [0, -1, float("inf"), float("nan")])
def test_a_wait_budget_is_some_seconds(seconds: float) -> None:
    with pytest.raises(ValueError, match="seconds above 0"):
        Export(wait_budget=seconds)
