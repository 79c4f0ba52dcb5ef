"""Clients that declare the Tasks extension: goals that are long or ask answer with a task, and clients follow it."""

from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp_types import (
    INTERNAL_ERROR,
    METHOD_NOT_FOUND,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    CallToolResult,
    ElicitResult,
    InputRequiredResult,
)
from pydantic import BaseModel

from goalport import Export, WaitFor, achieves_goal, action, agent
from tests.rooms.serve.askers import (
    Answering,
    Cashier,
    Gate,
    Order,
    Pizza,
    Pizzeria,
    Receipt,
    Slow,
    Topping,
    Waiter,
    call,
    handle_of,
)
from tests.rooms.serve.following_tasks import TASKS, CreatedTask, FollowingTasks, ask, create, state_of_task
from tests.rooms.serve.served import Served, served, text_of
from tests.rooms.serve.test_callers import as_caller

HAM = {"name": "ham", "portions": 2}
SIZE = {"size": 30}
BAKED = {"content": "30 cm with 2 ham"}


@agent(description="Bakes at once")
class Quick:
    @achieves_goal(description="A pizza now", export=Export(remote=True, name="bake_now"))
    def bake(self, order: Order) -> Pizza:
        return Pizza(content=f"{order.size} cm")


class Guests(BaseModel):
    names: list[dict[str, str]]


@agent(description="Asks what no form shows")
class Host:
    @action
    def ask(self, order: Order) -> WaitFor[Guests]:
        return WaitFor.form_submission("Who comes?", Guests)

    @achieves_goal(description="A party", export=Export(remote=True, name="invite"))
    def invite(self, guests: Guests) -> Receipt:
        return Receipt(content=f"{len(guests.names)} guests")


@agent(description="Takes orders from those alone who follow tasks")
class Strict:
    @action
    def ask(self, order: Order) -> WaitFor[Topping]:
        return WaitFor.form_submission("Which topping?", Topping)

    @achieves_goal(
        description="A pizza by task", export=Export(remote=True, name="bake_task", task_required=True, wait_budget=5)
    )
    def bake(self, topping: Topping) -> Pizza:
        return Pizza(content=topping.name)


class Riddle(BaseModel):
    """What cannot be told: a fault of the server, and not of the goal."""

    done: bool = True

    @property
    def content(self) -> str:
        raise RuntimeError("This cannot be told")


@agent(description="Cannot tell its result")
class Riddler:
    @achieves_goal(description="A riddle", export=Export(remote=True, name="ask_riddle", long=True))
    def make(self, order: Order) -> Riddle:
        return Riddle()


def following(
    server: Served, extension: FollowingTasks, *, elicits: bool = True, **options: Any
) -> AbstractAsyncContextManager[Client]:
    if elicits:
        options["elicitation_callback"] = Answering.with_()
    return server.client(extensions=[extension], **options)


@asynccontextmanager
async def following_tasks(root: Path, *agents: object, elicits: bool = True) -> AsyncGenerator[tuple[Served, Client]]:
    """A server, and a client that declares tasks."""
    with anyio.fail_after(60):
        async with served(root, *agents) as server, following(server, FollowingTasks(), elicits=elicits) as client:
            yield server, client


def accept(**content: Any) -> dict[str, Any]:
    return {"action": "accept", "content": content}


async def asked(client: Client, task: str) -> tuple[str, str]:
    """The only question of a task: its key and its message."""
    told = await state_of_task(client, task, "input_required")
    ((key, request),) = told["inputRequests"].items()
    assert told["statusMessage"] in request["params"]["message"], "a list of tasks says what is asked"
    return key, request["params"]["message"]


async def test_a_goal_that_asks_is_followed_as_a_task_to_its_result(tmp_path: Path) -> None:
    person = Answering.with_(HAM)
    extension = FollowingTasks(person)
    async with served(tmp_path, Pizzeria()) as server, following(server, extension) as client:
        result = await call(client, "order_pizza", **SIZE)
        assert result.structured_content == BAKED
        assert person.asked == ["What shall be on a pizza of 30 cm?"]
        assert extension.tasks == [(await server.process()).id]
        assert extension.statuses[-1] == "completed"


async def test_a_question_of_a_sub_process_comes_too(tmp_path: Path) -> None:
    extension = FollowingTasks(Answering.with_(HAM))
    async with served(tmp_path, Pizzeria(), Waiter()) as server, following(server, extension) as client:
        result = await call(client, "serve_guest", **SIZE)
        assert result.structured_content == {"content": "Served: 30 cm with 2 ham"}


async def test_a_long_goal_works_until_it_is_done(tmp_path: Path) -> None:
    gate = Gate()
    async with following_tasks(tmp_path, Slow(gate)) as (_, client):
        task = await create(client, "bake", **SIZE)
        working = await ask(client.session, "tasks/get", task)
        assert working["status"] == "working"
        assert working["ttlMs"] is None
        assert working["pollIntervalMs"] > 0
        assert working["createdAt"] <= working["lastUpdatedAt"]
        gate.opened.set()
        done = await state_of_task(client, task, "completed")
        assert done["result"]["structuredContent"] == {"content": "at last"}
        assert done["result"]["resultType"] == "complete"


