"""What is wrong in a request, or would not be honoured, is refused by its name and in the shape of OpenAI's API."""

import base64
from pathlib import Path
from typing import Any

import pytest
from openai import APIStatusError, BadRequestError

from goalport import ActionContext, action
from goalport.models.llm import UserMessage
from goalport.runtime.chat import chatbot
from tests.rooms.openai_api.chats import Echo, chats, history

PIXEL = base64.b64encode(b"\x89PNG not a real one").decode()

REFUSED: dict[str, Any] = {
    "n": 2,
    "response_format": {"type": "json_object"},
    "tool_choice": "required",
    "functions": [{"name": "look_up"}],
    "function_call": {"name": "look_up"},
    "logprobs": True,
    "top_logprobs": 3,
    "logit_bias": {"50256": -100},
    "modalities": ["text", "audio"],
    "audio": {"voice": "alloy", "format": "mp3"},
    "web_search_options": {"search_context_size": "low"},
}
IGNORED: dict[str, Any] = {
    "n": 1,
    "temperature": 0.2,
    "top_p": 1,
    "presence_penalty": 0,
    "frequency_penalty": 0,
    "seed": 7,
    "stop": ["\n"],
    "user": "66e1c0",
    "max_tokens": 100,
    "max_completion_tokens": 100,
    "response_format": {"type": "text"},
    "tools": [{"type": "function", "function": {"name": "get_current_timestamp", "parameters": {}}}],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "logprobs": False,
    "store": False,
    "metadata": {"purpose": "chat"},
    "reasoning_effort": "low",
    "service_tier": "auto",
    "top_k": 40,
    "logit_bias": None,
}


@chatbot(description="Says what images it is shown")
class Viewer:
    @action(trigger=UserMessage, can_rerun=True)
    async def look(self, message: UserMessage, context: ActionContext) -> None:
        shown = ", ".join(f"{each.media_type} of {len(each.data)} bytes" for each in message.images)
        await context.send_message(f"{message.content}: {shown}")


