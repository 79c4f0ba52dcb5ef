"""Responses: what goes on from an earlier one, from a conversation, or from nothing."""

from pathlib import Path
from typing import Any

import pytest
from openai import BadRequestError, NotFoundError

from tests.rooms.openai_api.chats import Chats, Echo, chats


async def _stored(server: Chats, conversation: str) -> int:
    return len(await server.web.platform.store.conversations.messages(conversation))


async def test_a_response_goes_on_from_an_earlier_one_or_forks_there(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        create = server.openai.responses.create
        first = await create(model="Echo", input="one", instructions="Be brief.")
        second = await create(model="Echo", input="two", previous_response_id=first.id)
        fork = await create(model="Echo", input="deux", previous_response_id=first.id)
        third = await create(model="Echo", input="three", previous_response_id=second.id)
        texts = [each.output_text for each in (first, second, fork, third)]
        assert texts == ["1: one", "2: two", "2: deux", "3: three"]
        assert first.conversation is not None
        assert [each.conversation for each in (second, fork, third)] == [first.conversation] * 3
        assert (first.status, first.instructions, second.previous_response_id) == ("completed", "Be brief.", first.id)
        assert await _stored(server, first.conversation.id) == 9


async def test_a_conversation_goes_on_by_its_id_from_both_apis(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        first = await server.openai.responses.create(model="Echo", input="one")
        assert first.conversation is not None
        named = first.conversation.id
        said: Any = [{"role": "user", "content": [{"type": "input_text", "text": "two"}]}]
        second = await server.openai.responses.create(model="Echo", input=said, conversation=named)
        third = await server.openai.responses.create(model="Echo", input="three", conversation={"id": named})
        assert [second.output_text, third.output_text] == ["2: two", "3: three"]


async def test_a_streamed_response_tells_each_of_its_parts(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        async with server.openai.responses.stream(model="Echo", input="good day") as stream:
            events = [each async for each in stream]
            final = await stream.get_final_response()
        assert [each.type for each in events] == [
            "response.created",
            "response.in_progress",
            "response.output_item.added",
            "response.content_part.added",
            *["response.output_text.delta"] * 3,
            "response.output_text.done",
            "response.content_part.done",
            "response.output_item.done",
            "response.completed",
        ]
        assert [each.sequence_number for each in events] == list(range(len(events)))
        assert final.output_text == "1: good day"
        again = await server.openai.responses.create(model="Echo", input="on", previous_response_id=final.id)
        assert again.output_text == "2: on"


async def test_what_is_not_to_be_stored_is_deleted_when_it_is_answered(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        response = await server.openai.responses.create(model="Echo", input="psst", store=False)
        assert response.output_text == "1: psst"
        assert response.conversation is not None
        assert await _stored(server, response.conversation.id) == 0
        with pytest.raises(NotFoundError, match="There is no conversation or response"):
            await server.openai.responses.create(model="Echo", input="and?", previous_response_id=response.id)


async def test_what_a_response_cannot_go_on_from_is_refused(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        create = server.openai.responses.create
        first = await create(model="Echo", input="one")
        assert first.conversation is not None
        for unknown in ("resp_123", f"resp_{first.conversation.id}.made-up", "resp_made.up"):
            with pytest.raises(NotFoundError) as missing:
                await create(model="Echo", input="two", previous_response_id=unknown)
            assert missing.value.code == "conversation_not_found"
        with pytest.raises(NotFoundError):
            await create(model="Echo", input="two", conversation="made-up")
        with pytest.raises(NotFoundError):
            await create(model="Echo", input="two", previous_response_id=first.id, extra_headers={"caller": "bert"})
        with pytest.raises(BadRequestError, match="either the conversation or the previous_response_id"):
            await create(model="Echo", input="two", previous_response_id=first.id, conversation=first.conversation.id)
        with pytest.raises(BadRequestError, match="store may be false only"):
            await create(model="Echo", input="two", previous_response_id=first.id, store=False)
        with pytest.raises(BadRequestError, match="background") as refused:
            await create(model="Echo", input="two", background=True)
        assert refused.value.param == "background"


async def test_what_is_not_to_be_stored_leaves_other_conversations_alone(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        said: Any = [{"role": "user", "content": "one"}]
        first = await server.openai.chat.completions.create(
            model="Echo", messages=said, extra_headers={"x-conversation-id": "mine"}
        )
        said += [{"role": "assistant", "content": first.choices[0].message.content}, {"role": "user", "content": "two"}]
        for headers in ({}, {"x-conversation-id": "mine"}):
            create = server.openai.responses.create
            response = await create(model="Echo", input=said, store=False, extra_headers=headers)
            assert response.output_text == "2: two"
            assert await _stored(server, "mine") == 2


async def test_the_same_instructions_with_each_response_are_stored_once(tmp_path: Path) -> None:
    async with chats(tmp_path, Echo) as server:
        previous = ""
        for told in ("Be brief.", "Be brief.", "Be brief.", "Be kind."):
            response = await server.openai.responses.create(
                model="Echo", input="hi", instructions=told, extra_body={"previous_response_id": previous}
            )
            previous = response.id
        assert response.conversation is not None
        stored = await server.web.platform.store.conversations.messages(response.conversation.id)
        assert [each.text for each in stored if each.role == "system"] == ["Be brief.", "Be kind."]
