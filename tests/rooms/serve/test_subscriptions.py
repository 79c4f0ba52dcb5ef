import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import anyio
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INVALID_PARAMS,
    PromptListChangedNotification,
    ResourceListChangedNotification,
    ResourceUpdatedNotification,
    ToolListChangedNotification,
)
from pydantic import BaseModel

from goalport import AgentPlatform, Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.base.caller import ANONYMOUS, Caller
from goalport.runtime.process import Completed
from goalport.workspace import load_workspace
from tests.rooms.serve.served import ERAS, Served, served

# The revisions before 2026-07-28 subscribe as the SDK wants nobody to any more.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")

FUNCTIONS = "\n".join(
    f"@tool(export=True)\ndef tool_{number}(a: int) -> int:\n    '''A tool.'''\n    return a" for number in range(7)
)
FILES = {"tools/many.py": f"from goalport import tool\n{FUNCTIONS}"}


class News:
    """What a client is told without asking."""

    def __init__(self) -> None:
        self.messages: list[object] = []
        self._arrived = asyncio.Event()

    async def __call__(self, message: object) -> None:
        self.messages.append(message)
        self._arrived.set()

    async def until(self, *kinds: type) -> Sequence[object]:
        with anyio.fail_after(60):
            while not all(any(isinstance(each, kind) for each in self.messages) for kind in kinds):
                await self._arrived.wait()
                self._arrived.clear()
        return self.messages


@pytest.mark.parametrize("era", ERAS)
async def test_a_long_list_comes_in_pages_that_together_are_the_list(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, files=FILES, page_size=3) as server, server.client(era) as client:
        names: list[str] = []
        cursor: str | None = None
        pages = 0
        while pages == 0 or cursor is not None:
            page = await client.list_tools(cursor=cursor)
            names += [tool.name for tool in page.tools]
            cursor, pages = page.next_cursor, pages + 1
    assert names == ["helloBanner", *(f"tool_{number}" for number in range(7))]
    assert pages == 3


async def test_a_page_that_is_full_is_the_last_when_nothing_follows(tmp_path: Path) -> None:
    async with served(tmp_path, files=FILES, page_size=8) as server, server.client() as client:
        assert (await client.list_tools()).next_cursor is None


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("cursor", ["nonsense", "Zm9v", "", "ÿ"])
async def test_a_cursor_that_is_none_of_ours_is_a_protocol_error(tmp_path: Path, era: str, cursor: str) -> None:
    async with served(tmp_path, files=FILES, page_size=3) as server, server.client(era) as client:
        with pytest.raises(MCPError) as caught:
            await client.list_tools(cursor=cursor)
    assert caught.value.code == INVALID_PARAMS


async def test_a_cursor_of_one_list_is_not_taken_for_another(tmp_path: Path) -> None:
    async with served(tmp_path, files=FILES, page_size=3) as server, server.client() as client:
        cursor = (await client.list_tools()).next_cursor
        for listing in (client.list_prompts, client.list_resources, client.list_resource_templates):
            with pytest.raises(MCPError, match="cursor"):
                await listing(cursor=cursor)


@pytest.mark.parametrize("era", ERAS)
async def test_a_client_sees_in_the_capabilities_that_lists_change(tmp_path: Path, era: str) -> None:
    async with served(tmp_path) as server, server.client(era) as client:
        capabilities = client.server_capabilities
    assert capabilities.tools is not None
    assert capabilities.tools.list_changed
    assert capabilities.prompts is not None
    assert capabilities.prompts.list_changed
    assert capabilities.resources is not None
    assert (capabilities.resources.list_changed, capabilities.resources.subscribe) == (True, True)


async def test_lists_may_be_kept_for_a_while_but_contents_not(tmp_path: Path) -> None:
    async with served(tmp_path) as server, server.client() as client:
        listed, read = await client.list_tools(), await client.read_resource("goalport://goals")
    assert (listed.ttl_ms > 0, listed.cache_scope) == (True, "private")
    assert (read.ttl_ms, read.cache_scope) == (0, "private")


