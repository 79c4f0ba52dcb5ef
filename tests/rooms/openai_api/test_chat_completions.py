"""Chatbots answer OpenAI's client: whole or as a stream, with the history compared to what is stored."""

import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any

import anyio
import pytest
from openai import InternalServerError, NotFoundError
from openai.types.chat import ChatCompletionMessageParam

from goalport import ActionContext, action
from goalport.models.llm import TextDelta, ThinkingDelta, UserMessage
from goalport.runtime.chat import chatbot
from tests.rooms.openai_api.chats import Chats, Echo, chats, history

CONVERSATION = "x-conversation-id"


@chatbot(description="Begins to speak, and breaks off")
class Breaks:
    @action(trigger=UserMessage, can_rerun=True)
    async def speak(self, message: UserMessage, context: ActionContext) -> None:
        if message.content == "half":
            await context.send_message("The first half.")
        raise ValueError("no breath")


@chatbot(description="Thinks aloud, and speaks twice")
class Thinker:
    @action(trigger=UserMessage, can_rerun=True)
    async def think(self, context: ActionContext) -> None:
        async def pieces() -> AsyncGenerator[TextDelta | ThinkingDelta]:
            yield ThinkingDelta("Well, ")
            yield ThinkingDelta("hm.")
            yield TextDelta("Yes.")

        await context.send_message(pieces())
        await context.send_message("And no.")


async def _said(server: Chats, *said: str, **headers: str) -> tuple[str, str]:
    """What is answered to a history, and the id of the conversation."""
    raw = server.openai.chat.completions.with_raw_response
    answer = await raw.create(model="Echo", messages=history(*said), extra_headers=headers)
    return answer.parse().choices[0].message.content or "", answer.headers[CONVERSATION]


async def _messages(server: Chats, conversation: str) -> int:
    """How many messages all branches of a conversation have."""
    return len(await server.web.platform.store.conversations.messages(conversation))