async def test_a_goal_that_neither_asks_nor_is_long_answers_directly(tmp_path: Path) -> None:
    extension = FollowingTasks()
    async with served(tmp_path, Quick()) as server, following(server, extension) as client:
        assert (await call(client, "bake_now", **SIZE)).structured_content == {"content": "30 cm"}
        assert extension.tasks == []


async def test_a_wrong_answer_is_asked_again_under_another_key_until_the_handle_comes(tmp_path: Path) -> None:
    async with following_tasks(tmp_path, Pizzeria()) as (server, client):
        task = await create(client, "order_pizza", **SIZE)
        keys: list[str] = []
        wrong: list[Any] = [accept(name="tar"), 7, accept(name="ham", portions=0)]
        for number, answer in enumerate(wrong):
            key, message = await asked(client, task)
            assert key not in keys
            assert ("name" in message) == (number == 1)
            keys.append(key)
            assert await ask(client.session, "tasks/update", task, {key: answer}) == {"resultType": "complete"}
            for late in keys:
                await ask(client.session, "tasks/update", task, {late: answer})
        done = await state_of_task(client, task, "completed")
        result = CallToolResult.model_validate(done["result"])
        assert handle_of(server, "order_pizza", result)["status"] == "waiting"
        assert (await server.process()).status == "waiting"


async def test_one_of_two_answers_leaves_the_other_question(tmp_path: Path) -> None:
    async with following_tasks(tmp_path, Pizzeria()) as (_, client):
        task = await create(client, "order_pizza", **SIZE)
        key, _ = await asked(client, task)
        await ask(client.session, "tasks/update", task, {"unknown": {"ignored": True}})
        assert await asked(client, task) == (key, "What shall be on a pizza of 30 cm?")
        await ask(client.session, "tasks/update", task, {key: accept(**HAM), "other": accept()})
        await ask(client.session, "tasks/update", task, {key: accept(name="cheese")})
        done = await state_of_task(client, task, "completed")
        assert done["result"]["structuredContent"] == BAKED


async def test_declined_is_a_no_and_dismissed_gives_the_handle(tmp_path: Path) -> None:
    async with following_tasks(tmp_path, Cashier()) as (server, client):
        declined, dismissed = await create(client, "pay", euros=5), await create(client, "pay", euros=6)
        key, _ = await asked(client, declined)
        await ask(client.session, "tasks/update", declined, {key: {"action": "decline"}})
        done = await state_of_task(client, declined, "completed")
        assert done["result"]["isError"]
        key, _ = await asked(client, dismissed)
        await ask(client.session, "tasks/update", dismissed, {key: {"action": "cancel"}})
        done = await state_of_task(client, dismissed, "completed")
        handle = handle_of(server, "pay", CallToolResult.model_validate(done["result"]))
        assert handle["processId"] == dismissed
        assert handle["questions"][0]["id"] == key
        await call(client, "process_answer", processId=dismissed, answer=True)
        done = await state_of_task(client, dismissed, "completed")
        assert done["result"]["structuredContent"] == {"content": "paid 6"}


@pytest.mark.parametrize(("goal", "elicits"), [("order_pizza", False), ("invite", True)])
async def test_a_client_that_cannot_be_asked_gets_the_handle_and_never_hangs(
    tmp_path: Path, goal: str, *, elicits: bool
) -> None:
    extension = FollowingTasks()
    async with (
        served(tmp_path, Pizzeria(), Host()) as server,
        following(server, extension, elicits=elicits) as client,
    ):
        handle = handle_of(server, goal, await call(client, goal, **SIZE))
        assert handle["status"] == "waiting"
        assert handle["processId"] == extension.tasks[0]


async def test_a_task_ends_failed_only_if_the_server_cannot_tell_the_result(tmp_path: Path) -> None:
    async with following_tasks(tmp_path, Riddler()) as (_, client):
        told = await state_of_task(client, await create(client, "ask_riddle", **SIZE), "failed")
    assert told["error"]["code"] == INTERNAL_ERROR
    assert told["statusMessage"] == told["error"]["message"]


async def test_a_task_is_kept_while_it_goes_on_and_for_a_time_after_its_end(tmp_path: Path) -> None:
    async with following_tasks(tmp_path, Pizzeria()) as (server, client):
        task = await create(client, "order_pizza", **SIZE)
        key, _ = await asked(client, task)
        assert (await ask(client.session, "tasks/get", task))["ttlMs"] is None
        await ask(client.session, "tasks/update", task, {key: accept(**HAM)})
        told = await state_of_task(client, task, "completed")
        process = await server.process()
    assert process.finished_at is not None
    lasted = (process.finished_at - process.created_at).total_seconds()
    assert told["ttlMs"] == int((lasted + server.state.settings.retention_days * 24 * 3600) * 1000)


