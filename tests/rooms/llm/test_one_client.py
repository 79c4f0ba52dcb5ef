"""What a catalogue makes once and keeps, and how long it waits for the next piece of a stream."""

import gc
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import anyio
import httpx2
import pytest
from starlette.responses import Response, StreamingResponse

from goalport.base.errors import ModelUnavailable
from goalport.models.llm import LanguageModel, LlmOptions, TextDelta
from tests.rooms.llm.asking import call
from tests.rooms.llm.servers import chat, serving


async def test_a_model_is_made_once_and_its_settings_travel_with_each_call() -> None:
    async with serving(chat("Hello")) as server:
        models = server.models()
        cold, hot = LlmOptions(model="gpt-4.1-mini", temperature=0.1), LlmOptions(model="gpt-4.1-mini", temperature=0.9)
        assert models.choose(cold) is models.choose(hot)
        for options in (cold, hot):
            await models.choose(options).reply(replace(call("Hi"), options=options))
    assert [body["temperature"] for body in server.bodies] == [0.1, 0.9]


def open_clients() -> list[int]:
    return [id(each) for each in gc.get_objects() if isinstance(each, httpx2.AsyncClient) and not each.is_closed]


async def test_first_requests_that_come_together_open_one_client_which_is_closed() -> None:
    before = open_clients()
    async with serving(chat("Hello")) as server:
        model = server.models().choose(LlmOptions(model="gpt-4.1-mini"))
        async with anyio.create_task_group() as tasks:
            for _ in range(3):
                tasks.start_soon(model.reply, call("Hi"))
        assert len(server.bodies) == 3
    assert [each for each in open_clients() if each not in before] == []


async def one_piece_and_then_nothing(_: dict[str, Any]) -> Response:
    async def lines() -> AsyncIterator[str]:
        choice = {"index": 0, "delta": {"role": "assistant", "content": "Once"}, "finish_reason": None}
        chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m", "choices": [choice]}
        yield f"data: {json.dumps(chunk)}\n\n"
        await anyio.sleep_forever()

    return StreamingResponse(lines(), media_type="text/event-stream")


async def test_a_stream_that_stalls_between_two_pieces_ends_with_the_time_of_a_piece() -> None:
    said: list[str] = []

    async def listen(model: LanguageModel) -> None:
        async for piece in model.stream(replace(call("Tell me"), options=LlmOptions(timeout=0.5))):
            if isinstance(piece, TextDelta):
                said.append(piece.text)  # noqa: PERF401 - what came before the error counts

    async with serving(one_piece_and_then_nothing) as server:
        with anyio.fail_after(60), pytest.raises(ModelUnavailable, match=r"in time\. It had begun to answer"):
            await listen(server.model(max_attempts=1))
    assert said == ["Once"]