async def test_handshake_clients_are_told_when_a_workspace_was_loaded_anew(tmp_path: Path) -> None:
    news = News()
    async with served(tmp_path, files=FILES) as server, server.client("legacy", message_handler=news) as client:
        await client.list_tools()
        await reload_with_one_tool(tmp_path, server)
        await news.until(ToolListChangedNotification, PromptListChangedNotification, ResourceListChangedNotification)
        assert [tool.name for tool in (await client.list_tools()).tools] == ["helloBanner", "only"]


async def test_later_clients_are_told_on_the_streams_that_they_opened(tmp_path: Path) -> None:
    async with served(tmp_path, files=FILES) as server, server.client() as client:
        with anyio.fail_after(60):
            async with client.listen(tools_list_changed=True) as events:
                await reload_with_one_tool(tmp_path, server)
                async for event in events:
                    assert type(event).__name__ == "ToolsListChanged"
                    break


@agent(description="Came later")
class Newcomer:
    @achieves_goal(description="A greeting", export=Export(remote=True, name="greet_newcomer"))
    def greet(self, said: UserInput) -> str:
        return f"Welcome, {said.content}"


@agent(description="Takes newcomers in, and sends them away")
class Host:
    @achieves_goal(description="A newcomer", export=Export(remote=True, name="take_in"))
    def take_in(self, platform: AgentPlatform) -> str:
        return platform.deploy(Newcomer()).name

    @achieves_goal(description="A farewell", export=Export(remote=True, name="send_away"))
    def send_away(self, platform: AgentPlatform) -> str:
        platform.undeploy("Newcomer")
        return "gone"


@pytest.mark.parametrize("era", ERAS)
async def test_an_agent_that_an_action_deploys_is_published_and_clients_are_told(tmp_path: Path, era: str) -> None:
    news = News()
    lists = (ToolListChangedNotification, PromptListChangedNotification, ResourceListChangedNotification)
    async with (
        served(tmp_path, Host()) as server,
        server.state.publisher.connected(),
        server.client(era, message_handler=news) as client,
        told_of_lists(client, era),
    ):
        for tool, published in (("take_in", True), ("send_away", False)):
            assert not (await client.call_tool(tool, {})).is_error
            await news.until(*lists)
            news.messages.clear()
            names = [each.name for each in (await client.list_tools(cache_mode="refresh")).tools]
            assert ("greet_newcomer" in names) == published


@asynccontextmanager
async def told_of_lists(client: Client, era: str) -> AsyncGenerator[None]:
    """The time in which a client is told of changed lists; before revision 2026-07-28 that is always."""
    if era == "legacy":
        yield
        return
    async with client.listen(tools_list_changed=True, prompts_list_changed=True, resources_list_changed=True):
        yield


async def reload_with_one_tool(root: Path, server: Served) -> None:
    (root / "tools/many.py").write_text(
        "from goalport import tool\n@tool(export=True)\ndef only(a: int) -> int:\n    '''One.'''\n    return a"
    )
    await server.state.publisher.adopt(load_workspace(root))


class Meal(BaseModel):
    content: str


@agent(description="Cooks in steps")
class Cook:
    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    @achieves_goal(description="A meal", export=Export(remote=True, name="cook"))
    @action
    async def cook(self, said: UserInput) -> Meal:
        self.begun.set()
        await self.go_on.wait()
        return Meal(content=said.content)


async def a_process(server: Served, cook: Cook, caller: Caller = ANONYMOUS) -> str:
    process = server.platform.start("Cook", UserInput("soup"), caller=caller)
    await cook.begun.wait()
    return f"goalport://processes/{process.id}"


async def test_a_handshake_client_hears_of_a_process_that_it_subscribed_to(tmp_path: Path) -> None:
    cook, news = Cook(), News()
    async with served(tmp_path, cook) as server, server.client("legacy", message_handler=news) as client:
        uri = await a_process(server, cook)
        await subscribed(client, uri)
        cook.go_on.set()
        messages = await news.until(ResourceUpdatedNotification)
    assert {each.params.uri for each in messages if isinstance(each, ResourceUpdatedNotification)} == {uri}


