"""Conversations as MCP resources: read, listed, watched and completed by those to whom they belong."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp import Client, MCPError
from mcp_types import (
    INVALID_PARAMS,
    ResourceTemplateReference,
    ResourceUpdatedNotification,
    TextResourceContents,
    ToolListChangedNotification,
)

from tests.rooms.serve.askers import call
from tests.rooms.serve.served import ERAS, as_admin, as_caller, served, text_of
from tests.rooms.serve.test_chatting import Parrot, reply_of, say
from tests.rooms.serve.test_subscriptions import News, subscribed

# The revisions before 2026-07-28 subscribe as the SDK wants nobody to any more.
pytestmark = pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
AT = "goalport://conversations/"


async def read(client: Client, uri: str) -> TextResourceContents:
    (contents,) = (await client.read_resource(uri)).contents
    assert isinstance(contents, TextResourceContents)
    return contents


async def conversation(client: Client, *messages: str) -> str:
    """The id of a conversation in which this was said."""
    known: str | None = None
    for each in messages:
        known = reply_of(await say(client, "chat_parrot", each, known))["conversationId"]
    assert known is not None
    return known


async def listed(client: Client) -> Sequence[str]:
    """The ids of the conversations that are listed, over all pages."""
    found: list[str] = []
    cursor: str | None = None
    while True:
        page = await client.list_resources(cursor=cursor)
        found += [each.uri.removeprefix(AT) for each in page.resources if each.uri.startswith(AT)]
        cursor = page.next_cursor
        if cursor is None:
            return found


@pytest.mark.parametrize("era", ERAS)
async def test_a_conversation_is_read_as_markdown_and_as_data(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Parrot()) as server, server.client(era) as client:
        known = await conversation(client, "hello", "a map")
        text, data = await read(client, AT + known), await read(client, f"{AT}{known}/json")
    assert text.mime_type == "text/markdown"
    told = [text.text.index(each) for each in ("hello", "1: hello … hello", "a map", "2: hello … a map", "- Map")]
    assert told == sorted(told)
    messages: list[dict[str, Any]] = json.loads(data.text)["messages"]
    assert [each["role"] for each in messages] == ["user", "assistant"] * 2
    assert messages[-1]["assets"][0]["uri"] == "https://maps/1"


async def test_the_process_of_a_chatbot_between_two_messages_is_resting(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        await conversation(client, "hello")
        (process,) = (each.id for each in await server.platform.processes.records())
        data, _ = (await client.read_resource(f"goalport://processes/{process}")).contents
        assert isinstance(data, TextResourceContents)
        assert json.loads(data.text)["status"] == "resting"
        cancelled = await call(client, "process_cancel", processId=process)
    assert text_of(cancelled) == f"Process {process} is resting. It goes on with the next message of its conversation."


async def test_a_long_conversation_is_read_in_pages(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        known = await conversation(client, "word " * 60_000)
        whole, first = await read(client, AT + known), await read(client, f"{AT}{known}/1")
        number = (first.meta or {})["goalport/pages"]
        assert isinstance(number, int)
        rest = [(await read(client, f"{AT}{known}/{page}")).text for page in range(2, number + 1)]
        assert number > 1
        assert "".join([first.text, *rest]) == whole.text
        with pytest.raises(MCPError, match=f"the pages 1 to {number}"):
            await read(client, f"{AT}{known}/{number + 1}")


@pytest.mark.parametrize("era", ERAS)
async def test_nobody_reads_lists_or_watches_the_conversation_of_somebody_else(tmp_path: Path, era: str) -> None:
    async with served(tmp_path, Parrot()) as server:
        async with server.client(era) as client:
            with as_caller("anna"):
                known = await conversation(client, "mine")
                assert await listed(client) == [known]
        async with server.client(era) as client:
            with as_caller("ben"):
                for uri in (AT + known, f"{AT}{known}/1", f"{AT}{known}/json", f"{AT}made-up"):
                    with pytest.raises(MCPError, match="There is no resource") as refused:
                        await read(client, uri)
                    assert refused.value.code == INVALID_PARAMS
                assert not await listed(client)
                if era == "legacy":
                    with pytest.raises(MCPError):
                        await subscribed(client, AT + known)
        async with server.client(era) as client:
            with as_admin("root"):
                assert await listed(client) == [known]


async def test_the_newest_conversations_come_first_page_by_page(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot(), page_size=2) as server, server.client() as client:
        known = [await conversation(client, f"number {number}") for number in range(5)]
        assert await listed(client) == known[::-1]


async def test_a_client_that_watches_a_conversation_is_told_of_the_next_message(tmp_path: Path) -> None:
    news = News()
    async with served(tmp_path, Parrot()) as server, server.client("legacy", message_handler=news) as client:
        known = await conversation(client, "one")
        await subscribed(client, AT + known)
        await say(client, "chat_parrot", "two", known)
        told = await news.until(ResourceUpdatedNotification)
    assert {each.params.uri for each in told if isinstance(each, ResourceUpdatedNotification)} == {AT + known}


async def test_the_template_is_completed_with_conversations_of_the_caller(tmp_path: Path) -> None:
    async with served(tmp_path, Parrot()) as server, server.client() as client:
        known = await conversation(client, "one")
        reference = ResourceTemplateReference(uri=AT + "{id}")
        begun = await client.complete(reference, {"name": "id", "value": known[:8]})
        assert begun.completion.values == [known]
        assert not (await client.complete(reference, {"name": "id", "value": "made-up"})).completion.values


async def test_a_chatbot_that_is_deployed_later_is_published_and_clients_are_told(tmp_path: Path) -> None:
    news = News()
    async with (
        served(tmp_path) as server,
        server.state.publisher.connected(),
        server.client("legacy", message_handler=news) as client,
    ):
        assert "chat_parrot" not in {each.name for each in (await client.list_tools()).tools}
        server.platform.deploy(Parrot())
        await news.until(ToolListChangedNotification)
        assert reply_of(await say(client, "chat_parrot", "hello"))["reply"] == "1: hello … hello"