async def test_a_cancelled_task_ends_its_process(tmp_path: Path) -> None:
    gate = Gate()
    async with following_tasks(tmp_path, Slow(gate), Pizzeria()) as (server, client):
        working, waiting = await create(client, "bake", **SIZE), await create(client, "order_pizza", **SIZE)
        await asked(client, waiting)
        for task in (working, waiting, working):
            assert await ask(client.session, "tasks/cancel", task) == {"resultType": "complete"}
            assert (await ask(client.session, "tasks/get", task))["status"] == "cancelled"
            assert (await server.platform.process(task)).status == "killed"


async def test_the_task_of_another_caller_is_unknown(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server:
        with as_caller("ada"):
            async with following(server, FollowingTasks()) as client:
                task = await create(client, "order_pizza", **SIZE)
                key, _ = await asked(client, task)
        with as_caller("bob"):
            async with following(server, FollowingTasks()) as client:
                for method in ("tasks/get", "tasks/update", "tasks/cancel"):
                    told: list[str] = []
                    for name in (task, "no-such-task"):
                        with pytest.raises(MCPError) as refused:
                            await ask(client.session, method, name, {key: accept(**HAM)})
                        told.append(refused.value.message.replace(name, "…"))
                    assert told[0] == told[1]
        assert (await server.process()).status == "waiting"


async def test_a_client_that_declares_no_tasks_is_refused(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria(), Strict()) as server, server.client() as client:
        assert TASKS in ((client.server_capabilities.extensions if client.server_capabilities else {}) or {})
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError) as refused:
                await ask(client.session, method, "any")
            assert refused.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
            assert refused.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}
        with pytest.raises(MCPError) as refused:
            await client.call_tool("bake_task", SIZE)
        assert refused.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
        assert await server.platform.processes.records() == []


async def test_earlier_revisions_have_no_tasks(tmp_path: Path) -> None:
    person = Answering.with_(HAM)
    extension = FollowingTasks()
    async with (
        served(tmp_path, Pizzeria()) as server,
        server.client("legacy", extensions=[extension], elicitation_callback=person) as client,
    ):
        assert (await call(client, "order_pizza", **SIZE)).structured_content == BAKED
        assert extension.tasks == []
        for method in ("tasks/get", "tasks/update", "tasks/cancel"):
            with pytest.raises(MCPError) as refused:
                await ask(client.session, method, "any")
            assert refused.value.code == METHOD_NOT_FOUND


async def test_with_a_wait_budget_the_first_questions_come_before_the_task(tmp_path: Path) -> None:
    async with following_tasks(tmp_path, Strict()) as (server, client):
        first = await client.session.call_tool("bake_task", SIZE, allow_input_required=True, allow_claimed=True)
        assert isinstance(first, InputRequiredResult)
        (key,) = first.input_requests or {}
        second = await client.session.call_tool(
            "bake_task",
            SIZE,
            input_responses={key: ElicitResult.model_validate(accept(**HAM))},
            request_state=first.request_state,
            allow_claimed=True,
            allow_input_required=True,
        )
        assert isinstance(second, CreatedTask)
        assert second.task_id == (await server.process()).id
        done = await state_of_task(client, second.task_id, "completed")
        assert done["result"]["structuredContent"] == {"content": "ham"}


async def test_a_call_that_is_repeated_under_its_key_joins_the_task(tmp_path: Path) -> None:
    meta: Any = {"goalport/idempotencyKey": "one"}
    async with following_tasks(tmp_path, Pizzeria()) as (server, client):
        tasks: set[str] = set()
        for _ in range(2):
            created = await client.session.call_tool("order_pizza", SIZE, meta=meta, allow_claimed=True)
            assert isinstance(created, CreatedTask)
            tasks.add(created.task_id)
        assert tasks == {(await server.process()).id}


async def test_any_server_of_the_store_answers_for_a_task(tmp_path: Path) -> None:
    async with (
        served(tmp_path, Pizzeria(), store="sqlite") as one,
        served(tmp_path, Pizzeria(), store="sqlite") as two,
        following(one, FollowingTasks()) as client,
        following(two, FollowingTasks()) as other,
    ):
        with anyio.fail_after(60):
            task = await create(client, "order_pizza", **SIZE)
            key, _ = await asked(other, task)
            await ask(other.session, "tasks/update", task, {key: accept(name="tar")})
            again, message = await asked(client, task)
            assert again != key
            assert "tar" in message
            assert await asked(other, task) == (again, message)
            await ask(client.session, "tasks/update", task, {again: accept(**HAM)})
            for each in (other, client):
                done = await state_of_task(each, task, "completed")
                assert text_of(CallToolResult.model_validate(done["result"])) == BAKED["content"]
