"""The JavaScript client of OpenAI at the door of its API, with a model that streams over HTTP."""

from functools import partial
from pathlib import Path
from typing import Any

import pytest
from anyio import to_thread

from goalport import ActionContext, action
from goalport.models.llm import UserMessage
from goalport.runtime.chat import Conversation, chatbot
from tests.clients.running import CLIENTS, obeying
from tests.providers import Providers
from tests.rooms.openai_api.chats import chats, history


@chatbot(description="Says what a model says")
class Poet:
    @action(trigger=UserMessage, can_rerun=True)
    async def answer(self, conversation: Conversation, context: ActionContext) -> None:
        await context.send_message(context.ai.streaming().respond(conversation.messages))


async def test_the_client_chats_in_every_way(
    node: str, aimock: Providers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in aimock.environment.items():
        monkeypatch.setenv(name, value)
    aimock.answer("Roses", {"chunkSize": 6}, content="Roses are red, violets are blue")
    aimock.answer("More", content="Sugar is sweet")
    async with chats(tmp_path, Poet) as server:
        command = [node, str(CLIENTS / "node" / "openai.mjs"), str(server.openai.base_url)]
        with obeying(command, tmp_path) as tell:

            async def ask(what: str, **params: Any) -> Any:
                return await to_thread.run_sync(partial(tell, {"ask": what, "params": params}))

            assert await ask("models") == {"names": ["Poet"]}
            first = await ask("streamed", model="Poet", messages=history("Roses"))
            assert len(first["pieces"]) > 2
            assert "".join(first["pieces"]) == first["text"] == "Roses are red, violets are blue"
            assert first["reason"] == "stop"
            assert first["usage"]["total_tokens"] > 0
            more = await ask("whole", model="Poet", messages=history("Roses", first["text"], "More"))
            assert more["text"] == "Sugar is sweet"
            went_on = await ask("response", model="Poet", input="More", conversation=more["conversation"])
            assert (went_on["text"], went_on["conversation"]) == ("Sugar is sweet", more["conversation"])
            last = await ask("streamedResponse", model="Poet", input="Roses", previous_response_id=went_on["id"])
            assert last["text"] == first["text"]
            assert last["types"][-1] == "response.completed"
            refused = (await ask("whole", model="Poet", messages=history("Roses"), n=2))["error"]
            assert (refused["status"], refused["code"], refused["param"]) == (400, "unsupported_parameter", "n")
    heard = [[each["role"] for each in request["messages"]].count("user") for request in aimock.requests()]
    assert max(heard) == 4
