"""A streamed answer is whole when its provider says so: what merely ends is no answer, and is asked for again."""

import gzip
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import pytest
from starlette.responses import Response, StreamingResponse

from goalport.base.errors import ModelUnavailable
from tests.rooms.llm.asking import LOOK_UP, call, pieces_of
from tests.rooms.llm.servers import Answer, body, serving, sse, stream


def sent(text: str, size: int, kind: str = "text/event-stream") -> Answer:
    """A text in pieces of that size."""

    async def answer(_: dict[str, Any]) -> Response:
        async def pieces() -> AsyncIterator[str]:
            for start in range(0, len(text), size):
                yield text[start : start + size]
                await anyio.lowlevel.checkpoint()

        return StreamingResponse(pieces(), media_type=kind)

    return answer


CLAUDE = "anthropic:claude-haiku-4-0"
Event = dict[str, Any]
RESPONSES = "openai-responses:gpt-4.1-mini"


def claude_events(usage: dict[str, int] | None = None) -> list[Event]:
    """An answer of Claude that calls a tool, event by event."""
    about: Event = {"id": "m1", "type": "message", "role": "assistant", "model": "claude-haiku-4-0", "content": []}
    message = about | {"stop_reason": None, "stop_sequence": None}
    counted = {} if usage is None else {"usage": usage}
    wanted: Event = {"type": "tool_use", "id": "t1", "name": "look_up", "input": {}}
    piece = {"type": "input_json_delta", "partial_json": '{"subject": "message_stop"}'}
    return [
        {"type": "message_start", "message": message | counted},
        {"type": "content_block_start", "index": 0, "content_block": wanted},
        {"type": "content_block_delta", "index": 0, "delta": piece},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": "tool_use", "stop_sequence": None}, **counted},
        {"type": "message_stop"},
    ]


USED = {"input_tokens": 3, "output_tokens": 5}


@pytest.mark.parametrize("events", range(6))
async def test_an_answer_of_claude_that_ends_before_it_says_so_is_none(events: int) -> None:
    async with serving(sse(*claude_events(USED)[:events]), sse(*claude_events(USED))) as server:
        _, _, reply = await pieces_of(server.model(CLAUDE), call("Look", tools=(LOOK_UP,)))
    assert [each.arguments for each in reply.message.calls] == ['{"subject": "message_stop"}']
    assert len(server.bodies) == 2, "nothing of the first was told, so it was asked again"


async def test_an_answer_that_is_always_cut_is_an_error_that_says_so() -> None:
    async with serving(sse(*claude_events(USED)[:-1])) as server:
        with pytest.raises(ModelUnavailable, match="before it said that it was at its end"):
            await pieces_of(server.model(CLAUDE), call("Look", tools=(LOOK_UP,)))
    assert len(server.bodies) == 3


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "mine:llama", "ollama:llama"])
async def test_what_speaks_as_openai_does_says_why_it_ended_or_that_it_has(name: str) -> None:
    piece: Event = {"index": 0, "delta": {"content": '[DONE] {"finish_reason": "stop"}'}, "finish_reason": None}
    ended: Event = {"index": 0, "delta": {}, "finish_reason": "stop"}
    about: Event = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    first, last = about | {"choices": [piece]}, about | {"choices": [ended]}
    for events in ([first, "[DONE]"], [first, last]):
        async with serving(sse(*events)) as server:
            text, _, _ = await pieces_of(server.model(name), call("Tell me a story"))
        assert text.startswith("[DONE]")
    async with serving(sse(first)) as server:
        with pytest.raises(ModelUnavailable, match=r"before it said that it was at its end.*had begun to answer"):
            await pieces_of(server.model(name), call("Tell me a story"))


async def test_what_only_looks_like_the_end_is_none() -> None:
    about: Event = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    piece: Event = {"index": 0, "delta": {"content": "data: [DONE] is how it ends. " * 50}, "finish_reason": ""}
    text = f"data: {json.dumps(about | {'choices': [piece]})}\n\n"
    for size in (100, len(text)):
        async with serving(sent(text, size)) as server:
            with pytest.raises(ModelUnavailable, match="before it said that it was at its end"):
                await pieces_of(server.model(), call("How does a stream end?"))


