"""A conversation over MCP, as people have it: the official client over a socket, in both eras of the protocol."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextResourceContents

from goalport import ActionContext, action
from goalport.chat import Conversation, chatbot
from goalport.models import UserMessage
from tests.rooms.rest.web import Web, web
from tests.rooms.serve.askers import Answering, call
from tests.rooms.serve.served import ERAS, text_of

MEGABYTE = "Take this down. " * 65_536


@chatbot(description="Keeps the books, and pays when somebody agrees")
class Bookkeeper:
    def __init__(self) -> None:
        self.writing = anyio.Event()
        self.goes_on = anyio.Event()

    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, message: UserMessage, conversation: Conversation, context: ActionContext) -> None:
        asked = [each.text for each in conversation.entries if each.role == "user"]
        if message.content.startswith("pay"):
            agreed = await context.ask(f"Shall I {message.content}?", bool)
            await context.send_message("It is paid." if agreed else "It is not paid.")
        elif message.content == "report":
            await context.send_message(self._report())
        else:
            await context.send_message(f"{len(asked)} so far, first {asked[0]!r:.40}")

    async def _report(self) -> AsyncGenerator[str]:
        yield "This year "
        self.writing.set()
        await self.goes_on.wait()
        yield "was a good one."


@dataclass
class Heard:
    """What a client hears of a reply before it is complete."""

    book: Bookkeeper
    texts: list[str] = field(default_factory=list[str])

    async def __call__(self, progress: float, total: float | None, message: str | None) -> None:
        self.texts.append(message or "")
        if message == "This year":
            self.book.goes_on.set()


@asynccontextmanager
async def client_of(server: Web, name: str, era: str, **options: Any) -> AsyncGenerator[Client]:
    async with (
        httpx2.AsyncClient(headers={"Caller": name}, timeout=20) as http,
        Client(streamable_http_client(f"{server.http.base_url}/mcp", http_client=http), mode=era, **options) as client,
    ):
        yield client


async def say(client: Client, message: str, known: str = "", **options: Any) -> dict[str, Any]:
    given = {"message": message, **({"conversationId": known} if known else {})}
    with anyio.fail_after(60):
        result = await client.call_tool("chat_bookkeeper", given, **options)
    assert isinstance(result, CallToolResult)
    assert not result.is_error, result
    reply: Any = result.structured_content
    return reply


@pytest.mark.parametrize("era", ERAS)
async def test_a_conversation_of_three_turns_with_an_approval_and_a_client_that_leaves(
    tmp_path: Path, era: str
) -> None:
    book, person = Bookkeeper(), Answering.with_({"confirmed": True})
    heard = Heard(book)
    async with web(tmp_path, book, store="sqlite") as server:
        async with client_of(server, "anna", era, elicitation_callback=person) as client:
            known = (await say(client, "hello"))["conversationId"]
            assert (await say(client, "report", known, progress_callback=heard))["reply"] == "This year was a good one."
            assert (await say(client, "pay 5 euros", known))["reply"] == "It is paid."
        assert "This year" in heard.texts
        assert person.asked == ["Shall I pay 5 euros?"]

        book.writing, book.goes_on = anyio.Event(), anyio.Event()
        async with client_of(server, "anna", era) as client, anyio.create_task_group() as tasks:
            tasks.start_soon(say, client, "report", known)
            with anyio.fail_after(60):
                await book.writing.wait()
            tasks.cancel_scope.cancel()
        book.goes_on.set()
        async with client_of(server, "anna", era) as client:
            assert (await say(client, "and now?", known))["reply"].startswith("5 so far, first 'hello'")
            (text,) = (await client.read_resource(f"goalport://conversations/{known}")).contents
            assert isinstance(text, TextResourceContents)
            assert text.text.count("This year was a good one.") == 2


@pytest.mark.parametrize("era", ERAS)
async def test_what_comes_from_others_from_nowhere_at_once_or_in_a_megabyte(tmp_path: Path, era: str) -> None:
    replies: list[str] = []
    async with web(tmp_path, Bookkeeper()) as server:
        async with client_of(server, "anna", era) as client:
            known = (await say(client, MEGABYTE))["conversationId"]

            async def one(message: str) -> None:
                replies.append((await say(client, message, known))["reply"])

            async with anyio.create_task_group() as tasks:
                tasks.start_soon(one, "left")
                tasks.start_soon(one, "right")
            assert sorted(each[:8] for each in replies) == ["2 so far", "3 so far"]
        async with client_of(server, "ben", era) as client:
            for conversation in (known, "made-up"):
                refused = await call(client, "chat_bookkeeper", message="hello", conversationId=conversation)
                assert refused.is_error
                assert f"There is no conversation {conversation!r}" in text_of(refused)
