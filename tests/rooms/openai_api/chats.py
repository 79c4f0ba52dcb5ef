"""A server with the door of OpenAI's API on a socket of this machine, its client, and chatbots. No test is in here."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from openai import AsyncOpenAI
from openai.types.chat import ChatCompletionMessageParam

from goalport import ActionContext, action
from goalport.models.llm import UserMessage
from goalport.runtime.chat import Conversation, chatbot
from goalport.server.auth.keys import KeyFile, new_key
from goalport.workspace.settings import load_settings
from tests.rooms.rest.web import Web, web


@dataclass(frozen=True)
class Chats:
    """A server, and the official client of it."""

    web: Web
    openai: AsyncOpenAI

    async def post(self, path: str, body: object, **headers: str) -> httpx2.Response:
        """The response to a request that is sent as it is."""
        sent = {"Authorization": f"Bearer {self.openai.api_key}", **headers}
        async with httpx2.AsyncClient(base_url=self.openai.base_url, timeout=20) as http:
            return await http.post(path, json=body, headers=sent)

    async def post_as(self, conversation: str, body: object) -> httpx2.Response:
        """The response to a request for a chat in a conversation."""
        return await self.post("chat/completions", body, **{"x-conversation-id": conversation})


def make_key(root: Path, name: str, *scopes: str) -> str:
    """A key for the server of this folder, which asks for keys from then on."""
    made = new_key(name, scopes, None)
    with KeyFile(load_settings(root).key_file).changing() as entries:
        entries.append(made.entry)
    return made.key.get_secret_value()


def history(*said: str) -> list[ChatCompletionMessageParam]:
    """Messages of a user and of an assistant in turns, beginning with the user."""
    return [
        {"role": "assistant", "content": each} if number % 2 else {"role": "user", "content": each}
        for number, each in enumerate(said)
    ]


@asynccontextmanager
async def chats(root: Path, *agents: object, key: str = "unknown", **settings: Any) -> AsyncGenerator[Chats]:
    """Serve chatbots and goals on a free port for as long as the block lasts."""
    async with (
        web(root, *agents, **settings) as served,
        AsyncOpenAI(base_url=f"{served.http.base_url}/v1", api_key=key, max_retries=0, timeout=20) as client,
    ):
        yield Chats(served, client)


@chatbot(description="Says what it is told, word by word, and how many messages it has heard")
class Echo:
    @action(trigger=UserMessage, can_rerun=True)
    async def echo(self, message: UserMessage, conversation: Conversation, context: ActionContext) -> None:
        heard = sum(each.role == "user" for each in conversation.entries)

        async def words() -> AsyncGenerator[str]:
            yield f"{heard}:"
            for word in message.content.split():
                yield f" {word}"

        context.progress("Listening")
        await context.send_message(words())
