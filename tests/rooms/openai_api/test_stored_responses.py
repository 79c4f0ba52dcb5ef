"""Responses that were given before are shown and deleted, to the caller whose they are and to nobody else."""

import asyncio
import base64
import time
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from openai import BadRequestError, NotFoundError
from openai.types.responses import Response

from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from tests.rooms.openai_api.chats import Chats, Echo, chats, make_key

PIXEL = base64.b64encode(b"\x89PNG").decode()
GATES: dict[str, asyncio.Event] = {}


@chatbot(description="Speaks slowly, and fails where it is told to")
class Slow:
    @action(trigger=UserMessage, can_rerun=True)
    async def speak(self, message: UserMessage, context: ActionContext) -> None:
        async def words() -> AsyncGenerator[str]:
            yield "One"
            await GATES["slow"].wait()
            yield " two"

        if message.content == "fail":
            raise ValueError("a sore throat")
        await context.send_message(words())


@dataclass(frozen=True)
class Address:
    street: str


@dataclass(frozen=True)
class Sent:
    content: str


@agent(description="Delivers")
class Courier:
    @action
    def ask(self, said: UserInput) -> WaitFor[Address]:
        return WaitFor.form_submission(f"Where does {said.content} go?", Address)

    @achieves_goal(description="A delivery", export=Export(remote=True, name="deliver"))
    def deliver(self, said: UserInput, to: Address) -> Sent:
        return Sent(f"{said.content} to {to.street}")


async def _texts(server: Chats, response_id: str, **given: Any) -> list[str]:
    """Each item that the client lists, over all pages: its role and its texts."""
    found: list[str] = []
    async for each in server.openai.responses.input_items.list(response_id, **given):
        item: Any = each
        assert (item.type, item.status) == ("message", "completed")
        found.append(f"{item.role}: {''.join(getattr(part, 'text', part.type) for part in item.content)}")
    return found


def _compared(response: Response) -> dict[str, Any]:
    return response.model_dump(exclude={"created_at", "completed_at", "usage"})