async def test_parameters_that_would_not_be_honoured_are_refused_by_name(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        for name, value in REFUSED.items():
            answer = await server.post("chat/completions", {"model": "Echo", "messages": history("hi"), name: value})
            error = answer.json()["error"]
            assert answer.status_code == 400, name
            assert (error["type"], error["code"]) == ("invalid_request_error", "unsupported_parameter")
            assert error["param"] == name
            assert error["message"].startswith(f"{name}: ")
            assert answer.headers["x-should-retry"] == "false"
        assert await server.web.platform.store.conversations.list() == []


async def test_hints_for_a_model_and_remarks_are_taken_without_effect(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        answer = await server.post("chat/completions", {"model": "Echo", "messages": history("hi"), **IGNORED})
        assert answer.json()["choices"][0]["message"]["content"] == "1: hi"


CLOSED: list[dict[str, Any]] = [
    {"openai_api": False},
    {"host": "0.0.0.0", "auth": {"insecure_no_auth": True}},  # noqa: S104 - the setting is read, no socket is bound to it
]
WRONG: list[tuple[Any, str, str]] = [
    ([], "messages", "at least 1"),
    ([{"role": "wizard", "content": "hi"}], "messages[0].role", "should be 'system', 'developer', 'user'"),
    ([{"role": "user"}], "messages[0]", "should have content"),
    ([{"role": "assistant", "content": "hi"}], "messages", "it is from assistant"),
    ([{"role": "system", "content": "hi"}], "messages", "it is missing"),
    ([{"role": "tool", "content": "4"}], "messages[0]", "tool_call_id"),
    ([{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}], "messages[0].content", "'text'"),
    ("hi", "messages", "a list"),
    ([{"role": "user", "content": ""}], "messages[0].content", "should have a text or an image, but is empty"),
    ([*history("hi", "1: hi", " \n"), {"role": "system", "content": "Be brief."}], "messages[2].content", "is empty"),
    ([{"role": "user", "content": [{"type": "text", "text": " "}]}], "messages[0].content", "is empty"),
]
EMPTY_INPUTS: list[tuple[Any, str]] = [
    ("", "input"),
    (" \n", "input"),
    ([], "input"),
    ([{"role": "assistant", "content": "hi"}, {"role": "user", "content": " "}], "input[1].content"),
]


async def test_messages_that_are_wrong_are_refused_by_their_place(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        for messages, param, words in WRONG:
            answer = await server.post("chat/completions", {"model": "Echo", "messages": messages})
            error = answer.json()["error"]
            assert answer.status_code == 400, messages
            assert words in error["message"]
            assert error["param"].startswith(param)


async def test_a_response_to_an_empty_input_is_refused_by_its_place(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        for given, param in EMPTY_INPUTS:
            with pytest.raises(BadRequestError) as refused:
                await server.openai.responses.create(model="Echo", input=given, instructions="Be brief.")
            assert refused.value.param == param
        assert await server.web.platform.store.conversations.list() == []


async def test_an_image_alone_is_a_message(tmp_path: Path) -> None:
    async with chats(tmp_path, Viewer) as server:
        parts: Any = [{"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}]
        said: Any = [{"role": "user", "content": parts}]
        reply = await server.openai.chat.completions.create(model="Viewer", messages=said)
        assert reply.choices[0].message.content == ": image/png of 19 bytes"


async def test_images_come_as_data_and_never_by_address(tmp_path: Path) -> None:
    async with chats(tmp_path, Viewer) as server:

        async def shown(url: str) -> str:
            parts: Any = [{"type": "text", "text": "this"}, {"type": "image_url", "image_url": {"url": url}}]
            said: Any = [{"role": "user", "content": parts}]
            reply = await server.openai.chat.completions.create(model="Viewer", messages=said)
            return reply.choices[0].message.content or ""

        assert await shown(f"data:image/png;base64,{PIXEL}") == "this: image/png of 19 bytes"
        for url in ("http://169.254.169.254/latest", "file:///etc/passwd", f"data:text/html;base64,{PIXEL}", "data:,x"):
            with pytest.raises(BadRequestError, match="no address is fetched"):
                await shown(url)
        with pytest.raises(BadRequestError, match="an image in base64"):
            await shown("data:image/png;base64,AAA")


async def test_a_megabyte_of_text_is_answered_and_more_than_a_body_may_have_is_refused(tmp_path: Path) -> None:
    async with chats(tmp_path, Viewer, max_body_bytes=2_000_000) as server:
        create = server.openai.chat.completions.create
        reply = await create(model="Viewer", messages=history("a" * 1_000_000))
        assert len(reply.choices[0].message.content or "") == 1_000_002
        with pytest.raises(APIStatusError) as refused:
            await create(model="Viewer", messages=history("a" * 2_000_000))
        assert refused.value.status_code == 413
        assert refused.value.code == "too_large"


async def test_other_mistakes_have_the_same_shape(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        for path, body, status, code in [
            ("chat/completions", {"model": "Echo", "messages": history("hi"), "temprature": 1}, 400, "invalid_value"),
            ("chat/completions", ["hi"], 400, "invalid_value"),
            ("chat/completions", {"messages": history("hi")}, 400, "invalid_value"),
            ("models", {}, 405, "wrong_method"),
            ("embeddings", {}, 404, "unknown_path"),
        ]:
            answer = await server.post(path, body)
            error = answer.json()["error"]
            assert (answer.status_code, error["code"], error["type"]) == (status, code, "invalid_request_error"), path


async def test_a_limit_says_when_to_try_again(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo, limits={"calls_per_minute": 1}) as server:
        request = {"model": "Echo", "messages": history("hi")}
        assert (await server.post("chat/completions", request)).status_code == 200
        answer = await server.post("chat/completions", request)
        assert (answer.status_code, answer.headers["x-should-retry"]) == (429, "true")
        assert 0 < int(answer.headers["retry-after"]) <= 60
        assert answer.json()["error"]["type"] == "rate_limit_error"


@pytest.mark.parametrize("given", CLOSED)
async def test_the_door_is_closed_by_its_setting_and_where_strangers_could_call(
    tmp_path: Path, given: dict[str, Any]
) -> None:
    async with chats(tmp_path, Echo, **given) as server:
        answer = await server.post("chat/completions", {"model": "Echo", "messages": history("hi")})
        assert answer.status_code == 404
