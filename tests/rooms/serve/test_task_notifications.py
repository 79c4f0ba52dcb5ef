"""Clients that listen for the state of tasks, and so need not poll."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp import Client, MCPError
from mcp.client.extension import NotificationBinding
from mcp.shared.subscriptions import SUBSCRIPTION_ID_META_KEY
from mcp_types import (
    INVALID_PARAMS,
    MISSING_REQUIRED_CLIENT_CAPABILITY,
    NotificationParams,
    SubscriptionFilter,
    SubscriptionsAcknowledgedNotification,
    SubscriptionsListenRequest,
    SubscriptionsListenRequestParams,
    SubscriptionsListenResult,
)
from pydantic import ConfigDict

from tests.rooms.serve.askers import Answering, Pizzeria
from tests.rooms.serve.following_tasks import TASKS, FollowingTasks, ask, create, state_of_task
from tests.rooms.serve.served import Served, served
from tests.rooms.serve.test_callers import as_caller

HAM = {"action": "accept", "content": {"name": "ham", "portions": 2}}


class TaskNews(NotificationParams):
    model_config = ConfigDict(extra="allow")


class Listening(FollowingTasks):
    """Keeps what it is told of tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.news: list[dict[str, Any]] = []
        self.subscriptions: set[object] = set()
        self._arrived = asyncio.Event()

    def notifications(self) -> Sequence[NotificationBinding[Any]]:
        return (NotificationBinding(method="notifications/tasks", params_type=TaskNews, handler=self.take),)

    async def take(self, params: TaskNews) -> None:
        self.subscriptions.add((params.meta or {}).get(SUBSCRIPTION_ID_META_KEY))
        self.news.append(params.model_extra or {})
        self._arrived.set()

    async def until(self, status: str) -> dict[str, Any]:
        """The newest state, once it is of this status."""
        while not self.news or self.news[-1]["status"] != status:
            await self._arrived.wait()
            self._arrived.clear()
        return self.news[-1]


def listen_request(tasks: object) -> SubscriptionsListenRequest:
    wanted = SubscriptionFilter.model_validate({"toolsListChanged": True, "taskIds": tasks})
    return SubscriptionsListenRequest(params=SubscriptionsListenRequestParams(notifications=wanted))


@asynccontextmanager
async def listening(client: Client, *tasks: str) -> AsyncGenerator[None]:
    async with anyio.create_task_group() as group:
        group.start_soon(client.session.send_request, listen_request([*tasks]), SubscriptionsListenResult)
        yield
        group.cancel_scope.cancel()


@asynccontextmanager
async def waiting_task(root: Path) -> AsyncGenerator[tuple[Served, Client, Listening, str]]:
    news = Listening()
    options: dict[str, Any] = {"extensions": [news], "elicitation_callback": Answering.with_()}
    with anyio.fail_after(60):
        async with served(root, Pizzeria()) as server, server.client(**options) as client:
            yield server, client, news, await create(client, "order_pizza", size=30)


def same(told: dict[str, Any], polled: dict[str, Any]) -> bool:
    return {**told, "resultType": "complete", "lastUpdatedAt": ""} == {**polled, "lastUpdatedAt": ""}


async def test_who_listens_is_told_each_state_of_a_task_as_a_poll_tells_it(tmp_path: Path) -> None:
    async with waiting_task(tmp_path) as (_, client, news, task), listening(client, task):
        told = await news.until("input_required")
        assert same(told, await state_of_task(client, task, "input_required"))
        (key,) = told["inputRequests"]
        await ask(client.session, "tasks/update", task, {key: HAM})
        told = await news.until("completed")
        assert same(told, await state_of_task(client, task, "completed"))
        assert len(news.subscriptions) == 1
        assert None not in news.subscriptions


async def test_an_answer_that_is_refused_is_news_as_well(tmp_path: Path) -> None:
    async with waiting_task(tmp_path) as (_, client, news, task), listening(client, task):
        (key,) = (await news.until("input_required"))["inputRequests"]
        await ask(client.session, "tasks/update", task, {key: {"action": "accept", "content": {"portions": "two"}}})
        while key in (told := await news.until("input_required"))["inputRequests"]:
            news.news.clear()
        ((_, request),) = told["inputRequests"].items()
        assert "portions" in request["params"]["message"]


async def test_the_tasks_of_others_are_left_out(tmp_path: Path) -> None:
    honored: list[SubscriptionFilter] = []
    acknowledged = anyio.Event()

    async def keep(message: object) -> None:
        if isinstance(message, SubscriptionsAcknowledgedNotification):
            honored.append(message.params.notifications)
            acknowledged.set()

    async with waiting_task(tmp_path) as (server, _, _, task):
        with as_caller("bob"):
            options: dict[str, Any] = {"extensions": [Listening()], "message_handler": keep}
            async with server.client(**options) as other, listening(other, task, "no-such-task"):
                await acknowledged.wait()
    assert [each.model_dump(by_alias=True, exclude_none=True) for each in honored] == [
        {"toolsListChanged": True, "taskIds": []}
    ]


async def test_a_client_that_declares_no_tasks_cannot_listen_for_them(tmp_path: Path) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client() as client:
        with pytest.raises(MCPError) as refused, anyio.fail_after(60):
            await client.session.send_request(listen_request(["any"]), SubscriptionsListenResult)
    assert refused.value.code == MISSING_REQUIRED_CLIENT_CAPABILITY
    assert refused.value.data == {"requiredCapabilities": {"extensions": {TASKS: {}}}}


@pytest.mark.parametrize("tasks", ["one", [1], {"id": "one"}])
async def test_what_names_no_tasks_is_refused(tmp_path: Path, tasks: object) -> None:
    async with served(tmp_path, Pizzeria()) as server, server.client(extensions=[Listening()]) as client:
        with pytest.raises(MCPError) as refused, anyio.fail_after(60):
            await client.session.send_request(listen_request(tasks), SubscriptionsListenResult)
    assert refused.value.code == INVALID_PARAMS