async def test_a_response_is_shown_again_as_it_was_given(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        create, retrieve = server.openai.responses.create, server.openai.responses.retrieve
        first = await create(model="Echo", input="one", instructions="Be brief.")
        second = await create(model="Echo", input="two", instructions="Be brief.", previous_response_id=first.id)
        for each in (first, second):
            shown = await retrieve(each.id)
            assert _compared(shown) == _compared(each)
            assert abs(shown.created_at - each.created_at) <= 2
        assert (await retrieve(first.id)).output_text == "1: one"
        again = await create(model="Echo", input="three", previous_response_id=second.id)
        assert again.output_text == "3: three"
        with pytest.raises(BadRequestError, match="sent whole") as refused:
            await retrieve(first.id, stream=True)
        assert refused.value.param == "stream"


async def test_a_response_says_a_minute_later_when_it_was_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with chats(tmp_path, Echo, Courier) as server:
        responses, now = server.openai.responses, time.time
        given = [await responses.create(model=each, input="one") for each in ("Echo", "deliver")]
        monkeypatch.setattr(time, "time", lambda: now() + 60)
        for each in given:
            shown = await responses.retrieve(each.id)
            for then, told in ((each.created_at, shown.created_at), (each.completed_at, shown.completed_at)):
                assert then is not None
                assert told == pytest.approx(then, abs=10)


async def test_what_was_said_before_a_response_is_listed_in_pages(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        parts: Any = [
            {"type": "input_text", "text": "one"},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        ]
        first = await server.openai.responses.create(model="Echo", input=[{"role": "user", "content": parts}])
        second = await server.openai.responses.create(model="Echo", input="two", previous_response_id=first.id)
        asked = ["user: oneinput_image", "assistant: 1: one", "user: two"]
        assert await _texts(server, second.id) == asked[::-1]
        assert await _texts(server, second.id, order="asc", limit=2) == asked
        assert await _texts(server, first.id) == asked[:1]
        with pytest.raises(BadRequestError) as refused:
            await _texts(server, second.id, limit=101)
        assert refused.value.param == "limit"


async def test_a_response_is_deleted_with_its_conversation_if_nothing_more_was_said_there(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        first = await server.openai.responses.create(model="Echo", input="one")
        await server.openai.responses.create(model="Echo", input="two", previous_response_id=first.id)
        with pytest.raises(BadRequestError, match="goalport conversations delete") as refused:
            await server.openai.responses.delete(first.id)
        assert refused.value.code == "response_continued"
        assert (await server.openai.responses.retrieve(first.id)).output_text == "1: one"

        alone = await server.openai.responses.create(model="Echo", input="alone")
        assert alone.conversation is not None
        deleted = await server.openai.responses.with_raw_response.delete(alone.id)
        assert deleted.http_response.json() == {"id": alone.id, "object": "response", "deleted": True}
        assert await server.web.platform.store.conversations.messages(alone.conversation.id) == []
        for gone in (server.openai.responses.retrieve, server.openai.responses.delete):
            with pytest.raises(NotFoundError) as missing:
                await gone(alone.id)
            assert missing.value.code == "response_not_found"


async def test_what_is_not_the_callers_or_not_stored_is_unknown(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo, Courier) as server:
        responses = server.openai.responses
        mine = await responses.create(model="Echo", input="one")
        asked = await responses.create(model="deliver", input="tea")
        unstored = [await responses.create(model=each, input="psst", store=False) for each in ("Echo", "deliver")]
        assert mine.conversation is not None
        unknown = ["resp_made.up", "made up", f"resp_{mine.conversation.id}.made-up", *(each.id for each in unstored)]
        for name in (*unknown, mine.id, asked.id):
            headers = {} if name in unknown else {"caller": "bert"}
            for ask in (responses.retrieve, responses.delete, responses.cancel, responses.input_items.list):
                with pytest.raises(NotFoundError) as missing:
                    await ask(name, extra_headers=headers)
                assert missing.value.code == "response_not_found"
        assert (await responses.retrieve(mine.id)).output_text == "1: one"


async def test_a_response_for_a_user_of_an_interface_is_shown_to_that_user_alone(tmp_path: Path) -> None:
    key = make_key(tmp_path, "webui", "goals:write", "goals:on-behalf-of")
    other = make_key(tmp_path, "anna", "goals:write")
    user = {"x-openwebui-user-id": "66e1c0"}
    async with chats(tmp_path, Echo, key=key) as server:
        response = await server.openai.responses.create(model="Echo", input="one", extra_headers=user)
        shown = await server.openai.responses.retrieve(response.id, extra_headers=user)
        assert shown.output_text == "1: one"
        for given, headers in ((key, {}), (other, user), (other, {})):
            with pytest.raises(NotFoundError):
                await server.openai.with_options(api_key=given).responses.retrieve(response.id, extra_headers=headers)


async def test_a_response_that_is_being_made_and_one_that_failed_are_shown_as_such(tmp_path: Path) -> None:
    GATES["slow"] = asyncio.Event()
    async with chats(tmp_path, Slow) as server:
        with anyio.fail_after(20):
            stream = await server.openai.responses.create(model="Slow", input="speak", stream=True)
            created: Any = await anext(aiter(stream))
            shown = await server.openai.responses.retrieve(created.response.id)
            assert (shown.status, shown.output) == ("in_progress", [])
            with pytest.raises(BadRequestError, match="only background responses can"):
                await server.openai.responses.cancel(created.response.id)
            GATES["slow"].set()
            events = [each async for each in stream]
        assert events[-1].type == "response.completed"
        shown = await server.openai.responses.retrieve(created.response.id)
        assert (shown.status, shown.output_text) == ("completed", "One two")
        failed = await server.openai.responses.create(model="Slow", input="fail")
        again = await server.openai.responses.retrieve(failed.id)
        assert (again.status, again.error) == ("failed", failed.error)


async def test_the_response_of_a_goal_is_shown_and_deleted_too(tmp_path: Path) -> None:
    async with chats(tmp_path, Courier) as server:
        responses = server.openai.responses
        asked = await responses.create(model="deliver", input="tea")
        assert (await responses.retrieve(asked.id)).output_text == asked.output_text
        told = await responses.create(model="deliver", input="Elm", previous_response_id=asked.id)
        shown = await responses.retrieve(told.id)
        assert (shown.model, shown.status, shown.output_text) == ("deliver", "completed", "tea to Elm")
        assert await _texts(server, told.id) == ["user: tea"]
        await responses.delete(told.id)
        with pytest.raises(NotFoundError):
            await responses.retrieve(told.id)
        assert await server.web.platform.processes.records() == []