async def test_a_reply_comes_whole(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        reply = await server.openai.chat.completions.create(model="Echo", messages=history("good day"))
        (choice,) = reply.choices
        assert (reply.object, reply.model) == ("chat.completion", "Echo")
        assert (choice.message.role, choice.message.content, choice.finish_reason) == (
            "assistant",
            "1: good day",
            "stop",
        )
        assert reply.usage is not None
        assert reply.usage.total_tokens == 0


async def test_a_streamed_reply_begins_with_the_role_and_ends_with_reason_usage_and_done(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        request = {"model": "Echo", "messages": history("good day"), "stream": True}
        text = await server.post("chat/completions", {**request, "stream_options": {"include_usage": True}})
        events = [line for line in text.text.split("\n\n") if line]
        assert text.headers["content-type"].startswith("text/event-stream")
        assert ": Listening" in events
        data = [each.removeprefix("data: ") for each in events if each.startswith("data: ")]
        assert data[-1] == "[DONE]"
        chunks: list[Any] = [json.loads(each) for each in data[:-1]]
        deltas = [each["choices"][0]["delta"] for each in chunks[:-1]]
        assert deltas == [
            {"role": "assistant", "content": ""},
            *({"content": each} for each in ("1:", " good", " day")),
            {},
        ]
        assert [each["choices"][0]["finish_reason"] for each in chunks[:-1]] == [None] * 4 + ["stop"]
        assert [each["usage"] for each in chunks[:-1]] == [None] * 5
        assert chunks[-1]["choices"] == []
        assert chunks[-1]["usage"]["total_tokens"] == 0
        assert len({each["id"] for each in chunks}) == 1


async def test_what_is_new_in_a_history_is_added_to_the_conversation_that_is_named(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        _, conversation = await _said(server, "one")
        named = {CONVERSATION: conversation}
        assert await _said(server, "one", "1: one", "two", **named) == ("2: two", conversation)
        assert await _said(server, "one", "1: one", "two", "2: two", "three", **named) == ("3: three", conversation)
        assert await _messages(server, conversation) == 6
        text, other = await _said(server, "one", "1: one", "deux")
        assert text == "2: deux"
        assert other != conversation, "what was said names no conversation"


async def test_an_edited_message_is_answered_in_a_branch_of_its_own(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        _, conversation = await _said(server, "one")
        await _said(server, "one", "1: one", "two", **{CONVERSATION: conversation})
        edited = await _said(server, "one", "1: one", "deux", **{CONVERSATION: conversation})
        assert edited == ("2: deux", conversation)
        assert await _messages(server, conversation) == 6


async def test_an_earlier_message_is_answered_anew(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        _, conversation = await _said(server, "one")
        await _said(server, "one", "1: one", "two", **{CONVERSATION: conversation})
        again = await _said(server, "one", **{CONVERSATION: conversation})
        assert again == ("1: one", conversation)
        assert await _messages(server, conversation) == 5


async def test_a_request_that_is_sent_again_gets_the_stored_reply(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        named = {CONVERSATION: "mine"}
        first = await _said(server, "one", **named)
        assert await _said(server, "one", **named, **{"x-stainless-retry-count": "1"}) == first
        assert await _messages(server, "mine") == 2


async def test_an_unknown_history_is_taken_over_with_its_instructions(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        said: list[ChatCompletionMessageParam] = [
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": "Be kind."},
            *history("from", "elsewhere", "here"),
        ]
        raw = server.openai.chat.completions.with_raw_response
        answer = await raw.create(model="Echo", messages=said)
        assert answer.parse().choices[0].message.content == "2: here"
        stored = await server.web.platform.store.conversations.messages(answer.headers[CONVERSATION])
        assert [(each.role, each.text) for each in stored] == [
            ("system", "Be brief.\n\nBe kind."),
            ("user", "from"),
            ("assistant", "elsewhere"),
            ("user", "here"),
            ("assistant", "2: here"),
        ]


async def test_two_tabs_that_speak_at_once_are_both_answered(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        _, conversation = await _said(server, "one")
        replies: list[tuple[str, str]] = []

        async def say(text: str) -> None:
            replies.append(await _said(server, "one", "1: one", text, **{CONVERSATION: conversation}))

        with anyio.fail_after(30):
            async with anyio.create_task_group() as tabs:
                tabs.start_soon(say, "left")
                tabs.start_soon(say, "right")
        assert sorted(replies) == [("2: left", conversation), ("2: right", conversation)]


async def test_a_reader_that_goes_away_leaves_the_reply_to_finish(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        request: Any = {"model": "Echo", "messages": history("to the end"), "extra_headers": {CONVERSATION: "left"}}
        stream = await server.openai.chat.completions.create(**request, stream=True)
        await anext(aiter(stream))
        await stream.close()
        session = await server.web.platform.chatbots["Echo"].find_session("left")
        assert session is not None
        if (turn := await session.follow()) is not None:
            await turn.result()
        assert (await _said(server, "to the end", "1: to the end", "on", **{CONVERSATION: "left"}))[0] == "2: on"


async def test_an_id_of_somebody_elses_conversation_is_answered_as_one_that_nobody_has(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        first, hers = await _said(server, "secret", caller="anna", **{CONVERSATION: "trip"})
        again, same = await _said(server, "secret", first, "and?", caller="anna", **{CONVERSATION: hers})
        assert (again, same) == ("2: and?", hers)
        for taken, free in (("trip", "free"), (hers, "0" * len(hers))):
            answers = [await _said(server, "mine", caller="bert", **{CONVERSATION: each}) for each in (taken, free)]
            assert [text for text, _ in answers] == ["1: mine", "1: mine"]
            assert {len(each) for _, each in answers} == {len(hers)}
            assert not {taken, free, hers} & {each for _, each in answers}
        assert (await _said(server, "mine", "1: mine", "more", caller="bert", **{CONVERSATION: "trip"}))[0] == "2: more"
        for named in ("trip", hers, "free"):
            with pytest.raises(NotFoundError, match="no conversation") as refused:
                await server.openai.responses.create(
                    model="Echo", input="and?", conversation=named, extra_headers={"caller": "cora"}
                )
            assert refused.value.code == "conversation_not_found"
        response = await server.openai.responses.create(
            model="Echo", input="and now?", conversation="trip", extra_headers={"caller": "bert"}
        )
        assert response.output_text == "3: and now?"


async def test_a_failure_is_an_error_that_is_not_tried_again(tmp_path: Path) -> None:
    async with chats(tmp_path, Breaks) as server:
        create = server.openai.with_options(max_retries=2).chat.completions.create
        with pytest.raises(InternalServerError, match=r"Breaks\.speak failed") as failed:
            await create(model="Breaks", messages=history("go"), extra_headers={CONVERSATION: "once"})
        assert (failed.value.code, failed.value.type) == ("reply_failed", "server_error")
        assert await _messages(server, "once") == 1
        half = await create(model="Breaks", messages=history("half"))
        assert (half.choices[0].message.content, half.choices[0].finish_reason) == ("The first half.", "length")


async def test_a_failure_in_a_stream_is_told_in_it(tmp_path: Path) -> None:
    async with chats(tmp_path, Breaks) as server:
        answer = await server.post("chat/completions", {"model": "Breaks", "messages": history("go"), "stream": True})
        *_, error, done = [each.removeprefix("data: ") for each in answer.text.split("\n\n") if each]
        assert json.loads(error)["error"]["code"] == "reply_failed"
        assert done == "[DONE]"


async def test_thoughts_come_apart_from_the_text_and_several_messages_as_one(tmp_path: Path) -> None:
    async with chats(tmp_path, Thinker) as server:
        request = {"model": "Thinker", "messages": history("Is it so?")}
        message = (await server.post("chat/completions", request)).json()["choices"][0]["message"]
        assert (message["reasoning_content"], message["content"]) == ("Well, hm.", "Yes.\n\nAnd no.")
        stream = await server.openai.chat.completions.create(model="Thinker", messages=history("So?"), stream=True)
        deltas = [each.choices[0].delta async for each in stream]
        thoughts = [getattr(each, "reasoning_content", None) for each in deltas]
        assert [each for each in thoughts if each] == ["Well, ", "hm."]
        assert "".join(each.content or "" for each in deltas) == "Yes.\n\nAnd no."


async def test_instructions_after_the_message_of_the_user_stand_before_it(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        said: Any = [{"role": "user", "content": "hi", "name": "Ana"}, {"role": "system", "content": "Be brief."}]
        answer = await server.post_as("told", {"model": "Echo", "messages": said})
        assert answer.json()["choices"][0]["message"]["content"] == "1: hi"
        stored = await server.web.platform.store.conversations.messages("told")
        assert [(each.role, each.name) for each in stored] == [("system", ""), ("user", "Ana"), ("assistant", "")]
        first = await server.openai.responses.create(model="Echo", input=said)
        again = await server.openai.responses.create(model="Echo", input=said, previous_response_id=first.id)
        assert (first.output_text, again.output_text) == ("1: hi", "2: hi")
