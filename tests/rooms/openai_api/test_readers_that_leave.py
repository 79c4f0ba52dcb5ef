"""A reader that goes away leaves the reply to finish, unless the chatbot or the goal says otherwise."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from openai import AsyncStream
from openai.types.chat import ChatCompletionChunk

from goalport import ActionContext, Export, UserInput, WaitFor, achieves_goal, action, agent
from goalport.models.llm import UserMessage
from goalport.runtime.chat import ChatSession, chatbot
from goalport.runtime.process import ProcessStatus
from tests.rooms.openai_api.chats import Chats, chats, history


class Speaker:
    """Says a word, and the next one when it may."""

    def __init__(self) -> None:
        self.began, self.may_go_on = asyncio.Event(), asyncio.Event()

    async def words(self) -> AsyncGenerator[str]:
        yield "One"
        self.began.set()
        await self.may_go_on.wait()
        yield " two"


SPEAKERS: dict[str, Speaker] = {}


@chatbot(description="Finishes what it says")
class Patient:
    @action(trigger=UserMessage, can_rerun=True)
    async def speak(self, context: ActionContext) -> None:
        await context.send_message(SPEAKERS["Patient"].words())


@chatbot(description="Stops when nobody listens", stop_when_reader_leaves=True)
class Proud:
    @action(trigger=UserMessage, can_rerun=True)
    async def speak(self, context: ActionContext) -> None:
        await context.send_message(SPEAKERS["Proud"].words())


@dataclass(frozen=True)
class Report:
    content: str


@agent(description="Works slowly")
class Worker:
    @achieves_goal(description="A report", export=Export(remote=True, name="work"))
    async def work(self, said: UserInput) -> Report:
        SPEAKERS["work"].began.set()
        await SPEAKERS["work"].may_go_on.wait()
        return Report(said.content)


async def _leave(server: Chats, model: str, *, stream: bool) -> None:
    """Ask, and go away before the reply is complete."""
    speaker = SPEAKERS[model] = Speaker()
    request: dict[str, Any] = {"model": model, "messages": history("Speak"), "stream": stream}
    with anyio.fail_after(30):
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(server.post_as, "left", request)
            await speaker.began.wait()
            tasks.cancel_scope.cancel()


async def _session(server: Chats, model: str) -> ChatSession:
    session = await server.web.platform.chatbots[model].find_session("left")
    assert session is not None
    return session


@pytest.mark.parametrize("stream", [True, False])
async def test_the_reply_is_finished_and_stored(tmp_path: Path, *, stream: bool) -> None:
    async with chats(tmp_path, Patient) as server:
        await _leave(server, "Patient", stream=stream)
        turn = await (await _session(server, "Patient")).follow()
        assert turn is not None
        SPEAKERS["Patient"].may_go_on.set()
        with anyio.fail_after(30):
            assert (await turn.result()).text == "One two"


@pytest.mark.parametrize("stream", [True, False])
async def test_the_reply_stops_where_the_chatbot_says_so(tmp_path: Path, *, stream: bool) -> None:
    async with chats(tmp_path, Proud) as server:
        await _leave(server, "Proud", stream=stream)
        turn = await (await _session(server, "Proud")).follow()
        if turn is not None:
            with anyio.fail_after(30):
                assert (await turn.result()).text == ""
        stored = await server.web.platform.store.conversations.messages("left")
        assert [each.role for each in stored] == ["user"]


@pytest.mark.parametrize("stream", [True, False])
async def test_a_goal_that_nobody_waits_for_is_stopped(tmp_path: Path, *, stream: bool) -> None:
    async with chats(tmp_path, Worker) as server:
        await _leave(server, "work", stream=stream)
        (record,) = await server.web.platform.processes.records()
        process = await server.web.platform.process(record.id)
        with anyio.fail_after(30):
            await process.wait()
        assert process.status == ProcessStatus.KILLED


async def test_who_asks_again_meanwhile_joins_the_reply(tmp_path: Path) -> None:
    async with chats(tmp_path, Patient) as server:
        await _leave(server, "Patient", stream=True)
        again: Any = {"model": "Patient", "messages": history("Speak"), "extra_headers": {"x-conversation-id": "left"}}
        with anyio.fail_after(30):
            # A stream is there once its request has found the reply that is being made.
            streams = [await server.openai.chat.completions.create(**again, stream=True) for _ in range(2)]
            SPEAKERS["Patient"].may_go_on.set()
            for stream in streams:
                assert "".join([each.choices[0].delta.content or "" async for each in stream]) == "One two"
        assert len(await server.web.platform.store.conversations.messages("left")) == 2


async def test_a_chat_that_a_limit_refuses_leaves_no_conversation(tmp_path: Path) -> None:
    SPEAKERS["Patient"] = Speaker()
    async with chats(tmp_path, Patient, limits={"processes": 1}) as server:
        request: Any = {"model": "Patient", "messages": history("Speak")}
        with anyio.fail_after(30):
            stream = await server.openai.chat.completions.create(**request, stream=True)
            refused = await server.post("chat/completions", request)
            assert (refused.status_code, refused.headers["x-should-retry"]) == (429, "true")
            SPEAKERS["Patient"].may_go_on.set()
            assert [each async for each in stream]
        assert len(await server.web.platform.store.conversations.list()) == 1


async def test_a_stream_in_which_nothing_happens_has_a_heartbeat(tmp_path: Path) -> None:
    SPEAKERS["Patient"] = Speaker()
    async with chats(tmp_path, Patient, heartbeat_seconds=0.05) as server:
        request = {"model": "Patient", "messages": history("Speak"), "stream": True}
        address = f"{server.openai.base_url}chat/completions"
        with anyio.fail_after(30):
            async with httpx2.AsyncClient() as http, http.stream("POST", address, json=request) as answer:
                lines = answer.aiter_lines()
                while await anext(lines) != ": still here":
                    pass
                SPEAKERS["Patient"].may_go_on.set()
                assert "data: [DONE]" in [each async for each in lines]


@dataclass(frozen=True)
class Order:
    what: str


@chatbot(description="Speaks in two messages, and asks")
class Seller:
    @action(trigger=UserMessage, can_rerun=True)
    async def sell(self, context: ActionContext) -> WaitFor[Order]:
        await context.send_message("Welcome.")
        SPEAKERS["Seller"].began.set()
        await SPEAKERS["Seller"].may_go_on.wait()
        await context.send_message("We have tea.")
        return WaitFor.confirmation(Order("tea"), "Tea?")


async def test_readers_that_come_back_receive_the_whole_reply_and_its_question_is_stored_once(tmp_path: Path) -> None:
    async with chats(tmp_path, Seller) as server:
        await _leave(server, "Seller", stream=True)
        headers = {"x-conversation-id": "left", "x-stainless-retry-count": "1"}
        again: Any = {"model": "Seller", "messages": history("Speak"), "extra_headers": headers}
        texts: list[str] = []

        async def read(stream: AsyncStream[ChatCompletionChunk]) -> None:
            texts.append("".join([each.choices[0].delta.content or "" async for each in stream]))

        with anyio.fail_after(30):
            streams = [await server.openai.chat.completions.create(**again, stream=True) for _ in range(3)]
            SPEAKERS["Seller"].may_go_on.set()
            async with anyio.create_task_group() as readers:
                for stream in streams:
                    readers.start_soon(read, stream)
        assert len(set(texts)) == 1
        assert texts[0].startswith("Welcome.\n\nWe have tea.\n\nTea?\n\nAnswer yes or no.")
        stored = await server.web.platform.store.conversations.messages("left")
        assert [each.role for each in stored] == ["user", *["assistant"] * 3]