@pytest.mark.parametrize("kind", ["Text/Event-Stream", "text/plain", "application/octet-stream"])
async def test_a_stream_under_another_type_is_held_to_its_end_likewise(kind: str) -> None:
    text = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in claude_events(USED))
    async with serving(sent(text.partition("event: message_stop")[0], 50, kind), sent(text, 50, kind)) as server:
        _, _, reply = await pieces_of(server.model(CLAUDE), call("Look", tools=(LOOK_UP,)))
    assert [each.name for each in reply.message.calls] == ["look_up"]
    assert len(server.bodies) == 2


async def test_a_response_ends_by_saying_so() -> None:
    created: Event = {
        "type": "response.created",
        "sequence_number": 0,
        "response": {"id": "r1", "model": "m", "output": []},
    }
    async with serving(sse(created)) as server:
        with pytest.raises(ModelUnavailable, match="before it said that it was at its end"):
            await pieces_of(server.model(RESPONSES), call("Tell me a story"))


@pytest.mark.parametrize("name", ["gpt-4.1-mini", "mine:llama", RESPONSES, CLAUDE])
async def test_a_clean_end_before_the_first_piece_is_tried_again_and_told(name: str) -> None:
    async with serving(sse()) as server:
        with pytest.raises(ModelUnavailable, match=r"before it said that it was at its end.*asked 3 times"):
            await pieces_of(server.model(name), call("Tell me a story"))
    assert len(server.bodies) == 3


async def test_an_answer_that_came_compressed_is_read_likewise() -> None:
    def packed(*events: dict[str, Any]) -> Answer:
        body = "".join(f"event: {each['type']}\ndata: {json.dumps(each)}\n\n" for each in events)

        async def answer(_: dict[str, Any]) -> Response:
            headers = {"content-encoding": "gzip"}
            return Response(gzip.compress(body.encode()), headers=headers, media_type="text/event-stream")

        return answer

    async with serving(packed(*claude_events(USED)[:-1]), packed(*claude_events(USED))) as server:
        _, _, reply = await pieces_of(server.model(CLAUDE), call("Look", tools=(LOOK_UP,)))
    assert reply.usage.tokens == 8
    assert len(server.bodies) == 2


async def test_an_answer_that_does_not_say_what_it_used_is_one_of_openai_and_none_of_claude() -> None:
    async with serving(stream({"content": "Hello"}, ended=True)) as server:
        text, _, reply = await pieces_of(server.model(), call("Hello"))
    assert (text, reply.usage.tokens) == ("Hello", 0)
    async with serving(sse(*claude_events())) as server:
        with pytest.raises(ModelUnavailable, match="does not say how many tokens were used"):
            await pieces_of(server.model(CLAUDE), call("Hello"))


OVERLOADED: Event = {"error": {"message": "Too many people", "code": 503}}
LASTING: Event = {"error": {"message": "No such tenant"}}


@pytest.mark.parametrize("name", ["gpt-4.1-mini", RESPONSES, CLAUDE])
@pytest.mark.parametrize(("error", "asked"), [(OVERLOADED, 3), (LASTING, 1)], ids=["503", "plain"])
async def test_an_error_with_the_status_of_an_answer_is_one(name: str, error: dict[str, Any], asked: int) -> None:
    told = f"answered with an error: {error['error']['message']}"
    async with serving(body(json.dumps(error))) as server:
        with pytest.raises(ModelUnavailable, match=told):
            await server.model(name).reply(call("Hello"))
        with pytest.raises(ModelUnavailable, match=told):
            await pieces_of(server.model(name), call("Hello"))
    assert len(server.bodies) == 2 * asked


async def test_an_error_in_place_of_the_first_choice_is_one() -> None:
    about: Event = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m"}
    message = {"role": "assistant", "content": ""}
    failed: Event = {"index": 0, "finish_reason": "error", "message": message, **OVERLOADED}
    answers: list[tuple[Event, int]] = [(about | {"choices": [failed]}, 3), (LASTING | {"choices": []}, 1)]
    for answer, asked in answers:
        async with serving(body(json.dumps(answer))) as server:
            with pytest.raises(ModelUnavailable, match=r"answered with an error: (Too many people|No such tenant)"):
                await server.model().reply(call("Hello"))
        assert len(server.bodies) == asked


@pytest.mark.parametrize("name", ["gpt-4.1-mini", RESPONSES, CLAUDE])
async def test_an_error_in_a_stream_is_one(name: str) -> None:
    async with serving(sse(LASTING | {"type": "error"})) as server:
        with pytest.raises(ModelUnavailable, match="answered with an error: No such tenant"):
            await pieces_of(server.model(name), call("Hello"))