async def subscribed(client: Client, uri: str) -> None:
    await client.subscribe_resource(uri)  # pyright: ignore[reportDeprecated]


async def test_it_hears_no_more_once_it_unsubscribed(tmp_path: Path) -> None:
    cook, news = Cook(), News()
    async with served(tmp_path, cook) as server, server.client("legacy", message_handler=news) as client:
        uri = await a_process(server, cook)
        await subscribed(client, uri)
        await client.unsubscribe_resource(uri)  # pyright: ignore[reportDeprecated]
        cook.go_on.set()
        await (await server.process()).wait()
        await server.state.notifications.updated(uri)
        await anyio.wait_all_tasks_blocked()
    assert not news.messages
    assert server.state.notifications.watched[uri] == 0


async def test_a_later_client_hears_of_it_on_its_stream(tmp_path: Path) -> None:
    cook = Cook()
    async with served(tmp_path, cook) as server, server.client() as client:
        uri = await a_process(server, cook)
        with anyio.fail_after(60):
            async with client.listen(resource_subscriptions=[uri]) as events:
                cook.go_on.set()
                async for event in events:
                    assert getattr(event, "uri", None) == uri
                    break
        await anyio.wait_all_tasks_blocked()
        assert server.state.notifications.watched[uri] == 0


async def test_nobody_subscribes_to_the_process_of_somebody_else(tmp_path: Path) -> None:
    cook = Cook()
    async with served(tmp_path, cook) as server:
        uri = await a_process(server, cook, Caller("bob"))
        async with server.client("legacy") as client:
            with pytest.raises(MCPError) as caught:
                await subscribed(client, uri)
        assert caught.value.code == INVALID_PARAMS
        async with server.client() as client, client.listen(resource_subscriptions=[uri], tools_list_changed=True):
            assert server.state.notifications.watched[uri] == 0


async def test_a_client_that_left_is_told_nothing(tmp_path: Path) -> None:
    cook = Cook()
    async with served(tmp_path, cook) as server:
        uri = await a_process(server, cook)
        async with server.client("legacy") as client:
            await subscribed(client, uri)
        assert server.state.notifications.watched[uri] == 0
        with anyio.fail_after(60):
            await server.state.notifications.announce("tools")
        cook.go_on.set()
        await (await server.process()).wait()


class Order(BaseModel):
    """A wish."""

    dish: str


@agent(description="Takes an order")
class Waiter:
    @action
    async def ask(self, user_input: UserInput) -> WaitFor[Order]:
        return WaitFor.form_submission("What may it be?", Order)

    @achieves_goal(description="An order", export=Export(remote=True, name="take_order"))
    async def note(self, order: Order) -> Meal:
        return Meal(content=order.dish)


async def test_a_client_is_told_of_a_process_that_waited_when_it_goes_on(tmp_path: Path) -> None:
    news = News()
    async with served(tmp_path, Waiter()) as server, server.client("legacy", message_handler=news) as client:
        process = await server.platform.run("Waiter", UserInput("hungry"))
        await subscribed(client, f"goalport://processes/{process.id}")
        await server.platform.answer(process.id, response=Order(dish="soup"))
        await news.until(ResourceUpdatedNotification)
        assert await process.wait() == Completed(Meal(content="soup"))


async def test_the_addresses_of_clients_that_no_longer_listen_are_forgotten(tmp_path: Path) -> None:
    async with served(tmp_path) as server:
        async with server.client("legacy") as client:
            await client.subscribe_resource("goalport://made/up")  # pyright: ignore[reportDeprecated]
            await client.subscribe_resource("goalport://goals")  # pyright: ignore[reportDeprecated]
            await client.unsubscribe_resource("goalport://made/up")  # pyright: ignore[reportDeprecated]
            assert [*server.state.notifications.watched] == ["goalport://goals"]
        async with server.client() as client, client.listen(resource_subscriptions=["goalport://made/up"]):
            assert "goalport://made/up" in server.state.notifications.watched
    assert not server.state.notifications.watched
